"""Kernels of the CPU provider that go element by element take the time that they were measured to take."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import hetpart
from hetpart.cost_model.formulas import work_of
from tests.cost_model.build import single

Sizes = tuple[int, ...]
IMAGES: Sizes = (1, 8, 256, 256)
VOLUMES: Sizes = (1, 8, 32, 64, 64)
MATRIX: Sizes = (512, 1024)
FACTOR = 2.2
DOUBLED, HALVED = (np.array([1, 1, by, by], "float32") for by in (2, 0.5))


def constants(*values: object) -> list[np.ndarray[Any, Any]]:
    return [np.array(value, "int64") for value in values]


def case(op_type: str, inputs: list[Any], milliseconds: float, dtype: str = "float32", **attributes: object) -> Any:
    """An op with the shapes of its inputs, or their values where they are constants."""
    return op_type, inputs, dtype, attributes, milliseconds


OFF_AND_ON = np.array([0, 1], "float32")
NEGATIVE_STEP = constants([-1], [-9999], [1], [-1])
MEASURED = {
    "nearest": case("Resize", [IMAGES, None, DOUBLED], 2.54, mode="nearest"),
    "nearest, of volumes": case("Resize", [(1, 8, 32, 32, 32), None, np.array([1, 1, 2, 2, 2], "float32")], 44.2),
    "linear": case("Resize", [IMAGES, None, DOUBLED], 10.7, mode="linear"),
    "linear, smaller": case("Resize", [IMAGES, None, HALVED], 0.374, mode="linear"),
    "antialiased": case("Resize", [IMAGES, None, HALVED], 2.86, mode="linear", antialias=1),
    "cubic": case("Resize", [IMAGES, None, DOUBLED], 606.0, mode="cubic"),
    "cubic, few": case("Resize", [(1, 8, 64, 64), None, DOUBLED], 38.1, mode="cubic"),
    "sampled": case("GridSample", [IMAGES, (1, 256, 256, 2)], 4.86, mode="linear"),
    "sampled, few": case("GridSample", [(1, 8, 64, 64), (1, 64, 64, 2)], 0.204, mode="linear"),
    "sampled, cubic": case("GridSample", [IMAGES, (1, 256, 256, 2)], 68.3, mode="cubic"),
    "sampled, of volumes": case("GridSample", [VOLUMES, (1, 32, 64, 64, 3)], 146.6, mode="linear"),
    "sampled, nearest of volumes": case("GridSample", [VOLUMES, (1, 32, 64, 64, 3)], 45.5, mode="nearest"),
    "int64": case("MatMul", [(256, 256), (256, 256)], 12.1, "int64"),
    "int64, few": case("MatMul", [(128, 128), (128, 128)], 1.55, "int64"),
    "int32": case("MatMul", [(256, 256), (256, 256)], 5.57, "int32"),
    "tuples": case("GatherND", [MATRIX, np.zeros((100_000, 2), "int64")], 4.4),
    "few tuples": case("GatherND", [MATRIX, np.zeros((10_000, 2), "int64")], 0.547),
    "softmax across": case("Softmax", [MATRIX], 4.24, axis=0),
    "softmax": case("Softmax", [MATRIX], 0.438, axis=1),
    "softmax in between": case("Softmax", [(8, 64, 1024)], 2.34, axis=1),
    "largest across": case("ArgMax", [MATRIX], 2.78, axis=0),
    "largest": case("ArgMax", [MATRIX], 0.776, axis=1),
    "norm across": case("ReduceL2", [MATRIX, *constants([0])], 2.31),
    "norm": case("ReduceL2", [MATRIX, *constants([1])], 0.747),
    "norm across a square": case("ReduceL2", [(256, 256), *constants([0])], 0.128),
    "summed in ones": case("ReduceSum", [(512, 1024, 1), *constants([1])], 1.31),
    "summed in fours": case("ReduceSum", [(512, 256, 4), *constants([1])], 0.399),
    "cumulated across": case("CumSum", [MATRIX, *constants(0)], 0.204),
    "cumulated": case("CumSum", [MATRIX, *constants(1)], 1.63),
    "backwards": case("Slice", [MATRIX, *NEGATIVE_STEP], 1.2),
    "rows backwards": case("Slice", [MATRIX, *constants([-1], [-9999], [0], [-1])], 0.207),
    "every other": case("Slice", [MATRIX, *constants([0], [9999], [1], [2])], 0.475),
    "one hot": case("OneHot", [np.zeros(2000, "int64"), *constants(100), OFF_AND_ON], 0.532),
    "one hot across": case("OneHot", [np.zeros(1000, "int64"), *constants(1000), OFF_AND_ON], 0.751, axis=0),
    "boxes": case("NonMaxSuppression", [(1, 2000, 4), (1, 1, 2000), *constants([100])], 0.266),
    "boxes of classes": case("NonMaxSuppression", [(1, 2000, 4), (1, 80, 2000), *constants([300])], 75.9),
    "many boxes": case("NonMaxSuppression", [(1, 8000, 4), (1, 1, 8000), *constants([100])], 0.398),
}  # fmt: skip
"""Milliseconds of ONNX Runtime 1.31 on one core of a 2.5 GHz Xeon with AVX-512, the least of several runs; samples of
volumes on an EPYC 9004, which took 0.47 to 0.85 of the Xeon's time for those of images."""


