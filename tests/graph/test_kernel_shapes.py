"""Shapes that ``onnx`` infers otherwise than ONNX Runtime's kernels make them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from hetpart.graph.from_onnx import import_onnx
from hetpart.units import OPEN
from tests.graph.models import run

NONE = np.zeros(0, np.float32)
SIGNAL, IMAGE = (2, 64, 1), (1, 1, 40, 400)


def scales(*sizes: float) -> np.ndarray:
    return np.array(sizes, np.float32)


CASES: list[tuple[str, tuple[int, ...], list[np.ndarray | None], dict[str, object], int]] = [
    ("STFT", SIGNAL, [np.array(4), np.ones(16, np.float32)], {}, 17),
    ("STFT", SIGNAL, [np.array(4), None, np.array(15)], {}, 17),
    ("STFT", SIGNAL, [np.array(4), np.ones(16, np.float32)], {"onesided": 0}, 17),
    ("Resize", IMAGE, [NONE, scales(1, 1, 1.7, 2.3)], {"mode": "linear"}, 19),
    ("Resize", IMAGE, [NONE, scales(1.7, 2.3)], {"axes": [-2, -1]}, 19),
    ("Resize", IMAGE, [scales(1, 1, 0.55, 2.3)], {}, 10),
    ("Resize", IMAGE, [NONE, NONE, np.array([1, 1, 7, 9])], {}, 19),
    ("Upsample", IMAGE, [scales(1, 1, 1.7, 2.3)], {}, 9),
]
CASES += [
    (
        op_type,
        (1, 1, size, 7),
        [],
        {"kernel_shape": [window, 2], "strides": [stride, 2], "pads": [pad, 0, pad, 0], "ceil_mode": 1},
        opset,
    )
    for op_type, opset in (("MaxPool", 12), ("MaxPool", 22), ("AveragePool", 18), ("LpPool", 18))
    for window, stride, pad in ((2, 2, 1), (1, 2, 0), (3, 3, 1), (2, 3, 1), (3, 2, 1))
    for size in (5, 6, 7, 8)
]


def model_of(
    op_type: str, shape: tuple[int, ...], operands: list[np.ndarray | None], attributes: dict[str, object], opset: int
) -> onnx.ModelProto:
    given = [("" if operand is None else f"i{n}", operand) for n, operand in enumerate(operands)]
    node = helper.make_node(op_type, ["x", *(name for name, _ in given)], ["y"], "only", **attributes)
    constants = [numpy_helper.from_array(operand, name) for name, operand in given if operand is not None]
    fed = [helper.make_tensor_value_info("x", 1, shape)]
    graph = helper.make_graph([node], "shapes", fed, [onnx.ValueInfoProto(name="y")], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


@pytest.mark.parametrize(("op_type", "shape", "operands", "attributes", "opset"), CASES)
def test_shape_is_that_of_the_kernel(
    op_type: str, shape: tuple[int, ...], operands: list[np.ndarray | None], attributes: dict[str, object], opset: int
) -> None:
    model = model_of(op_type, shape, operands, attributes, opset)
    made = run(model, {"x": np.ones(shape, np.float32)})["y"]
    imported = import_onnx(model)
    assert imported.graph.value_named("y").shape == made.shape
    assert not imported.notes


def test_all_results_of_a_pool_have_the_shape_of_its_kernel_whatever_the_number_of_images() -> None:
    model = model_of("MaxPool", (1, 1, 7, 7), [], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}, 12)
    node = model.graph.node[0]
    node.output.append("places")
    node.attribute.append(helper.make_attribute("pads", [1] * 4))
    model.graph.output.append(onnx.ValueInfoProto(name="places"))
    made = run(model, {"x": np.ones((1, 1, 7, 7), np.float32)})
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "images"
    graph = import_onnx(model, {"images": OPEN}).graph
    for name in ("y", "places"):
        assert graph.value_named(name).shape == (None, *made[name].shape[1:]) == (None, 1, 4, 4)


def test_an_output_that_is_declared_otherwise_than_it_is_computed_is_said() -> None:
    model = model_of(*CASES[3])
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, [1, 1, 68, 919]))
    imported = import_onnx(model)
    assert imported.graph.value_named("y").shape == (1, 1, 68, 920)
    assert "'y' is declared [1, 1, 68, 919] and computed [1, 1, 68, 920]" in "".join(imported.notes)


@pytest.mark.parametrize(("declared", "known"), [(["Q", 3], (None, 3)), ([2, 3], (2, 3)), (["Q"], (None, 3))])
def test_sizes_that_inference_leaves_open_are_as_declared(
    declared: list[int | str], known: tuple[int | None, ...]
) -> None:
    """Where slices are told in the run, it knows no size of any axis; with one bound the first alone is sliced."""
    fed = [helper.make_tensor_value_info("x", 1, [4, 3])]
    fed += [helper.make_tensor_value_info(name, 7, [1]) for name in ("begin", "end")]
    made = helper.make_tensor_value_info("y", 1, declared)
    graph = helper.make_graph([helper.make_node("Slice", ["x", "begin", "end"], ["y"], "only")], "g", fed, [made])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert import_onnx(model).graph.value_named("y").shape == known
