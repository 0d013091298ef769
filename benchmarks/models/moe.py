"""A small mixture of experts: every expert's weights are initializers of their own, two experts serve each token."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from examples.wide_and_deep import WeightFile, save

TOP = 2


@dataclass(slots=True)
class _Builder:
    """Collects nodes, weights and constants."""

    weights: WeightFile
    nodes: list[NodeProto] = field(default_factory=list[NodeProto])
    constants: list[TensorProto] = field(default_factory=list[TensorProto])

    def op(self, op_type: str, inputs: list[str], name: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op_type, inputs, [f"{name}/out"], name=f"/{name}", **attributes))
        return f"{name}/out"

    def weight(self, name: str, fan_in: int, fan_out: int) -> str:
        return self.weights.normal(name, (fan_in, fan_out), 1 / sqrt(fan_in))

    def constant(self, name: str, values: list[int] | list[float]) -> str:
        dtype = np.int64 if isinstance(values[0], int) else np.float32
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name


@dataclass(frozen=True, slots=True)
class Size:
    """Dimensions of the model."""

    layers: int = 4
    experts: int = 8
    hidden: int = 512
    inner: int = 2048


def build(path: Path, *, dense: bool = False, seed: int = 0, **dimensions: int) -> Path:
    """Writes the model: ``x`` [tokens, hidden] → ``y`` of the same shape. ``dimensions`` are the fields of ``Size``.

    An expert computes the rows routed to it, found by ``NonZero``, so their number is known only in a run; with
    ``dense`` it computes every row and a mask drops the others, so every shape is known beforehand.
    """
    size = Size(**dimensions)
    builder = _Builder(WeightFile.beside(path, seed))
    if not dense:
        builder.constant("last", [-1])
    builder.constant("zero", [0.0])
    builder.constant("tops", [TOP])
    value = "x"
    for layer in range(size.layers):
        value = _layer(builder, f"layer.{layer}", value, size, dense=dense)
    builder.nodes.append(helper.make_node("Identity", [value], ["y"], name="/y"))
    types = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["tokens", size.hidden]) for name in ("x", "y")]
    tensors = [*builder.weights.tensors, *builder.constants]
    save(helper.make_graph(builder.nodes, "moe", types[:1], types[1:], tensors), path)
    return path


def _layer(builder: _Builder, name: str, value: str, size: Size, *, dense: bool) -> str:
    """Router, experts, and the sum of what the experts returned with the layer's input."""
    scale = builder.constant(f"{name}.norm.weight", [1.0] * size.hidden)
    normed = builder.op("LayerNormalization", [value, scale], f"{name}/norm")
    gates = _gates(builder, f"{name}/router", normed, size)
    for expert in range(size.experts):
        place = f"{name}/expert.{expert}"
        column = builder.constant(f"{place}.index", [expert])
        gate = builder.op("Gather", [gates, column], f"{place}/gate", axis=1)
        contribute = _masked if dense else _routed
        value = contribute(builder, place, (value, normed, gate), size)
    return value


def _gates(builder: _Builder, name: str, value: str, size: Size) -> str:
    """[tokens, experts]: the softmax over the best ``TOP`` experts of each token, zero elsewhere."""
    scores = builder.op(
        "MatMul", [value, builder.weight(f"{name}.weight", size.hidden, size.experts)], f"{name}/scores"
    )
    top, chosen = f"{name}/top", f"{name}/chosen"
    builder.nodes.append(helper.make_node("TopK", [scores, "tops"], [top, chosen], name=f"/{name}/TopK"))
    shares = builder.op("Softmax", [top], f"{name}/shares", axis=1)
    empty = builder.op("Mul", [scores, "zero"], f"{name}/empty")
    return builder.op("ScatterElements", [empty, chosen, shares], f"{name}/gates", axis=1)


def _expert(builder: _Builder, name: str, value: str, size: Size) -> str:
    inner = builder.op("MatMul", [value, builder.weight(f"{name}.up", size.hidden, size.inner)], f"{name}/up")
    active = builder.op("Relu", [inner], f"{name}/relu")
    return builder.op("MatMul", [active, builder.weight(f"{name}.down", size.inner, size.hidden)], f"{name}/down")


def _masked(builder: _Builder, name: str, values: tuple[str, str, str], size: Size) -> str:
    total, normed, gate = values
    weighted = builder.op("Mul", [_expert(builder, name, normed, size), gate], f"{name}/weighted")
    return builder.op("Add", [total, weighted], f"{name}/sum")


def _routed(builder: _Builder, name: str, values: tuple[str, str, str], size: Size) -> str:
    total, normed, gate = values
    flat = builder.op("Squeeze", [gate, "last"], f"{name}/flat")
    rows = builder.op("Transpose", [builder.op("NonZero", [flat], f"{name}/nonzero")], f"{name}/rows")
    result = _expert(builder, name, builder.op("GatherND", [normed, rows], f"{name}/tokens"), size)
    shares = builder.op("GatherND", [gate, rows], f"{name}/shares")
    weighted = builder.op("Mul", [result, shares], f"{name}/weighted")
    return builder.op("ScatterND", [total, rows, weighted], f"{name}/sum", reduction="add")