RESPONSES: Sizes = (1, 96, 55, 55)
FEATURES: Sizes = (1, 64, 128, 128)
TOKENS: Sizes = (4, 512, 768)
WITHOUT_BLOCKS: Sizes = (1, 5, 112, 112)
SEQUENCES: Sizes = (4, 256, 402)
SLOPES = np.full((64, 1, 1), 0.25, "float32")
PLACES = np.zeros((512, 200), "int64")


def power(exponent: float) -> np.ndarray[Any, Any]:
    return np.array(exponent, "float32")


def thrice(rank: int, stride: int = 1) -> dict[str, list[int]]:
    return {"kernel_shape": [3] * rank, "strides": [stride] * rank}


MEASURED_HERE = {
    "responses": case("LRN", [RESPONSES], 7.43, size=5, alpha=1e-4, beta=0.75),
    "responses of three": case("LRN", [RESPONSES], 7.38, size=3, alpha=1e-4, beta=0.75),
    "responses, few": case("LRN", [(1, 96, 13, 13)], 0.399, size=5, alpha=1e-4, beta=0.75),
    "slopes": case("PRelu", [FEATURES, SLOPES], 4.91),
    "slope": case("PRelu", [FEATURES, np.full(1, 0.25, "float32")], 5.27),
    "squares": case("Pow", [TOKENS, power(2)], 0.508),
    "cubes": case("Pow", [TOKENS, power(3)], 0.648),
    "roots": case("Pow", [TOKENS, power(0.5)], 11.4),
    "unfolded": case("DepthToSpace", [FEATURES], 1.95, blocksize=2),
    "unfolded, by threes": case("DepthToSpace", [(1, 72, 60, 60)], 0.369, blocksize=3),
    "unfolded, by fours": case("DepthToSpace", [(1, 64, 64, 64)], 0.206, blocksize=4),
    "unfolded, by channel": case("DepthToSpace", [(1, 12, 256, 256)], 1.43, blocksize=2, mode="CRD"),
    "averages of lines": case("AveragePool", [SEQUENCES], 1.48, **thrice(1)),
    "averages of long lines": case("AveragePool", [SEQUENCES], 4.52, kernel_shape=[9], pads=[4, 4]),
    "averages of images": case("AveragePool", [WITHOUT_BLOCKS], 0.694, **thrice(2)),
    "averages of volumes": case("AveragePool", [(1, 1, 68, 55, 55)], 2.22, kernel_shape=[5, 1, 1]),
    "averages of cubes": case("AveragePool", [(1, 16, 32, 32, 32)], 0.868, kernel_shape=[2] * 3, strides=[2] * 3),
    "largest of lines": case("MaxPool", [SEQUENCES], 0.569, **thrice(1)),
    "largest of long lines": case("MaxPool", [SEQUENCES], 1.31, kernel_shape=[9], pads=[4, 4]),
    "largest of images": case("MaxPool", [WITHOUT_BLOCKS], 0.017, **thrice(2, 2), pads=[1] * 4),
    "largest of volumes": case("MaxPool", [(1, 32, 8, 112, 112)], 0.565, kernel_shape=[2] * 3, strides=[2] * 3),
    "softmax of channels": case("Softmax", [(8, 21, 64, 64)], 6.29, axis=1),
    "softmax of images": case("Softmax", [(4, 64, 64)], 0.185, axis=0),
    "linear": case("Resize", [(1, 64, 64, 64), None, DOUBLED], 1.40, mode="linear"),
    "linear, as large": case("Resize", [(1, 64, 64, 64), None, np.ones(4, "float32")], 0.026, mode="linear"),
    "nearest, each twice": case(
        "Resize", [(1, 255, 40, 40), None, DOUBLED], 0.118, coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    "elements along": case("GatherElements", [(512, 200), PLACES], 0.076, axis=1),
    "elements across": case("GatherElements", [(512, 200), PLACES], 0.141, axis=0),
}  # fmt: skip
"""The same on one core of an EPYC 9004, of numbers drawn by chance."""


def predicted(
    op_type: str, inputs: list[Any], dtype: str, attributes: dict[str, Any], host: str = "generic-avx512"
) -> float:
    """Milliseconds on such a processor, from its built-in profile."""
    names = [f"x{place}" if value is not None else "" for place, value in enumerate(inputs)]
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), value)
        for name, value in zip(names, inputs, strict=True) if isinstance(value, tuple)
    ]  # fmt: skip
    held = [
        numpy_helper.from_array(value, name)
        for name, value in zip(names, inputs, strict=True) if isinstance(value, np.ndarray)
    ]  # fmt: skip
    node = helper.make_node(op_type, names, ["made"], **attributes)
    if not given:  # the first is no constant, so that something runs
        first, *held = held
        given = [helper.make_tensor_value_info(first.name, first.data_type, first.dims)]
    graph = helper.make_graph([node], "g", given, [helper.make_empty_tensor_value_info("made")], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    costs = hetpart.annotate(model, hardware=f"l4+{host}", threads=1)
    return 1e3 * sum(op.seconds[0] for op in costs.ops)


@pytest.mark.parametrize("name", MEASURED)
def test_seconds_are_of_the_order_measured(name: str) -> None:
    *op, measured = MEASURED[name]
    found = predicted(*op)
    assert measured / FACTOR < found < FACTOR * measured


@pytest.mark.parametrize("name", MEASURED_HERE)
def test_seconds_on_another_processor_too(name: str) -> None:
    *op, measured = MEASURED_HERE[name]
    found = predicted(*op, host="epyc-genoa")
    assert measured / FACTOR < found < FACTOR * measured


@pytest.mark.parametrize(("sizes", "flops_each"), [((5,), 4), ((5, 6), 11), ((5, 6, 7), 24)])
def test_a_sample_lies_between_two_elements_along_every_axis(sizes: Sizes, flops_each: int) -> None:
    """Of a volume between eight: seven times between two, three FLOPs each, and one an axis for where it lies."""
    grid, made = (2, *[4] * len(sizes), len(sizes)), (2, 3, *[4] * len(sizes))
    graph = single("GridSample", [((2, 3, *sizes), "float32"), (grid, "float32")], made, mode="linear")
    work = work_of(graph.ops[0], graph)
    assert work is not None
    assert work.flops == flops_each * prod(made)


def test_ops_that_differ_in_a_constant_alone_cost_what_theirs_say() -> None:
    """The second axis is an axis of another kind, for all that the two ops have the same types and shapes."""
    nodes = [helper.make_node("CumSum", ["x", f"axis{axis}"], [f"y{axis}"]) for axis in range(2)]
    given = helper.make_tensor_value_info("x", 1, [512, 512])
    made = [helper.make_tensor_value_info(f"y{axis}", 1, [512, 512]) for axis in range(2)]
    axes = [numpy_helper.from_array(np.array(axis, "int64"), f"axis{axis}") for axis in range(2)]
    model = helper.make_model(helper.make_graph(nodes, "g", [given], made, axes), ir_version=9)
    model.opset_import[0].version = 20
    first, second = hetpart.annotate(model, hardware="l4+generic-avx512").ops
    assert second.work.serial_cycles > 5 * first.work.serial_cycles > 0


@pytest.mark.parametrize(("window", "milliseconds"), [(1, 1.05), (2, 1.83), (3, 2.38), (4, 3.35)])
def test_pools_that_say_where_the_largest_are(window: int, milliseconds: float) -> None:
    """Milliseconds of ONNX Runtime 1.31 on one core at 4.1 GHz, of numbers by chance."""
    side = (32 - window) // (stride := min(window, 2)) + 1
    made = [helper.make_tensor_value_info(name, kind, [16, 32, side, side]) for name, kind in (("y", 1), ("at", 7))]
    node = helper.make_node("MaxPool", ["x"], ["y", "at"], kernel_shape=[window] * 2, strides=[stride] * 2)
    given = [helper.make_tensor_value_info("x", 1, [16, 32, 32, 32])]
    model = helper.make_model(helper.make_graph([node], "g", given, made), ir_version=9)
    model.opset_import[0].version = 20
    (op,) = hetpart.annotate(model, hardware="l4+generic-avx512").ops
    assert milliseconds / 1.3 < op.work.spread_cycles / 4.1e6 < 1.3 * milliseconds
