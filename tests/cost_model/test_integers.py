"""Products of bytes take the time that ONNX Runtime was measured to take, by the signs of what is multiplied."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import hetpart

FACTOR = 1.7
U8, S8 = np.uint8, np.int8
Sizes = tuple[int, ...]


def model(op_type: str, left: type, given: Sizes, right: type, weight: Sizes, **options: Any) -> onnx.ModelProto:
    """An op on bytes by constants."""
    held = {
        "s": np.array(0.1, np.float32), "z": np.array(3, left), "v": np.array(0, right), "w": np.ones(weight, right)
    }  # fmt: skip
    names = ["x", "w", "z", "v"] if "Integer" in op_type else ["x", "s", "z", "w", "s", "v", "s", "z"]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(left))
    graph = helper.make_graph(
        [helper.make_node(op_type, names, ["y"], **options)], "g",
        [helper.make_tensor_value_info("x", kind, given)], [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(held[name], name) for name in dict.fromkeys(names[1:])],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def microseconds(proto: onnx.ModelProto) -> float:
    (op,) = hetpart.annotate(proto, hardware="l4+epyc", threads=1).ops
    return 1e6 * op.seconds[0]


MATRICES = ((256, 512), (512, 512))
IMAGES = ((1, 64, 56, 56), (64, 64, 3, 3))
BY_CHANNEL = ((1, 64, 56, 56), (64, 1, 3, 3))
VOLUMES = ((1, 16, 16, 16, 16), (32, 16, 3, 3, 3))
FEW_OF_VOLUMES = ((1, 1, 24, 24, 24), (16, 1, 3, 3, 3))
FEW = ((1, 3, 112, 112), (64, 3, 7, 7))
CASES = [
    ("MatMulInteger", U8, S8, *MATRICES, 305), ("MatMulInteger", U8, U8, *MATRICES, 778),
    ("MatMulInteger", S8, S8, *MATRICES, 3815), ("MatMulInteger", S8, U8, *MATRICES, 3919),
    ("MatMulInteger", S8, S8, (1, 512), (512, 512), 179), ("MatMulInteger", S8, S8, (256, 64), (64, 512), 541),
    ("QLinearMatMul", S8, S8, *MATRICES, 3925), ("QLinearMatMul", U8, U8, *MATRICES, 829),
    ("QLinearConv", U8, S8, *IMAGES, 542), ("QLinearConv", U8, U8, *IMAGES, 1507),
    ("QLinearConv", S8, S8, *IMAGES, 6968), ("QLinearConv", U8, S8, *BY_CHANNEL, 109),
    ("QLinearConv", U8, U8, *BY_CHANNEL, 156), ("QLinearConv", S8, S8, *BY_CHANNEL, 198),
    ("QLinearConv", U8, S8, *FEW, 1258), ("QLinearConv", S8, S8, *FEW, 8915),
    ("QLinearConv", U8, S8, *VOLUMES, 994), ("QLinearConv", U8, U8, *VOLUMES, 1817),
    ("QLinearConv", U8, S8, *FEW_OF_VOLUMES, 2844),
    ("ConvInteger", U8, S8, *IMAGES, 8430), ("ConvInteger", U8, U8, *IMAGES, 1561),
]  # fmt: skip
"""Microseconds on one core of an EPYC 9004, ONNX Runtime 1.31: what a profile says of the kernel, the least of many."""


@pytest.mark.parametrize(("op_type", "left", "right", "given", "weight", "measured"), CASES)
def test_seconds_are_of_the_order_measured(
    op_type: str, left: type, right: type, given: Sizes, weight: Sizes, measured: float
) -> None:
    images = len(given) > 2
    window = {"pads": [weight[-1] // 2] * 2 * len(given[2:]), "group": given[1] // weight[1]} if images else {}
    found = microseconds(model(op_type, left, given, right, weight, **window))
    assert measured / FACTOR < found < FACTOR * measured


def between_quantizers(image: type) -> onnx.ModelProto:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["left"]),
        helper.make_node("DequantizeLinear", ["w", "s", "v"], ["right"]),
        helper.make_node("Conv", ["left", "right"], ["c"], pads=[1] * 4, name="conv"),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "s", "z"], ["y"]),
    ]
    held = {
        "s": np.array(0.1, np.float32), "z": np.array(3, image), "v": np.array(0, S8), "w": np.ones(IMAGES[1], S8)
    }  # fmt: skip
    ends = [[helper.make_tensor_value_info(name, 1, IMAGES[0])] for name in "xy"]
    graph = helper.make_graph(nodes, "g", *ends, [numpy_helper.from_array(*pair[::-1]) for pair in held.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize("image", [U8, S8])
def test_a_convolution_between_quantizers_is_one_of_unsigned_bytes(image: type) -> None:
    """ONNX Runtime makes signed bytes between quantizers unsigned ones."""
    costs = hetpart.annotate(between_quantizers(image), hardware="l4+epyc", threads=1)
    (conv,) = [op for op in costs.ops if costs.graph.ops[op.op].op_type == "Conv"]
    assert 542 / FACTOR < 1e6 * conv.seconds[0] < FACTOR * 542
