"""Splits written as sequences, judged by ONNX Runtime on the model as it was."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from hetpart.graph.from_onnx import import_onnx


def sequence_model(split: object, picks: list[int], *, opset: int = 17, keepdims: int = 1) -> onnx.ModelProto:
    """Parts of a (2, 7) tensor along its second axis, each doubled and returned."""
    inputs = ["x"] if split is None else ["x", "split"]
    nodes = [helper.make_node("SplitToSequence", inputs, ["parts"], "split", axis=1, keepdims=keepdims)]
    weights = [] if split is None else [numpy_helper.from_array(np.array(split, np.int64), "split")]
    for position, pick in enumerate(picks):
        weights.append(numpy_helper.from_array(np.array(pick, np.int64), f"i{position}"))
        nodes.append(helper.make_node("SequenceAt", ["parts", f"i{position}"], [f"p{position}"], f"at{position}"))
        nodes.append(helper.make_node("Add", [f"p{position}", f"p{position}"], [f"y{position}"], f"add{position}"))
    outputs = [helper.make_tensor_value_info(f"y{position}", 1, None) for position in range(len(picks))]
    x = helper.make_tensor_value_info("x", 1, [2, 7])
    graph = helper.make_graph(nodes, "g", [x], outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def results(model: onnx.ModelProto) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.arange(14, dtype=np.float32).reshape(2, 7)})


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize(
    ("split", "picks"), [([3, 4], [0, 1]), (3, [0, 1, 2]), (2, [-1, 0]), ([1, 5, 1], [1, 1, 2]), (None, [6, 0, 3])]
)
def test_a_sequence_of_known_parts_becomes_a_split(split: object, picks: list[int], opset: int) -> None:
    model = sequence_model(split, picks, opset=opset)
    imported = import_onnx(model)
    assert {op.op_type for op in imported.graph.ops} <= {"Split", "Identity", "Add"}
    for ours, theirs in zip(results(imported.proto), results(model), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_sequence_that_is_returned_stays() -> None:
    model = sequence_model([3, 4], [0])
    model.graph.output.append(helper.make_tensor_sequence_value_info("parts", 1, None))
    assert "SplitToSequence" in {op.op_type for op in import_onnx(model).graph.ops}


def test_parts_that_lose_their_axis_stay_a_sequence() -> None:
    model = sequence_model(None, [1], keepdims=0)
    assert "SplitToSequence" in {op.op_type for op in import_onnx(model).graph.ops}


def test_an_index_that_only_a_run_knows_keeps_the_sequence() -> None:
    model = sequence_model([3, 4], [0])
    del model.graph.initializer[1]
    model.graph.input.append(helper.make_tensor_value_info("i0", 7, []))
    assert "SequenceAt" in {op.op_type for op in import_onnx(model).graph.ops}
