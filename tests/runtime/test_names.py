"""Outputs are described as in the file, those included whose sizes only a run tells; what ORT leaves out runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import hetpart
from tests.runtime.models import assert_same, model, plain

GRAPHS = {
    "found in a run": """found (float[5] x) => (int64[1,N] nz, int64[1,N] m, float[M] c) {
      [a] nz = NonZero (x) [b] m = Neg (nz) [k] k = Cast <to = 9> (x) [c] c = Compress <axis = 0> (x, k)
    }""",
    "a name of its own": "own (float[past,2] x) => (float[other,2] y) { [a] h = Exp (x) [b] y = Neg (h) }",
    "no name": "none (float[past,2] x) => (float[?,2] y) { [a] h = Exp (x) [b] y = Neg (h) }",
    "grown": "grown (float[past,2] x, float[1,2] n) => (float[total,2] y) { [a] y = Concat <axis = 0> (x, n) }",
    "of a branch": """branch (bool c, float[3] x) => (float[Q] y) {
      [i] y = If (c) <then_branch = short () => (float[3] a) { a = Exp (x) },
                      else_branch = long () => (float[6] b) { b = Concat <axis = 0> (x, x) }>
    }""",
}


@pytest.mark.parametrize("placement", ["all-cpu", "all-accelerator", "random:3"])
@pytest.mark.parametrize("name", GRAPHS)
def test_dimensions_are_called_as_in_the_file(name: str, placement: str) -> None:
    proto = model(GRAPHS[name])
    uncut = plain(proto)
    shape = "past=?" if "past" in GRAPHS[name] else None
    planned = hetpart.partition(proto, hardware="emulated", placement=placement, shape=shape)
    with planned.session(emulate=True) as session:
        for ours, theirs in ((session.get_inputs(), uncut.get_inputs()), (session.get_outputs(), uncut.get_outputs())):
            assert [(a.name, a.type, a.shape) for a in ours] == [(a.name, a.type, a.shape) for a in theirs]


@pytest.mark.parametrize("pins", [["node:q=cpu", "node:d=cpu"], ["node:q=cuda", "node:d=cpu"]])
@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4])
def test_what_renames_numbers_of_four_bits_runs_as_in_onnxruntime(kind: int, pins: list[str]) -> None:
    """Two in a row, of which ONNX Runtime has no kernel."""
    nodes = [
        helper.make_node("QuantizeLinear", ["f", "s"], ["q"], name="q", output_dtype=kind),
        helper.make_node("Identity", ["q"], ["one"], name="first"),
        helper.make_node("Identity", ["one"], ["two"], name="second"),
        helper.make_node("DequantizeLinear", ["two", "s"], ["z"], name="d"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("f", [4]), ("s", []))]
    made = [helper.make_tensor_value_info("z", TensorProto.FLOAT, [4])]
    proto = helper.make_model(
        helper.make_graph(nodes, "renamed", ends, made), opset_imports=[helper.make_opsetid("", 21)], ir_version=10
    )
    feeds: dict[str, Any] = {"f": np.array([1, 2, 3, 4], np.float32), "s": np.array(1, np.float32)}
    uncut = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    with hetpart.partition(proto, hardware="emulated", pin=pins).session(emulate=True) as session:
        assert_same(session.run(None, feeds), uncut.run(None, feeds))
