"""Which images ONNX Runtime keeps with channels in blocks: its kernels are counted, and so is what its arena says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.cost_model.float_models import Weights, model_of
from tests.cost_model.kernels_and_memory import assert_as_onnx_runtime

SIDE = 48
BILINEAR = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


def convolved(channels: int, made: int, groups: int = 1) -> Any:
    """A convolution of what another makes."""
    weights: Weights = {
        "first": np.ones((channels, 3, 3, 3), np.float32),
        "second": np.ones((made, channels // groups, 3, 3), np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "first"], ["a"], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "second"], ["c"], pads=[1] * 4, group=groups),
        helper.make_node("Sigmoid", ["c"], ["y"]),
    ]
    return model_of(nodes, {"x": (1, 3, SIDE, SIDE)}, {"y": (1, made, SIDE, SIDE)}, weights)


def resized(
    options: Mapping[str, str], scales: tuple[float, float] | None = (2, 2), *, opset: int = 21, channels: int = 16
) -> Any:
    """A convolution of what is resized: by ``scales``, else to twice the size."""
    height, width = (int(SIDE * scale) for scale in scales or (2, 2))
    weights: Weights = {"w": np.ones((channels, 3, 3, 3), np.float32), "v": np.ones((8, channels, 3, 3), np.float32)}
    if scales is None:
        told = ["", "", "sizes"]
        weights["sizes"] = np.array([1, channels, height, width])
    else:
        told = ["", "scales"] if opset > 10 else ["scales"]
        weights["scales"] = np.array([1, 1, *scales], np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 4),
        helper.make_node("Resize" if opset > 9 else "Upsample", ["a", *told], ["b"], **options),
        helper.make_node("Conv", ["b", "v"], ["y"], pads=[1] * 4),
    ]
    return model_of(nodes, {"x": (1, 3, SIDE, SIDE)}, {"y": (1, 8, height, width)}, weights, opset)


def added(*, enlarged_first: bool) -> Any:
    """A convolution is added to what is enlarged, whichever is made first."""
    up = [
        helper.make_node("MaxPool", ["a"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Resize", ["p", "", "scales"], ["u"], **NEAREST),
    ]
    side = [helper.make_node("Conv", ["a", "v"], ["c"])]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 4),
        *(up + side if enlarged_first else side + up),
        helper.make_node("Add", ["c", "u"], ["s"]),
        helper.make_node("Conv", ["s", "v"], ["y"]),
    ]
    weights: Weights = {"w": np.ones((32, 3, 3, 3), np.float32), "v": np.ones((32, 32, 1, 1), np.float32)}
    weights["scales"] = np.array([1, 1, 2, 2], np.float32)
    return model_of(nodes, {"x": (1, 3, SIDE, SIDE)}, {"y": (1, 32, SIDE, SIDE)}, weights)


def of_whole_images(op_type: str, before: str = "", channels: int = 64, *, twice: bool = False) -> Any:
    """A pool of an image that the session is given, or of what ``before`` makes of it."""
    image, made = (1, channels, SIDE, SIDE), (1, channels, 1, 1)
    nodes = [helper.make_node(before, ["x"], ["a"])] if before else []
    ends = ["y", "z"] if twice else ["y"]
    nodes += [helper.make_node(op_type, ["a" if before else "x"], [end]) for end in ends]
    return model_of(nodes, {"x": image}, dict.fromkeys(ends, made), {})


def excited() -> Any:
    """An image that the session is given, weighted by what a pool and a convolution make of it."""
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["p"]),
        helper.make_node("Conv", ["p", "w"], ["c"]),
        helper.make_node("Sigmoid", ["c"], ["s"]),
        helper.make_node("Mul", ["x", "s"], ["y"]),
    ]
    image = (1, 32, SIDE, SIDE)
    return model_of(nodes, {"x": image}, {"y": image}, {"w": np.ones((32, 32, 1, 1), np.float32)})


def read_twice() -> Any:
    """An image that the session is given, read in blocks and as it is."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Erf", ["x"], ["e"]),
        helper.make_node("Softplus", ["c"], ["s"]),
        helper.make_node("Add", ["s", "e"], ["y"]),
    ]
    image = (1, 32, SIDE, SIDE)
    return model_of(nodes, {"x": image}, {"y": image}, {"w": np.ones((32, 32, 1, 1), np.float32)})


