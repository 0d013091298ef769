"""A deep decoder as an exporter writes it op by op: norms, GELU, heads and masks in single operators, shapes computed.

About 105 nodes a layer, so 96 layers are ten thousand nodes. Large weights are holes in a sparse file: the model takes
no disk space, and what it computes means nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from examples.wide_and_deep import WeightFile, save

if TYPE_CHECKING:
    from pathlib import Path

CAUSAL = "causal"
"""The square mask that every layer takes its part of."""


@dataclass(frozen=True, slots=True)
class Size:
    """Dimensions of the model. With ``cache`` keys and values of earlier tokens are graph inputs."""

    layers: int = 96
    hidden: int = 2048
    heads: int = 16
    vocabulary: int = 50_257
    positions: int = 2048
    cache: bool = False

    @property
    def head(self) -> int:
        return self.hidden // self.heads


@dataclass(slots=True)
class _Builder:
    """Collects nodes, weights and what the graph takes and gives."""

    weights: WeightFile
    nodes: list[NodeProto] = field(default_factory=list[NodeProto])
    inputs: list[ValueInfoProto] = field(default_factory=list[ValueInfoProto])
    outputs: list[ValueInfoProto] = field(default_factory=list[ValueInfoProto])
    common: dict[str, str] = field(default_factory=dict[str, str])

    def op(self, op_type: str, name: str, *inputs: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op_type, inputs, [f"{name}/out"], name=f"/{name}", **attributes))
        return f"{name}/out"

    def constant(self, name: str, values: list[int] | float) -> str:
        """A node of its own, as exporters write them."""
        dtype = np.float32 if isinstance(values, float) else np.int64
        return self.op("Constant", name, value=numpy_helper.from_array(np.asarray(values, dtype)))

    def shared(self, values: list[int] | int) -> str:
        """A constant that the whole graph shares."""
        name = f"constant/{values}"
        if name not in self.common:
            self.common[name] = self.constant(name, values)
        return self.common[name]

    def weight(self, name: str, *shape: int) -> str:
        return self.weights.normal(name, shape, 1 / sqrt(shape[0]))


def build(path: Path, *, seed: int = 0, cache: bool = False, **dimensions: int) -> Path:
    """Writes the decoder: ``input_ids`` [batch, seq] → ``logits``. ``dimensions`` are the fields of ``Size``."""
    size = Size(cache=cache, **dimensions)
    builder = _Builder(WeightFile.beside(path, seed, sparse=True))
    value = _embedded(builder, size)
    for layer in range(size.layers):
        value = _layer(builder, f"h.{layer}", value, size)
    normed = _norm(builder, "ln_f", value, size)
    builder.op("MatMul", "lm_head", normed, builder.weight("lm_head.weight", size.hidden, size.vocabulary))
    builder.nodes.append(helper.make_node("Identity", ["lm_head/out"], ["logits"], name="/logits"))
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "seq", size.vocabulary])
    square = np.tril(np.ones((1, 1, size.positions, size.positions), np.bool_))
    tensors = [*builder.weights.tensors, numpy_helper.from_array(square, CAUSAL)]
    save(helper.make_graph(builder.nodes, "decoder", builder.inputs, [logits, *builder.outputs], tensors), path)
    return path


def _embedded(builder: _Builder, size: Size) -> str:
    builder.inputs += [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "seq"]) for name in ("input_ids", "positions")
    ]
    tokens = builder.op("Gather", "wte", builder.weight("wte.weight", size.vocabulary, size.hidden), "input_ids")
    places = builder.op("Gather", "wpe", builder.weight("wpe.weight", size.positions, size.hidden), "positions")
    return builder.op("Add", "embedded", tokens, places)


def _layer(builder: _Builder, name: str, value: str, size: Size) -> str:
    mixed = _attention(builder, f"{name}/attn", _norm(builder, f"{name}/ln_1", value, size), size)
    value = builder.op("Add", f"{name}/residual_1", value, mixed)
    inner = _linear(builder, f"{name}/fc", _norm(builder, f"{name}/ln_2", value, size), size.hidden, 4 * size.hidden)
    outer = _linear(builder, f"{name}/proj", _gelu(builder, f"{name}/gelu", inner), 4 * size.hidden, size.hidden)
    return builder.op("Add", f"{name}/residual_2", value, outer)


def _linear(builder: _Builder, name: str, value: str, fan_in: int, fan_out: int) -> str:
    product = builder.op("MatMul", f"{name}/MatMul", value, builder.weight(f"{name}.weight", fan_in, fan_out))
    return builder.op("Add", f"{name}/Add", builder.weight(f"{name}.bias", fan_out), product)


def _norm(builder: _Builder, name: str, value: str, size: Size) -> str:
    last = builder.constant(f"{name}/last", [-1])
    mean = builder.op("ReduceMean", f"{name}/mean", value, last)
    centred = builder.op("Sub", f"{name}/Sub", value, mean)
    squares = builder.op("Pow", f"{name}/Pow", centred, builder.constant(f"{name}/two", 2.0))
    variance = builder.op("ReduceMean", f"{name}/variance", squares, last)
    shifted = builder.op("Add", f"{name}/Add", variance, builder.constant(f"{name}/epsilon", 1e-5))
    spread = builder.op("Sqrt", f"{name}/Sqrt", shifted)
    unit = builder.op("Div", f"{name}/Div", centred, spread)
    scaled = builder.op("Mul", f"{name}/Mul", unit, builder.weight(f"{name}.weight", size.hidden))
    return builder.op("Add", f"{name}/Add_1", scaled, builder.weight(f"{name}.bias", size.hidden))


def _gelu(builder: _Builder, name: str, value: str) -> str:
    scaled = builder.op("Div", f"{name}/Div", value, builder.constant(f"{name}/root", sqrt(2)))
    error = builder.op("Erf", f"{name}/Erf", scaled)
    shifted = builder.op("Add", f"{name}/Add", error, builder.constant(f"{name}/one", 1.0))
    doubled = builder.op("Mul", f"{name}/Mul", value, shifted)
    return builder.op("Mul", f"{name}/Mul_1", doubled, builder.constant(f"{name}/half", 0.5))


def _attention(builder: _Builder, name: str, value: str, size: Size) -> str:
    query, key, fresh = (_heads(builder, f"{name}/{part}", value, size) for part in ("q", "k", "v"))
    if size.cache:
        key, fresh = (_cached(builder, name, part, rows, size) for part, rows in (("key", key), ("value", fresh)))
    turned = builder.op("Transpose", f"{name}/turned", key, perm=[0, 1, 3, 2])
    product = builder.op("MatMul", f"{name}/scores", query, turned)
    scores = builder.op("Div", f"{name}/Div", product, builder.constant(f"{name}/scale", sqrt(size.head)))
    unseen = builder.constant(f"{name}/unseen", -1e4)
    masked = builder.op("Where", f"{name}/Where", _mask(builder, f"{name}/mask", query, key), scores, unseen)
    shares = builder.op("Softmax", f"{name}/Softmax", masked, axis=-1)
    mixed = builder.op("MatMul", f"{name}/mixed", shares, fresh)
    back = builder.op("Transpose", f"{name}/back", mixed, perm=[0, 2, 1, 3])
    return _linear(
        builder, f"{name}/out", _reshaped(builder, f"{name}/flat", back, size.hidden), size.hidden, size.hidden
    )


def _heads(builder: _Builder, name: str, value: str, size: Size) -> str:
    """Rows of every head: [batch, heads, seq, head]."""
    rows = _linear(builder, name, value, size.hidden, size.hidden)
    split = _reshaped(builder, f"{name}/split", rows, size.heads, size.head)
    return builder.op("Transpose", f"{name}/Transpose", split, perm=[0, 2, 1, 3])


def _reshaped(builder: _Builder, name: str, value: str, *rest: int) -> str:
    """[batch, seq, *rest]; the first two are read from the value."""
    known = [_dimension(builder, f"{name}/{axis}", value, index) for index, axis in enumerate(("batch", "seq"))]
    parts = known + [builder.constant(f"{name}/rest.{index}", [size]) for index, size in enumerate(rest)]
    return builder.op("Reshape", name, value, builder.op("Concat", f"{name}/Concat", *parts, axis=0))


def _dimension(builder: _Builder, name: str, value: str, axis: int) -> str:
    """[1]: one of the value's dimensions."""
    shape = builder.op("Shape", f"{name}/Shape", value)
    size = builder.op("Gather", f"{name}/Gather", shape, builder.shared(axis))
    return builder.op("Unsqueeze", f"{name}/Unsqueeze", size, builder.shared([0]))


