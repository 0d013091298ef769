# pyright: reportUnknownMemberType=false
"""Kernels run in the order that ONNX Runtime's numbers of their nodes give: what its optimiser makes comes later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.cost_model.float_models import Weights, model_of
from tests.cost_model.kernels_and_memory import assert_in_order

node = helper.make_node
IMAGE = (1, 32, 16, 16)


def merged_images() -> Any:
    """Of two branches, both of convolutions, the one that is added has the later ops."""
    nodes = [
        node("Conv", ["x", "w"], ["a"]),
        node("MaxPool", ["a"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p", "w"], ["d"]),
        node("Tanh", ["d"], ["t"]),
        node("Resize", ["t", "", "scales"], ["u"], coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        node("Conv", ["a", "w"], ["r"]),
        node("HardSwish", ["r"], ["s"]),
        node("Conv", ["s", "w"], ["c"]),
        node("Add", ["u", "c"], ["m"]),
        node("Conv", ["m", "w"], ["y"]),
    ]
    weights: Weights = {"w": np.ones((32, 32, 1, 1), np.float32), "scales": np.array([1, 1, 2, 2], np.float32)}
    return model_of(nodes, {"x": IMAGE}, {"y": IMAGE}, weights)


def halved() -> Any:
    """All rows, the first by itself."""
    nodes = [
        node("Erf", ["x"], ["a"]),
        node("Gather", ["a", "first"], ["g"], axis=1),
        node("Slice", ["a", "one", "end", "one"], ["s"]),
        node("Tanh", ["a"], ["z"]),
        node("Softplus", ["s"], ["y"]),
        node("Exp", ["g"], ["v"]),
    ]
    weights: Weights = {"first": np.array(0), "one": np.array([1]), "end": np.array([9])}
    outputs = {"y": (4, 8, 16), "z": (4, 9, 16), "v": (4, 16)}
    return model_of(nodes, {"x": (4, 9, 16)}, outputs, weights)


def quantized_residual() -> Any:
    """What one dequantizer makes is read at once and much later."""
    nodes = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        node("Erf", ["d"], ["a"]),
        node("Tanh", ["a"], ["b"]),
        node("QuantizeLinear", ["b", "scale", "zero"], ["p"]),
        node("DequantizeLinear", ["p", "scale", "zero"], ["e"]),
        node("Add", ["e", "d"], ["s"]),
        node("Softplus", ["s"], ["y"]),
    ]
    weights: Weights = {"scale": np.array(0.1, np.float32), "zero": np.array(9, np.uint16)}
    return model_of(nodes, {"x": IMAGE}, {"y": IMAGE}, weights)


def cast_twice(*written: str) -> Any:
    """Of two Casts one leaves to its default what the other has, and is made for both unless that writes it first."""
    nodes = [
        node("Less", ["x", "x"], ["m"]),
        node("Cast", ["m"], ["c"], to=1),
        node("Mul", ["x", "c"], ["a"]),
        node("Erf", ["a"], ["b"]),
        node("Cast", ["m"], ["d"]),
        node("Mul", ["b", "d"], ["y"]),
    ]
    nodes[4].attribute.extend(helper.make_attribute(name, 1) for name in written)
    return model_of(nodes, {"x": (64, 32)}, {"y": (64, 32)}, {})


def made_at_two_levels() -> Any:
    """A product of a matrix that is transposed is made anew behind products with biases, wherever they stand."""
    nodes = [
        node("Erf", ["x"], ["a"]),
        node("Tanh", ["a"], ["b"]),
        node("MatMul", ["b", "w"], ["c"]),
        node("Add", ["c", "bias"], ["z"]),
        node("Exp", ["a"], ["e"]),
        node("MatMul", ["e", "w"], ["f"]),
        node("Add", ["f", "bias"], ["u"]),
        node("Transpose", ["a"], ["t"], perm=[1, 0]),
        node("MatMul", ["t", "v"], ["y"]),
    ]
    weights: Weights = {
        "v": np.ones((16, 8), np.float32), "w": np.ones((32, 8), np.float32), "bias": np.ones(8, np.float32)
    }  # fmt: skip
    return model_of(nodes, {"x": (16, 32)}, {"y": (32, 8), "z": (16, 8), "u": (16, 8)}, weights)


def returned_twice() -> Any:
    """Two results that are the same are both made; those who read one or the other are one."""
    nodes = [
        node("Erf", ["x"], ["y"]),
        node("Erf", ["x"], ["z"]),
        node("Exp", ["y"], ["a"]),
        node("Exp", ["z"], ["b"]),
        node("Tanh", ["b"], ["c"]),
        node("Softplus", ["a"], ["d"]),
        node("MatMul", ["c", "d"], ["u"]),
    ]
    return model_of(nodes, {"x": (32, 32)}, {"y": (32, 32), "z": (32, 32), "u": (32, 32)}, {})


MODELS: dict[str, Any] = {
    "results that are the same": returned_twice(),
    "a cast written twice": cast_twice("to", "saturate"),
    "a cast written twice, in another order": cast_twice("saturate", "to"),
    "products of two levels": made_at_two_levels(),
    "branches of images": merged_images(),
    "a row and the rest": halved(),
    "a residual in integers": quantized_residual(),
}


@pytest.mark.parametrize("name", MODELS)
def test_kernels_are_in_the_order_they_run_in(name: str, tmp_path: Path) -> None:
    assert_in_order(MODELS[name], tmp_path)
