"""The light models of the ``onnx`` package, their constant weights replaced by seeded random initializers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
from numpy.typing import NDArray
from onnx import numpy_helper

FOLDER = Path(onnx.backend.test.__file__).parent / "data" / "light"
IR_VERSION = 8
"""The files are of IR version 3, where every initializer is a graph input as well."""


@dataclass(frozen=True, slots=True)
class Fill:
    """Random weights with a given mean whose spread is ``gain`` / √fan-in, or ``gain`` itself for a vector."""

    mean: float
    gain: float

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float32]:
        fan_in = prod(shape[1:]) if len(shape) > 1 else 1
        noise = rng.uniform(-sqrt(3), sqrt(3), shape) * self.gain / sqrt(fan_in)
        return (self.mean + noise).astype(np.float32)


LINEAR = Fill(0.0, sqrt(2))
"""Keeps the scale of activations through a ReLU (He et al. 2015)."""
RESIDUAL = Fill(0.0, 1.0)
"""Lets branches shrink, so that a chain of residual sums does not grow."""
SMALL = Fill(0.0, 0.05)
NEAR_ONE = Fill(1.0, 0.1)
"""Positive for certain, as a variance must be."""

FILLS: Mapping[tuple[str, int], Fill] = {
    ("Conv", 1): LINEAR, ("Conv", 2): SMALL, ("Gemm", 1): LINEAR, ("Gemm", 2): SMALL,
    ("BatchNormalization", 1): NEAR_ONE, ("BatchNormalization", 2): SMALL,
    ("BatchNormalization", 3): SMALL, ("BatchNormalization", 4): NEAR_ONE,
    ("Mul", 1): NEAR_ONE, ("Add", 1): SMALL,
}  # fmt: skip
"""What to draw for a weight, from the operator that uses it and the position."""


def build(path: Path, *, source: str, seed: int = 0) -> Path:
    """Writes the light model called ``source``, such as ``resnet50``, with random weights."""
    model = onnx.load(FOLDER / f"light_{source}.onnx")
    model.ir_version = IR_VERSION
    weights = _draw(model.graph, np.random.default_rng(seed))
    _replace_weights(model.graph, weights)
    onnx.save(model, path)
    onnx.checker.check_model(str(path))
    return path


def _draw(graph: onnx.GraphProto, rng: np.random.Generator) -> list[onnx.TensorProto]:
    uses = _uses(graph)
    residual = any(node.op_type == "Sum" for node in graph.node)
    fills = FILLS | {("Conv", 1): RESIDUAL} if residual else FILLS
    shapes = _weight_shapes(graph)
    return [numpy_helper.from_array(fills[uses[name]].draw(shape, rng), name) for name, shape in shapes.items()]


def _replace_weights(graph: onnx.GraphProto, weights: list[onnx.TensorProto]) -> None:
    """Puts ``weights`` in the place of what made them, and leaves only true inputs among the graph's inputs."""
    kept = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    read = {name for node in kept for name in node.input} - {tensor.name for tensor in weights}
    initialized = {tensor.name for tensor in graph.initializer}
    _assign(graph.input, [value for value in graph.input if value.name not in initialized])
    _assign(graph.initializer, [*(tensor for tensor in graph.initializer if tensor.name in read), *weights])
    _assign(graph.node, kept)


def _assign(field: Any, items: list[Any]) -> None:
    """Sets a repeated field; the items are copied first, for they may live in it."""
    copies = [type(item).FromString(item.SerializeToString()) for item in items]
    del field[:]
    field.extend(copies)


def _weight_shapes(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    """Every float weight: those made by ``ConstantOfShape`` and those stored as they are."""
    stored = {tensor.name: tensor for tensor in graph.initializer}
    made = {
        node.output[0]: tuple(numpy_helper.to_array(stored[node.input[0]]).tolist())
        for node in graph.node
        if node.op_type == "ConstantOfShape"
    }
    read = {name for node in graph.node for name in node.input}
    exact = {
        tensor.name: tuple(tensor.dims)
        for tensor in graph.initializer
        if tensor.data_type == onnx.TensorProto.FLOAT and tensor.name in read
    }
    return made | exact


def _uses(graph: onnx.GraphProto) -> dict[str, tuple[str, int]]:
    """Operator and position that use each value; a weight behind a change of shape counts as used where that goes."""
    uses = {name: (node.op_type, index) for node in graph.node for index, name in enumerate(node.input)}
    for node in graph.node:
        if node.op_type in {"Unsqueeze", "Reshape"}:
            uses[node.input[0]] = uses[node.output[0]]
    return uses
