"""What ONNX Runtime makes of quantization around ops: kernels are those that run, and memory is what its arena says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.cost_model.float_models import Weights, model_of
from tests.cost_model.kernels_and_memory import assert_as_onnx_runtime

IMAGE = (1, 32, 56, 56)
U8, S8 = np.uint8, np.int8


class Quantizing:
    """A model as it is written, with numbers that go through bytes of one dtype."""

    def __init__(self, dtype: type, zero: int = 0) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: Weights = {"s": np.array(0.05, np.float32), "z": np.array(zero, dtype)}

    def op(self, op_type: str, *reads: str, **options: Any) -> str:
        made = f"{op_type.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, [*reads], [made], **options))
        return made

    def quantized(self, value: str, scale: str = "s") -> str:
        return self.op("QuantizeLinear", value, scale, "z")

    def through(self, value: str, scale: str = "s") -> str:
        return self.op("DequantizeLinear", self.quantized(value, scale), scale, "z")

    def convolved(self, value: str, channels: int = 32, kernel: int = 3, groups: int = 1) -> str:
        name = f"w{len(self.nodes)}"
        self.weights |= {name: np.ones((channels, 32 // groups, kernel, kernel), S8), "wz": np.array(0, S8)}
        weight = self.op("DequantizeLinear", name, "s", "wz")
        return self.op("Conv", value, weight, pads=[kernel // 2] * 4, group=groups)

    def model(self, made: str, shape: tuple[int, ...] = IMAGE) -> onnx.ModelProto:
        nodes = [*self.nodes, helper.make_node("Erf", [made], ["y"])]
        return model_of(nodes, {"x": IMAGE}, {"y": shape}, self.weights)


def rectified(dtype: type, zero: int) -> onnx.ModelProto:
    """The Relu is what quantizing from the least number does by itself."""
    q = Quantizing(dtype, zero)
    return q.model(q.through(q.op("Relu", q.convolved(q.through(q.op("Erf", "x"))))))


def read_by_two(dtype: type) -> onnx.ModelProto:
    q = Quantizing(dtype)
    value = q.through(q.op("Erf", "x"))
    gate, leaky = q.through(q.op("Sigmoid", value)), q.through(q.op("LeakyRelu", value))
    return q.model(q.through(q.op("Add", gate, leaky)))


def gated() -> onnx.ModelProto:
    """What is dequantized goes to kernels of integers and to one of floats, all with channels last."""
    q = Quantizing(U8)
    image = q.through(q.convolved(q.through(q.op("Erf", "x")), groups=32))
    image = q.through(q.op("Mul", image, q.through(q.op("Sigmoid", image))))
    gate = q.through(q.convolved(q.through(q.op("ReduceMean", image, "axes")), kernel=1))
    q.weights["axes"] = np.array([2, 3])
    return q.model(q.through(q.convolved(q.through(q.op("Mul", image, q.through(q.op("Sigmoid", gate)))))))


def pooled(scale: str) -> onnx.ModelProto:
    """A pool between two scales is one of floats."""
    q = Quantizing(U8)
    q.weights["other"] = np.array(0.07, np.float32)
    image = q.through(q.convolved(q.through(q.op("Erf", "x"))))
    pool = q.through(q.op("MaxPool", image, kernel_shape=[3, 3], pads=[1] * 4), scale)
    return q.model(q.through(q.convolved(pool)))


def moved(op_type: str, made: tuple[int, ...], *constants: Any, **options: Any) -> onnx.ModelProto:
    """Numbers that are only moved stay bytes."""
    q = Quantizing(U8)
    names = [f"c{place}" for place in range(len(constants))]
    q.weights |= dict(zip(names, constants, strict=True))
    return q.model(q.through(q.op(op_type, q.through(q.op("Erf", "x")), *names, **options)), made)


CASES = {
    "Gather": moved("Gather", (1, 8, 56, 56), np.arange(8), axis=1),
    "Slice": moved("Slice", (1, 8, 56, 56), *(np.array([number]) for number in (0, 8, 1))),
    "Expand": moved("Expand", (2, 32, 56, 56), np.array([2, 32, 56, 56])),
    "Tile": moved("Tile", (2, 32, 56, 56), np.array([2, 1, 1, 1])),
    "DepthToSpace": moved("DepthToSpace", (1, 8, 112, 112), blocksize=2),
    "ReduceMax": moved("ReduceMax", (1, 32, 1, 1), np.array([2, 3])),
    "GatherElements": moved("GatherElements", (1, 32, 8, 56), np.zeros((1, 32, 8, 56), np.int64), axis=2),
    "Conv and Relu": rectified(U8, 0),
    "Conv and Relu of signed bytes from zero": rectified(S8, -128),
    "Conv and Relu of signed bytes": rectified(S8, 0),
    "read by two": read_by_two(U8),
    "read by integers and floats": gated(),
    "pooled": pooled("s"),
    "pooled and scaled": pooled("other"),
}


@pytest.mark.parametrize("name", CASES)
def test_kernels_between_quantizers_are_those_that_run(name: str, tmp_path: Path) -> None:
    assert_as_onnx_runtime(CASES[name], name, tmp_path)
