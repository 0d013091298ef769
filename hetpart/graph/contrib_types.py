# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Output types of operators of which ``onnx`` does not tell them: of ``com.microsoft``, and some of ``ai.onnx.ml``.

Each row is a rule of ONNX Runtime's ContribOperators.md, held against what ONNX Runtime computes by a test. An operator
or output that has no row keeps the types the file declares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import onnx

from hetpart.graph.types import shape_of, tensor_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

CONTRIB_DOMAIN = "com.microsoft"
Sizes = tuple[int, ...]
_PAST, _TOTAL = 3, 6
"""Inputs of GroupQueryAttention: keys before, and how many tokens the longest sequence has with the new ones."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A node with what is known of its inputs by position."""

    node: onnx.NodeProto
    shapes: Sequence[Sizes | None]
    """``None`` for an input that is left out or not static."""
    types: Sequence[int]
    """Element types; 0 where unknown."""
    contents: Mapping[str, NDArray[Any]]
    """Inputs whose elements are known, by name."""

    def content(self, position: int) -> NDArray[Any] | None:
        return self.contents.get(self.node.input[position]) if self.has(position) else None

    def shape(self, position: int) -> Sizes | None:
        return self.shapes[position] if position < len(self.shapes) else None

    def has(self, position: int) -> bool:
        return position < len(self.node.input) and bool(self.node.input[position])

    def number(self, name: str, default: int = 0) -> int:
        return next((attribute.i for attribute in self.node.attribute if attribute.name == name), default)

    def numbers(self, name: str) -> Sizes:
        return next((tuple(attribute.ints) for attribute in self.node.attribute if attribute.name == name), ())


Rule = Callable[[_Call], Sizes | None]
"""The shape of an output; ``None`` where it cannot be told."""


@dataclass(frozen=True, slots=True)
class _Output:
    shape: Rule
    like: int = 0
    """The input that has the output's element type."""
    dtype: int = 0
    """The element type where no input has it, or the one that has is left out."""


def contrib_types(
    node: onnx.NodeProto,
    inputs: Mapping[str, onnx.TypeProto],
    contents: Mapping[str, NDArray[Any]] = MappingProxyType({}),
) -> dict[str, onnx.TypeProto]:
    """Types of the node's outputs where a rule is known; nothing for another domain or an unknown operator.

    ``contents`` are inputs whose elements are known.
    """
    rules = _BY_DOMAIN.get(node.domain, {}).get(node.op_type, ())
    if not rules:
        return {}
    types = [inputs.get(name, onnx.TypeProto()) for name in node.input]
    call = _Call(node, [_static(type_) for type_ in types], [type_.tensor_type.elem_type for type_ in types], contents)
    found = {name: _typed(call, rule) for name, rule in zip(node.output, rules, strict=False) if name and rule}
    return {name: type_ for name, type_ in found.items() if type_ is not None}


def _static(type_: onnx.TypeProto) -> Sizes | None:
    shape = shape_of(type_)
    return None if shape is None or None in shape else tuple(size for size in shape if size is not None)


def _typed(call: _Call, output: _Output) -> onnx.TypeProto | None:
    own = call.types[output.like] if output.like < len(call.types) else 0
    shape = output.shape(call)
    return tensor_type(own or output.dtype, shape) if shape is not None and (own or output.dtype) else None


def _same(call: _Call) -> Sizes | None:
    return call.shape(0)


def _batch(call: _Call) -> Sizes | None:
    ids = call.shape(0)
    return ids[:1] if ids else None


