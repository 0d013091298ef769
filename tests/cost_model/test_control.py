"""How often bodies run, against ONNX Runtime."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime

from hetpart.cost_model.formulas import work_of
from hetpart.cost_model.formulas.control import trips_of
from hetpart.cost_model.formulas.operands import Operands
from hetpart.graph.ir import Graph, Shape
from tests.cost_model.build import Builder, single

F32 = "float32"


def body_of(size: int) -> Graph:
    """A flop for each element."""
    b = Builder()
    b.op("Relu", [b.value((size,))], (size,))
    return b.graph()


def test_scan_of_opset_8_runs_for_each_sequence_of_its_batch() -> None:
    """By ONNX Runtime: a counter that every trip adds 1 to comes to the length, in each of the sequences."""
    batch, length, size = 3, 100, 8
    body = f"body = b (float[{size}] s, float[{size}] x) => (float[{size}] n, float[{size}] seen)"
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 8]> g (float[{batch}, {size}] s, float[{batch}, {length}, {size}] xs)'
        f"=> (float[{batch}, {size}] last, float[{batch}, {length}, {size}] all) {{"
        f"last, all = Scan <num_scan_inputs = 1, {body} {{ n = Add (s, x)  seen = Identity (n) }}> (, s, xs) }}"
    )
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {"s": np.zeros((batch, size), np.float32), "xs": np.ones((batch, length, size), np.float32)}
    last = session.run(["last"], feeds)[0]
    inputs: list[tuple[Shape | None, str] | None] = [None, ((batch, size), F32), ((batch, length, size), F32)]
    shapes: list[Shape | None] = [(batch, size), (batch, length, size)]
    graph = single("Scan", inputs, shapes, version=8, bodies=(body_of(size),), num_scan_inputs=1)
    work = work_of(graph.ops[0], graph)
    assert work is not None
    assert work.flops == last.sum()
    unknown = single(
        "Scan", [None, inputs[1], ((batch, None, size), F32)], shapes, version=8, bodies=graph.ops[0].bodies
    )
    assert trips_of(Operands.of(unknown.ops[0], unknown)) is None
