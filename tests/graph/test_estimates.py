"""What a value is taken to need, whose size only a run can tell, against what a run makes at most."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import hetpart
from hetpart.graph.estimates import UNKNOWN_BYTES

IMAGES, CLASSES, BOXES = 2, 3, 40


def suppressing(limit: int | None, *, told: bool) -> onnx.ModelProto:
    """A NonMaxSuppression of boxes; its limit may be left out, a constant, or told by each run."""
    given = {"boxes": (IMAGES, BOXES, 4), "scores": (IMAGES, CLASSES, BOXES)}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in given.items()]
    inputs += [helper.make_tensor_value_info("limit", TensorProto.INT64, [])] if told else []
    held = [] if told or limit is None else [numpy_helper.from_array(np.array(limit), "limit")]
    node = helper.make_node("NonMaxSuppression", [*given] + ["limit"] * (limit is not None), ["kept"], name="n")
    made = helper.make_tensor_value_info("kept", TensorProto.INT64, [None, 3])
    graph = helper.make_graph([node], "g", inputs, [made], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def estimated(model: onnx.ModelProto) -> int:
    (kept,) = [value for value in hetpart.load(model).values if value.name == "kept"]
    return kept.nbytes


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("limit", [0, 1, 7, BOXES, 1000])
def test_boxes_that_lie_apart_are_kept_up_to_the_limit(limit: int, told: bool) -> None:
    """Where a run tells the limit, all boxes may be kept."""
    corners = np.arange(BOXES, dtype=np.float32)[:, None] + np.array([0, 0, 0.5, 0.5], np.float32)
    feeds: dict[str, np.ndarray] = {
        "boxes": np.broadcast_to(corners, (IMAGES, BOXES, 4)).copy(),
        "scores": np.random.default_rng(0).random((IMAGES, CLASSES, BOXES), np.float32),
    }
    if told:
        feeds["limit"] = np.array(BOXES)
    model = suppressing(limit, told=told)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (kept,) = session.run(None, feeds)
    assert estimated(model) == max(UNKNOWN_BYTES, kept.nbytes)


def test_without_a_limit_none_is_kept() -> None:
    assert estimated(suppressing(None, told=False)) == UNKNOWN_BYTES