def _halved(call: _Call) -> Sizes | None:
    x = call.shape(0)
    return (*x[:-1], x[-1] // 2) if x else None


def _embedded(call: _Call) -> Sizes | None:
    ids, table = call.shape(0), call.shape(2)
    return (*ids, table[-1]) if ids and table else None


def _broadcast(a: Sizes | None, b: Sizes | None) -> Sizes | None:
    if a is None or b is None:
        return None
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    return tuple(y if x == 1 else x for x, y in pairs)


def _matmul_at(right: int) -> Rule:
    """The product of input 0 and input ``right``, either of them transposed where the node says so."""

    def product(call: _Call) -> Sizes | None:
        a = _behind_batches(call.shape(0), call.number("transBatchA"))
        b = _behind_batches(call.shape(right), call.number("transBatchB"))
        if a is None or b is None or len(a) < 2 or len(b) < 2:
            return None
        batch = _broadcast(a[:-2], b[:-2])
        rows, columns = a[-1 if call.number("transA") else -2], b[-2 if call.number("transB") else -1]
        return None if batch is None else (*batch, rows, columns)

    return product


def _behind_batches(sizes: Sizes | None, asked: int | None) -> Sizes | None:
    """With the first dimension behind those of batches, where that is ``asked`` for."""
    return (*sizes[1:-1], sizes[0], sizes[-1]) if asked and sizes and len(sizes) > 2 else sizes


def _columns(name: str) -> Rule:
    """Rows of the first input, of as many columns as the attribute says."""

    def rows(call: _Call) -> Sizes | None:
        a, columns = call.shape(0), call.number(name)
        return (*a[:-1], columns) if a and columns else None

    return rows


def _attention(call: _Call) -> Sizes | None:
    x, weight, sizes = call.shape(0), call.shape(1), call.numbers("qkv_hidden_sizes")
    if not x or not (weight or len(sizes) == 3):
        return None
    return (*x[:-1], sizes[2] if len(sizes) == 3 else (weight or (0,))[-1] // 3)


def _multi_head(call: _Call) -> Sizes | None:
    """Hidden size of the values: packed with the queries, as rows of all heads, or head by head."""
    query, value = call.shape(0), call.shape(2)
    if query is None or (call.has(2) and value is None) or len(query) not in (3, 5):
        return None
    if len(query) == 5:
        return (*query[:2], query[2] * query[4])
    if value is None:
        return query
    return (*query[:2], value[1] * value[3] if len(value) == 4 else value[-1])


def _grouped(call: _Call) -> Sizes | None:
    query, heads, pairs = call.shape(0), call.number("num_heads"), call.number("kv_num_heads")
    if query is None or len(query) != 3 or call.has(1):
        return query
    return (*query[:2], query[2] // (heads + 2 * pairs) * heads) if heads + 2 * pairs > 0 else None


def _present(call: _Call) -> Sizes | None:
    """Keys or values of all tokens, by head: as many as are told, or as the buffer of those before has room for."""
    made, heads, past, total = _grouped(call), call.number("num_heads"), call.shape(_PAST), call.content(_TOTAL)
    if not made or heads <= 0 or total is None or total.size != 1 or (call.has(_PAST) and (not past or len(past) != 4)):
        return None
    room = past[2] if past else 0
    return (made[0], call.number("kv_num_heads"), max(room, int(total.item())), made[-1] // heads)


def _sum_at(right: int) -> Rule:
    return lambda call: _broadcast(call.shape(0), call.shape(right))


def _joined(call: _Call) -> Sizes | None:
    parts = [shape for shape in call.shapes[2::3] if shape is not None]
    axis = call.number("axis")
    if not parts or len(parts) != len(call.shapes[2::3]) or not -len(parts[0]) <= axis < len(parts[0]):
        return None
    if any(len(part) != len(parts[0]) for part in parts):
        return None
    axis %= len(parts[0])
    return (*parts[0][:axis], sum(part[axis] for part in parts), *parts[0][axis + 1 :])


def _distances(call: _Call) -> Sizes | None:
    a, b = call.shape(0), call.shape(1)
    return (a[0], b[0]) if a and b else None


def _picked(call: _Call) -> Sizes | None:
    """Of GatherND without batches: a part of the data for each tuple of indices."""
    data, tuples = call.shape(0), call.shape(1)
    return None if data is None or not tuples else (*tuples[:-1], *data[tuples[-1] :])


def _unpacked(call: _Call) -> Sizes | None:
    """Rows as they were before they were quantized; bytes hold several elements of the last axis."""
    data, indices, axis = call.shape(0), call.shape(1), call.number("gather_axis")
    if not data or indices is None or not -len(data) <= axis < len(data):
        return None
    axis %= len(data)
    held = 8 // max(1, call.number("bits", 4)) if call.types[0] == onnx.TensorProto.UINT8 else 1
    whole = (*data[:-1], data[-1] * held)
    return (*whole[:axis], *indices, *whole[axis + 1 :])


def _per_sample(columns: Callable[[_Call], int]) -> Rule:
    """A row for each row of the first input; one of a single axis is a row."""

    def rows(call: _Call) -> Sizes | None:
        x = call.shape(0)
        return (1 if len(x) == 1 else x[0], columns(call)) if x else None

    return rows


_LIKE_FIRST = (_Output(_same),)
_LIKE_FIRST_OPS = frozenset(
    {
        "BiasAdd", "BiasGelu", "BiasSoftmax", "FastGelu", "Gelu", "GroupNorm", "Inverse", "MoE", "QLinearLeakyRelu",
        "QLinearSigmoid", "QLinearSoftmax", "QMoE", "QuickGelu", "RotaryEmbedding", "SimplifiedLayerNormalization",
        "Trilu",
    }
)  # fmt: skip
_SKIP_NORM = (_Output(_same), None, None, _Output(_same))
_PRODUCT = (_Output(_matmul_at(1)),)
_RULES: Mapping[str, Sequence[_Output | None]] = {
    **dict.fromkeys(_LIKE_FIRST_OPS, _LIKE_FIRST),
    "Attention": (_Output(_attention),),
    "BiasDropout": (_Output(_same), _Output(_same, like=99, dtype=onnx.TensorProto.BOOL)),
    "BiasSplitGelu": (_Output(_halved),),
    "CDist": (_Output(_distances),),
    "DecoderMaskedMultiHeadAttention": (_Output(_multi_head),),
    "DequantizeLinear": (_Output(_same, like=1),),
    "DynamicQuantizeMatMul": _PRODUCT,
    "EmbedLayerNormalization": (
        _Output(_embedded, like=2), _Output(_batch, like=99, dtype=onnx.TensorProto.INT32), _Output(_embedded, like=2),
    ),
    "FusedGemm": _PRODUCT,
    "FusedMatMul": _PRODUCT,
    "GatherBlockQuantized": (_Output(_unpacked, like=2),),
    "GatherND": (_Output(_picked),),
    "GroupQueryAttention": (_Output(_grouped), _Output(_present), _Output(_present)),
    "MatMulIntegerToFloat": (_Output(_matmul_at(1), like=2),),
    "MatMulNBits": (_Output(_columns("N")),),
    "MatMulNBitsMlp": (_Output(_columns("N")), _Output(_same)),
    "MatMulNBitsQkv": (*(_Output(_columns(name)) for name in ("Nq", "Nkv", "Nkv")), _Output(_same)),
    "MultiHeadAttention": (_Output(_multi_head),),
    "PackedAttention": (_Output(_attention),),
    "QAttention": (_Output(_attention, like=2),),
    "QGemm": (_Output(_matmul_at(3), like=8, dtype=onnx.TensorProto.FLOAT),),
    "QLinearAdd": (_Output(_sum_at(3)),),
    "QLinearConcat": (_Output(_joined, like=1),),
    "QLinearMul": (_Output(_sum_at(3)),),
    "QuantizeLinear": (_Output(_same, like=2, dtype=onnx.TensorProto.UINT8),),
    "SkipGroupNorm": (_Output(_same), _Output(_same)),
    "SkipLayerNormalization": _SKIP_NORM,
    "SkipSimplifiedLayerNormalization": _SKIP_NORM,
    "TransposeMatMul": _PRODUCT,
}  # fmt: skip
"""For every operator, its outputs in order; ``None`` for one that is not told."""
_FLOAT = onnx.TensorProto.FLOAT
_CLASSICAL: Mapping[str, Sequence[_Output | None]] = {
    "FeatureVectorizer": (_Output(_per_sample(lambda call: sum(call.numbers("inputdimensions"))), 99, _FLOAT),),
    "LinearRegressor": (_Output(_per_sample(lambda call: call.number("targets", 1)), 99, _FLOAT),),
    "SVMRegressor": (_Output(_per_sample(lambda _: 1), 99, _FLOAT),),
}
RUNTIMES_OWN: Mapping[str, Sequence[_Output | None]] = {"SimplifiedLayerNormalization": (_Output(_same, like=1),)}
"""Of ``ai.onnx`` in models that ONNX Runtime's optimiser or its exporter of language models wrote: no schema of it."""
_BY_DOMAIN = {CONTRIB_DOMAIN: _RULES, "ai.onnx.ml": _CLASSICAL, "": RUNTIMES_OWN, "ai.onnx": RUNTIMES_OWN}
