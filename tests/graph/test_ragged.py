"""Parts that a loop takes between offsets, against what ONNX Runtime makes of them."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, parser

import hetpart
from hetpart.graph.ir import Graph, Op

BAGS, LENGTH, WIDTH = 32, 20, 64
ROWS = BAGS * LENGTH
_AROUND = """
<ir_version: 10, opset_import: ["" : 20]>
bags (float[{rows}, {width}] x, int64[{entries}] offsets) => (float[{bags}, {width}] y)
<int64 trips = {{{bags}}}, bool go = {{1}}, int64 one = {{1}}, int64 two = {{2}},
 int64[1] zero = {{0}}, int64[1] all = {{-1}}>
{{ y = Loop (trips, go) <body = turn (int64 i, bool c) => (bool d, float[{width}] summed)
   {{ {body} d = Identity(c) }}> }}
"""
BETWEEN_OFFSETS = """
    next = Add(i, one) a = Gather(offsets, i) b = Gather(offsets, next)
    start = Unsqueeze(a, zero) end = Unsqueeze(b, zero)
    rows = Slice(x, start, end, zero) summed = ReduceSum <keepdims = 0> (rows, zero)
"""
"""As exporters write ``nn.EmbeddingBag``."""
SLICED_OFFSETS = """
    at = Reshape(i, all) next = Add(at, one) behind = Add(at, two)
    a = Slice(offsets, at, next) b = Slice(offsets, next, behind)
    rows = Slice(x, a, b, zero) summed = ReduceSum <keepdims = 0> (rows, zero)
"""
WINDOW = """
    at = Reshape(i, all) behind = Add(at, two)
    rows = Slice(x, at, behind, zero) summed = ReduceSum <keepdims = 0> (rows, zero)
"""
FROM_THE_BEGINNING = """
    next = Add(i, one) b = Gather(offsets, next) end = Unsqueeze(b, zero)
    rows = Slice(x, zero, end, zero) summed = ReduceSum <keepdims = 0> (rows, zero)
"""


def bags(body: str) -> onnx.ModelProto:
    model = parser.parse_model(_AROUND.format(rows=ROWS, width=WIDTH, bags=BAGS, entries=BAGS + 1, body=body))
    assert model.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT
    return model


def made(graph: Graph, op: Op) -> int:
    return graph.values[op.outputs[0] or 0].nbytes


def estimated(model: onnx.ModelProto) -> dict[str, int]:
    """Bytes of what ops of the loop's body make, by op type."""
    (body,) = hetpart.load(model).ops[-1].bodies
    return {op.op_type: made(body, op) for op in body.ops}


def measured(model: onnx.ModelProto, folder: Path) -> dict[str, float]:
    """Bytes that kernels of one run made, the mean of all turns, by op type."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_profiling, options.profile_file_prefix = True, str(folder / "run")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    offsets = np.arange(BAGS + 1, dtype=np.int64) * LENGTH
    session.run(None, {"x": np.ones((ROWS, WIDTH), np.float32), "offsets": offsets})
    events = json.loads(Path(session.end_profiling()).read_text())
    kernels = [event["args"] for event in events if event["name"].endswith("_kernel_time")]
    sizes: dict[str, list[int]] = {}
    for kernel in kernels:
        sizes.setdefault(kernel["op_name"], []).append(int(kernel["output_size"]))
    return {name: float(np.mean(those)) for name, those in sizes.items()}


@pytest.mark.parametrize("body", [BETWEEN_OFFSETS, WINDOW])
def test_parts_are_as_long_as_a_run_makes_them_on_average(body: str, tmp_path: Path) -> None:
    model = bags(body)
    guessed, ran = estimated(model), measured(model, tmp_path)
    assert guessed["ReduceSum"] == ran["ReduceSum"] == 4 * WIDTH
    # As many offsets as bags and one more part the whole into one part fewer.
    assert guessed["Slice"] == pytest.approx(ran["Slice"], rel=0.06)


def test_each_slice_of_offsets_is_of_one() -> None:
    (body,) = hetpart.load(bags(SLICED_OFFSETS)).ops[-1].bodies
    assert [made(body, op) for op in body.ops if op.op_type == "Slice"] == [8, 8, 4 * WIDTH * LENGTH]


def test_what_begins_where_it_always_did_may_be_the_whole() -> None:
    assert estimated(bags(FROM_THE_BEGINNING))["Slice"] == 4 * ROWS * WIDTH


def test_axes_that_are_not_sliced_keep_their_sizes() -> None:
    model = parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 20]>
        g (float[30, 64] x, int64[1] start, int64[1] end) => (float[?, ?] y, float[?, ?] z)
        <int64[1] zero = {0}> { y = Slice(x, start, end, zero) z = ReduceSum(y, zero) }
    """)
    graph = hetpart.load(model)
    sizes = {value.name: (value.shape, value.nbytes) for value in graph.values}
    assert sizes["y"] == ((None, 64), 4 * 30 * 64)
    assert sizes["z"][1] == 4 * 64
