"""Attention: two matrix products over every pair of query and key, with a softmax between."""

from __future__ import annotations

from math import prod

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import (
    CONTRIB,
    PREVIEW,
    flops,
    per_input_element,
    per_output_element,
    spread_cycles,
)

SOFTMAX_FLOPS = 7.0
PAST_KEY: dict[str, int] = {
    "Attention": 4, "MultiHeadAttention": 6, "GroupQueryAttention": 3, "SparseAttention": 3,
    "DecoderMaskedMultiHeadAttention": 5,
}  # fmt: skip
"""Input that holds the keys of earlier tokens, as [batch, heads, tokens, size]."""
TOKEN_OFFSET: dict[str, int] = {"PackedAttention": 3, "PackedMultiHeadAttention": 4}
"""Input shaped [batch, tokens] where the tokens of all sequences come behind one another, without padding."""
PAGED = ("PagedAttention", "SparsePagedAttention")
KEY_CACHE, BLOCK_TABLE, SELECTED = 3, 7, 9
"""Inputs of those whose keys lie in blocks: [blocks, tokens of a block, …], and [batch, blocks of a sequence];
of a sparse one also what is selected for each token."""
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
WEIGHTS: dict[str, tuple[int, ...]] = {"QOrderedAttention": (5, 6, 7), "QOrderedLongformerAttention": (2,)}
"""Inputs of those whose weights are not input 1, or three."""
LINEAR_FLOPS: dict[str, float] = {"linear": 4, "gated": 5, "delta": 8, "gated_delta": 9}
"""Per element of the state and token: its update and the read-out."""
CAPPED_CYCLES: dict[str, float] = {"Attention": 48, "GroupQueryAttention": 50}
"""Of each score whose hyperbolic tangent is taken, by the C library: ``softcap``. 46 to 53 on an EPYC 9004, taken to
run at 3.5 GHz, for 64 to 512 tokens."""
FLOPS_A_CYCLE = 25.0
"""Of the products beside, there."""

per_input_element({"GemmaRotaryEmbedding": 4}, CONTRIB)
per_output_element({"GatedRelativePositionBias": 8, "RelativePositionBias": 2}, CONTRIB)


def _tokens(shape: tuple[int, ...]) -> int:
    """Of a sequence, in [batch, tokens, hidden], [batch, heads, tokens, size] or, packed, [batch, tokens, heads, …]."""
    if len(shape) > 4:
        return shape[1]
    return shape[-2] if len(shape) > 1 else 1


def _heads(o: Operands) -> int:
    return max(1, o.integer("q_num_heads", o.integer("num_heads", 1)))


def _queries(o: Operands) -> int:
    """Queries of each head of each sequence, by the output: [batch, heads, tokens, size], or […, heads × size]."""
    shape = o.output_shape()
    return max(1, prod(shape[:-1]) * (1 if len(shape) > 3 else _heads(o)))


def _key_size(o: Operands) -> float:
    """Of a head; as that of a value where one tensor holds query, key and value, and nothing tells them apart."""
    value_size = o.output_numel() / _queries(o)
    if _projects(o):
        widths = o.integers("qkv_hidden_sizes")
        return widths[0] / _heads(o) if widths else value_size
    shape = o.shape(0)
    if o.input(1) is None or len(shape) < 2:
        return value_size
    return shape[-1] / (1 if len(shape) > 3 else _heads(o))


def _projects(o: Operands) -> bool:
    return o.op.domain == CONTRIB and o.op.op_type in PROJECTING


def _keys(o: Operands) -> int:
    """Tokens every query is compared with: those given, those remembered, or what the present cache holds."""
    kind = o.op.op_type
    if kind in TOKEN_OFFSET:
        return _tokens((*o.shape(TOKEN_OFFSET[kind]), 1))
    if kind in PAGED:
        return _paged_keys(o)
    given = _tokens(o.shape(0 if _projects(o) or o.input(1) is None else 1))
    past = o.shape(PAST_KEY.get(kind, len(o.inputs)))
    kept, present = o.output(1), o.output_shape(1)
    if len(present) > 3 and kept is not None and kept.is_static:
        return present[-2]
    return max(given + past[-2] if len(past) > 1 else given, present[-2] if len(present) > 3 else 0)


def _paged_keys(o: Operands) -> int:
    """All that the blocks of a sequence have room for; of a sparse one what is selected and, in one mode, a window."""
    room = (*o.shape(BLOCK_TABLE), 1, 1)[1] * (*o.shape(KEY_CACHE), 1, 1)[1]
    if o.op.op_type != "SparsePagedAttention":
        return room
    window = o.integer("local_window_size", -1) if o.attribute("attention_mode", "") == "local_plus_selected" else 0
    return (1, *o.shape(SELECTED))[-1] + (room if window < 0 else min(room, window))


def scores(o: Operands) -> int:
    """Pairs of query and key that an attention op compares, over all heads and sequences."""
    return _queries(o) * _keys(o)


def _pairwise(o: Operands, keys: int) -> float:
    """A product over the size of a key and one over that of a value, and the softmax between."""
    queries = _queries(o)
    return 2.0 * (queries * _key_size(o) + o.output_numel()) * keys + SOFTMAX_FLOPS * queries * keys


@flops("Attention")
@flops(*SEPARATE, domain=CONTRIB)
def _separate(o: Operands) -> float:
    return _pairwise(o, _keys(o))


@spread_cycles("Attention")
@spread_cycles("GroupQueryAttention", domain=CONTRIB)
def _capped(o: Operands) -> float:
    """Of GroupQueryAttention, scores with keys that come later are left out."""
    if not o.attribute("softcap", 0.0):
        return 0.0
    grouped = o.op.op_type == "GroupQueryAttention"
    later = (_tokens(o.shape(0)) - 1) / 2 if grouped else 0.0
    capped = CAPPED_CYCLES[o.op.op_type] * _queries(o) * max(1.0, _keys(o) - later)
    return capped + _pairwise(o, _keys(o)) / FLOPS_A_CYCLE


flops.add(_separate, ("FlexAttention",), PREVIEW)


@flops(*PROJECTING, domain=CONTRIB)
def _projecting(o: Operands) -> float:
    columns = sum((1, *o.shape(position))[-1] for position in WEIGHTS.get(o.op.op_type, (1,)))
    keys = 2 * o.integer("window", 0) or _keys(o)
    return 2.0 * o.numel(0) * columns + _pairwise(o, keys)


def _linear_attention(o: Operands) -> float:
    """A state of key size × value size per head, updated by every token."""
    heads = max(1, o.integer("q_num_heads", 1))
    key_size = max(1, (o.shape(0) or (1,))[-1] // heads)
    return LINEAR_FLOPS.get(str(o.attribute("update_rule", "gated_delta")), 9.0) * o.output_numel() * key_size


flops.add(_linear_attention, ("LinearAttention",))
flops.add(_linear_attention, ("LinearAttention",), CONTRIB)
