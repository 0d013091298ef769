"""Convolutions of bytes, and what ONNX Runtime transposes for them: memory is what its arena says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.cost_model.arenas import measured_peak, predicted_peak, profiled_nodes
from tests.cost_model.float_models import Sizes, Weights, feeds_of, model_of
from tests.cost_model.kernels_run import assert_kernels_run
from tests.cost_model.test_scratch import REACH, quantized


def convolved(
    given: Sizes, made: Sizes, weight: Sizes, dtype: type = np.int8, image: type = np.uint8, **options: Any
) -> Any:
    """A QLinearConv, which ONNX Runtime runs with channels last."""
    node = helper.make_node("QLinearConv", [*"qszw", "s", "wz", *"sz"], ["out"], **options)
    weights = {"w": np.ones(weight, dtype), "wz": np.array(0, dtype), "z": np.array(3, image)}
    return quantized(node, given, made, weights)


def convolved_twice() -> Any:
    """What is between two convolutions stays with channels last."""
    names, window = [*"szw", "s", "wz", *"sz"], {"pads": [1] * 4}
    nodes = [
        helper.make_node("Erf", ["x"], ["a"]),
        helper.make_node("QuantizeLinear", ["a", "s", "z"], ["q"]),
        helper.make_node("QLinearConv", ["q", *names], ["c"], **window),
        helper.make_node("QLinearConv", ["c", *names], ["out"], **window),
        helper.make_node("DequantizeLinear", ["out", "s", "z"], ["d"]),
        helper.make_node("Erf", ["d"], ["y"]),
    ]
    weights: Weights = {"w": np.ones((32, 32, 3, 3), np.int8), "wz": np.array(0, np.int8)}
    weights |= {"s": np.array(0.1, np.float32), "z": np.array(3, np.uint8)}
    return model_of(nodes, {"x": (1, 32, 56, 56)}, {"y": (1, 32, 56, 56)}, weights)


def enlarged() -> Any:
    """An image that is made larger between two convolutions, as floats, stays with channels last."""
    names = [*"szw", "s", "wz", *"sz"]
    nodes = [
        helper.make_node("Erf", ["x"], ["a"]),
        helper.make_node("QuantizeLinear", ["a", "s", "z"], ["q"]),
        helper.make_node("QLinearConv", ["q", *names], ["c"]),
        helper.make_node("DequantizeLinear", ["c", "s", "z"], ["small"]),
        helper.make_node("Resize", ["small", "", "twice"], ["large"], mode="linear"),
        helper.make_node("QuantizeLinear", ["large", "s", "z"], ["l"]),
        helper.make_node("QLinearConv", ["l", *names], ["out"]),
        helper.make_node("DequantizeLinear", ["out", "s", "z"], ["d"]),
        helper.make_node("Erf", ["d"], ["y"]),
    ]
    weights: Weights = {"w": np.ones((32, 32, 1, 1), np.int8), "wz": np.array(0, np.int8)}
    weights |= {"s": np.array(0.1, np.float32), "z": np.array(3, np.uint8), "twice": np.array([1, 1, 2, 2], np.float32)}
    return model_of(nodes, {"x": (1, 32, 28, 28)}, {"y": (1, 32, 56, 56)}, weights)


def convolved_between_quantizers(kernel: int, activation: str = "", image: type = np.uint8) -> Any:
    activated = [
        helper.make_node("DequantizeLinear", ["r", "s", "z"], ["e"]),
        helper.make_node(activation, ["e"], ["f"]),
        helper.make_node("QuantizeLinear", ["f", "s", "z"], ["g"]),
    ]
    nodes = [
        helper.make_node("Erf", ["x"], ["a"]),
        helper.make_node("QuantizeLinear", ["a", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["left"]),
        helper.make_node("DequantizeLinear", ["w", "s", "wz"], ["right"]),
        helper.make_node("Conv", ["left", "right"], ["made"], pads=[kernel // 2] * 4),
        helper.make_node("QuantizeLinear", ["made", "s", "z"], ["r"]),
        *(activated if activation else []),
        helper.make_node("DequantizeLinear", ["g" if activation else "r", "s", "z"], ["d"]),
        helper.make_node("Erf", ["d"], ["y"]),
    ]
    weights: Weights = {"w": np.ones((64, 32, kernel, kernel), np.int8), "wz": np.array(0, np.int8)}
    weights |= {"s": np.array(0.1, np.float32), "z": np.array(3, image)}
    return model_of(nodes, {"x": (1, 32, 56, 56)}, {"y": (1, 64, 56, 56)}, weights)


def turned(*, quantized: bool = False, beside: str = "") -> Any:
    """Images with channels last that are put first for a convolution of bytes, and last again behind it."""

    def between(source: str, made: str, perm: list[int]) -> list[Any]:
        if not quantized:
            return [helper.make_node("Transpose", [source], [made], perm=perm)]
        return [
            helper.make_node("DequantizeLinear", [source, "s", "z"], [f"{source} d"]),
            helper.make_node("Transpose", [f"{source} d"], [f"{source} t"], perm=perm),
            helper.make_node("QuantizeLinear", [f"{source} t", "s", "z"], [made]),
        ]

    nodes = [
        helper.make_node("Erf", ["x"], ["a"]),
        helper.make_node("QuantizeLinear", ["a", "s", "z"], ["q"]),
        *between("q", "f", [0, 3, 1, 2]),
        helper.make_node("QLinearConv", ["f", *"szw", "s", "wz", *"sz"], ["c"], pads=[1] * 4),
        *between("c", "l", [0, 2, 3, 1]),
        helper.make_node("DequantizeLinear", ["l", "s", "z"], ["d"]),
        helper.make_node("Erf", ["d"], ["y"]),
    ]
    outputs: dict[str, Sizes] = {"y": (1, 56, 56, 32)}
    if beside:
        nodes += [
            helper.make_node("DequantizeLinear", [beside, "s", "z"], ["o"]),
            helper.make_node("Erf", ["o"], ["v"]),
        ]
        outputs["v"] = (1, 32, 56, 56)
    weights: Weights = {"w": np.ones((32, 32, 3, 3), np.int8), "wz": np.array(0, np.int8)}
    weights |= {"s": np.array(0.1, np.float32), "z": np.array(3, np.uint8)}
    return model_of(nodes, {"x": (1, 56, 56, 32)}, outputs, weights)


TURNED: dict[str, Any] = {
    "channels last around a convolution": turned(),
    "channels last around a convolution, between quantizers": turned(quantized=True),
    "channels last before a convolution, and read first": turned(beside="f"),
    "channels last behind a convolution, and read first": turned(beside="c"),
}
CASES: dict[str, Any] = {
    **TURNED,
    "QLinearConv": convolved((1, 32, 56, 56), (1, 64, 56, 56), (64, 32, 3, 3), pads=[1] * 4),
    "QLinearConv of single pixels": convolved((1, 32, 56, 56), (1, 64, 56, 56), (64, 32, 1, 1)),
    "QLinearConv in groups": convolved((1, 32, 56, 56), (1, 64, 56, 56), (64, 16, 3, 3), pads=[1] * 4, group=2),
    "QLinearConv by channel": convolved((1, 32, 56, 56), (1, 32, 56, 56), (32, 1, 3, 3), pads=[1] * 4, group=32),
    "QLinearConv of few channels": convolved(
        (1, 3, 112, 112), (1, 64, 56, 56), (64, 3, 7, 7), pads=[3] * 4, strides=[2, 2]
    ),
    "QLinearConv of two images by unsigned weights": convolved(
        (2, 32, 56, 56), (2, 64, 56, 56), (64, 32, 3, 3), np.uint8, pads=[1] * 4
    ),
    "QLinearConv by channel and unsigned weights": convolved(
        (1, 32, 56, 56), (1, 32, 56, 56), (32, 1, 3, 3), np.uint8, pads=[1] * 4, group=32
    ),
    "QLinearConv of signed pixels": convolved(
        (1, 32, 56, 56), (1, 64, 56, 56), (64, 32, 3, 3), image=np.int8, pads=[1] * 4
    ),
    "QLinearConv of single signed pixels": convolved((1, 32, 56, 56), (1, 64, 56, 56), (64, 32, 1, 1), image=np.int8),
    "QLinearConv of signed pixels by channel": convolved(
        (1, 32, 56, 56), (1, 32, 56, 56), (32, 1, 3, 3), image=np.int8, pads=[1] * 4, group=32
    ),
    "two QLinearConv": convolved_twice(),
    "two QLinearConv and a Resize": enlarged(),
    "Conv between quantizers": convolved_between_quantizers(3),
    "Conv of signed pixels between quantizers": convolved_between_quantizers(3, image=np.int8),
    "Conv of single pixels between quantizers": convolved_between_quantizers(1),
    "Conv and Sigmoid between quantizers": convolved_between_quantizers(3, "Sigmoid"),
    "Conv and Tanh between quantizers": convolved_between_quantizers(3, "Tanh"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_convolution_of_bytes_takes_is_what_onnx_runtime_takes(name: str, tmp_path: Path) -> None:
    model = CASES[name]
    measured = measured_peak(profiled_nodes(model, feeds_of(model), tmp_path))
    assert predicted_peak(model) == pytest.approx(measured, rel=REACH)


@pytest.mark.parametrize(
    "name", ["QLinearConv", "QLinearConv of signed pixels", "two QLinearConv", "two QLinearConv and a Resize", *TURNED]
)
def test_what_puts_channels_last_is_a_transpose(name: str, tmp_path: Path) -> None:
    assert_kernels_run(CASES[name], name, tmp_path)