def added_to(before: str, behind: str = "Relu", *, stem: bool = False) -> Any:
    """A convolution of what ``before`` makes of what is given, or of another convolution, is added to just that."""
    stems = [helper.make_node("Conv", ["x", "w"], ["b"])] if stem else []
    nodes = [
        *stems,
        helper.make_node(before, ["b" if stem else "x"], ["a"], **POOLING.get(before, {})),
        helper.make_node("Conv", ["a", "w"], ["c"]),
        helper.make_node("Add", ["c", "a"], ["s"]),
        helper.make_node(behind, ["s"], ["t"]),
        helper.make_node("Conv", ["t", "w"], ["y"]),
    ]
    image = (1, 32, SIDE, SIDE)
    return model_of(nodes, {"x": image}, {"y": image}, {"w": np.ones((32, 32, 1, 1), np.float32)})


def read_beside(op_type: str) -> Any:
    """What is plain is brought into blocks for a convolution, and read by ``op_type`` as well."""
    nodes = [
        helper.make_node("Softplus", ["x"], ["a"]),
        helper.make_node("Conv", ["a", "w"], ["c"]),
        helper.make_node(op_type, ["a"], ["e"]),
        helper.make_node("Conv", ["e", "w"], ["d"]),
        helper.make_node("Sub", ["c", "d"], ["y"]),
    ]
    image = (1, 32, SIDE, SIDE)
    return model_of(nodes, {"x": image}, {"y": image}, {"w": np.ones((32, 32, 1, 1), np.float32)})


POOLING: Mapping[str, Any] = {"AveragePool": {"kernel_shape": [1, 1]}}
CASES: dict[str, Any] = {
    **{f"Conv of {channels} channels": convolved(channels, 32) for channels in (8, 15, 16, 17, 18, 20, 22, 33, 36)},
    **{f"Conv makes {made} channels": convolved(20, made) for made in (3, 17, 24)},
    **{f"Conv by channel of {channels}": convolved(channels, channels, channels) for channels in (6, 12, 17, 24)},
    **{f"Conv of {channels} channels to as many": convolved(channels, channels) for channels in (8, 24, 40)},
    **{f"Conv of groups of {channels}": convolved(4 * channels, 4 * channels, 4) for channels in (4, 8, 12, 24)},
    **{f"nearest of {channels} channels": resized(NEAREST, channels=channels) for channels in (8, 24)},
    "Conv of a half": convolved(32, 32, 2), "Conv of a half, unaligned": convolved(40, 40, 2),
    "Conv makes two a channel": convolved(16, 32, 16),
    "nearest": resized(NEAREST), "nearest to a size": resized(NEAREST, None),
    "nearest unevenly": resized(NEAREST, (3, 1)), "nearest of 17 channels": resized(NEAREST, channels=17),
    "nearest by a fraction": resized(NEAREST, (1.5, 2)), "nearest made smaller": resized(NEAREST, (0.5, 0.5)),
    "nearest rounded up": resized(NEAREST | {"nearest_mode": "ceil"}),
    "nearest of half pixels": resized(NEAREST | {"coordinate_transformation_mode": "half_pixel"}),
    "bilinear": resized(BILINEAR), "bilinear to a size": resized(BILINEAR, None),
    "bilinear by a fraction": resized(BILINEAR, (1.5, 2)),
    "bilinear between corners": resized(BILINEAR | {"coordinate_transformation_mode": "align_corners"}),
    "bilinear of symmetric pixels": resized(BILINEAR | {"coordinate_transformation_mode": "half_pixel_symmetric"}),
    "cubic": resized({"mode": "cubic"}), "Resize of opset 10": resized({"mode": "linear"}, opset=10),
    "Upsample": resized({"mode": "nearest"}, opset=9),
    **{f"{op_type} of {channels} channels": of_whole_images(op_type, channels=channels)
       for op_type in ("GlobalAveragePool", "GlobalMaxPool") for channels in (16, 20, 61, 64)},
    "GlobalAveragePool twice": of_whole_images("GlobalAveragePool", twice=True),
    "GlobalAveragePool of what is made": of_whole_images("GlobalAveragePool", "Relu"),
    "GlobalMaxPool of what is given as it is": of_whole_images("GlobalMaxPool", "Identity"),
    "weights of what is given": excited(), "given in blocks and not": read_twice(),
    "added to what was enlarged": added(enlarged_first=True),
    **{f"added to a plain {before}": added_to(before) for before in ("Relu", "Softplus", "Tanh")},
    "added to a pool of what is given": added_to("AveragePool"),
    **{f"added to a {before} of a convolution": added_to(before, "Tanh", stem=True)
       for before in ("AveragePool", "Clip", "HardSigmoid", "LeakyRelu", "Relu", "Softplus")},
    **{f"{op_type} beside a convolution": read_beside(op_type) for op_type in ("Erf", "Relu", "Sigmoid", "Softplus")},
    "added to what is enlarged later": added(enlarged_first=False),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_images_are_in_blocks_where_they_are_for_onnx_runtime(name: str, tmp_path: Path) -> None:
    assert_as_onnx_runtime(CASES[name], name, tmp_path)