def _cached(builder: _Builder, name: str, part: str, rows: str, size: Size) -> str:
    past, present = f"past.{part}.{name}", f"present.{part}.{name}"
    shape = ["batch", size.heads, "past", size.head]
    builder.inputs.append(helper.make_tensor_value_info(past, TensorProto.FLOAT, shape))
    builder.outputs.append(helper.make_tensor_value_info(present, TensorProto.FLOAT, [*shape[:2], "all", size.head]))
    builder.nodes.append(helper.make_node("Concat", [past, rows], [present], name=f"/{name}/{part}/Concat", axis=2))
    return present


def _mask(builder: _Builder, name: str, query: str, key: str) -> str:
    """The rows and columns of the causal square that this query and these keys stand for."""
    rows, columns = (_dimension(builder, f"{name}/{part}", of, 2) for part, of in (("q", query), ("k", key)))
    first = builder.op("Sub", f"{name}/first", columns, rows)
    tall = _sliced(builder, f"{name}/rows", CAUSAL, first, columns, axis=2)
    return _sliced(builder, f"{name}/columns", tall, builder.shared([0]), columns, axis=3)


def _sliced(builder: _Builder, name: str, value: str, first: str, end: str, *, axis: int) -> str:
    along, step = builder.shared([axis]), builder.shared([1])
    return builder.op("Slice", name, value, first, end, along, step)
