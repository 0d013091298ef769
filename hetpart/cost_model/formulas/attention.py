"""Attention: two matrix products over every pair of query and key, with a softmax between."""

from __future__ import annotations

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import (
    CONTRIB,
    PREVIEW,
    flops,
    per_input_element,
    per_output_element,
)

SOFTMAX_FLOPS = 7.0
PAST_KEY: dict[str, int] = {
    "Attention": 4, "MultiHeadAttention": 6, "GroupQueryAttention": 3, "SparseAttention": 3,
    "DecoderMaskedMultiHeadAttention": 5, "PagedAttention": 3, "SparsePagedAttention": 3,
}  # fmt: skip
"""Input that holds the keys of earlier tokens, as [batch, heads, tokens, size]."""
SEPARATE = (
    "MultiHeadAttention", "GroupQueryAttention", "SparseAttention", "DecoderMaskedMultiHeadAttention",
    "PackedMultiHeadAttention", "PagedAttention", "SparsePagedAttention",
)  # fmt: skip
"""Contrib ops whose query, key and value come apart, the query perhaps with the other two packed behind it."""
PROJECTING = (
    "Attention", "DecoderMaskedSelfAttention", "LongformerAttention", "PackedAttention", "QAttention",
    "QOrderedAttention", "QOrderedLongformerAttention",
)  # fmt: skip
"""Contrib ops that make query, key and value from one input with one weight."""
LINEAR_FLOPS: dict[str, float] = {"linear": 4, "gated": 5, "delta": 8, "gated_delta": 9}
"""Per element of the state and token: its update and the read-out."""

per_input_element({"RotaryEmbedding": 3})
per_input_element({"RotaryEmbedding": 3, "GemmaRotaryEmbedding": 4, "MRotaryEmbedding": 3}, CONTRIB)
per_output_element({"GatedRelativePositionBias": 8, "RelativePositionBias": 2}, CONTRIB)


def _tokens(shape: tuple[int, ...]) -> int:
    """Tokens of one sequence, in [batch, tokens, hidden] as in [batch, heads, tokens, size]."""
    return shape[-2] if len(shape) > 1 else 1


def _head_size(o: Operands) -> int:
    shape = o.shape(0)
    if len(shape) == 4:
        return max(1, shape[-1])
    heads = o.integer("q_num_heads", o.integer("num_heads", 1))
    return max(1, (o.output_shape() or shape or (1,))[-1] // max(1, heads))


def _keys(o: Operands) -> int:
    """Tokens every query is compared with: those given, those remembered, or what the present cache holds."""
    projecting = o.op.domain == CONTRIB and o.op.op_type in PROJECTING
    given = _tokens(o.shape(0 if projecting or o.input(1) is None else 1))
    past = o.shape(PAST_KEY.get(o.op.op_type, len(o.inputs)))
    present = o.output_shape(1)
    return max(given + _tokens(past) if past else given, _tokens(present) if len(present) > 3 else 0)


def _scores(o: Operands, keys: int) -> int:
    """Pairs of query and key: each query of each head with each key."""
    return o.output_numel() // _head_size(o) * keys


def scores(o: Operands) -> int:
    """Pairs of query and key that an attention op compares, over all heads and sequences."""
    return _scores(o, _keys(o))


def _pairwise(o: Operands, keys: int) -> float:
    return 4.0 * o.output_numel() * keys + SOFTMAX_FLOPS * _scores(o, keys)


@flops("Attention")
def _attention(o: Operands) -> float:
    keys = _keys(o)
    return 2.0 * (o.numel(0) + o.output_numel()) * keys + SOFTMAX_FLOPS * _scores(o, keys)


flops.add(_attention, ("FlexAttention",), PREVIEW)


@flops(*SEPARATE, domain=CONTRIB)
def _separate(o: Operands) -> float:
    return _pairwise(o, _keys(o))


@flops(*PROJECTING, domain=CONTRIB)
def _projecting(o: Operands) -> float:
    columns = o.shape(1)[-1] if o.shape(1) else 1
    keys = 2 * o.integer("window", 0) or _keys(o)
    return 2.0 * o.numel(0) * columns + _pairwise(o, keys)


def _linear_attention(o: Operands) -> float:
    """A state of key size × value size per head, updated by every token."""
    heads = max(1, o.integer("q_num_heads", 1))
    key_size = max(1, (o.shape(0) or (1,))[-1] // heads)
    return LINEAR_FLOPS.get(str(o.attribute("update_rule", "gated_delta")), 9.0) * o.output_numel() * key_size


flops.add(_linear_attention, ("LinearAttention",))
flops.add(_linear_attention, ("LinearAttention",), CONTRIB)
