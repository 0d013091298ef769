"""Rotary embeddings read a row of cosines and one of sines a token, of tables that have one for every position."""

from __future__ import annotations

from math import prod

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import CONTRIB, ONNX, Key, bytes_read, flops

COSINES: dict[Key, int] = {
    (ONNX, "RotaryEmbedding"): 1,
    (CONTRIB, "RotaryEmbedding"): 2,
    (CONTRIB, "MRotaryEmbedding"): 2,
    (CONTRIB, "GroupQueryAttention"): 7,
    (CONTRIB, "PagedAttention"): 8,
    (CONTRIB, "SparseAttention"): 9,
    (CONTRIB, "DynamicSparseAttention"): 11,
    (CONTRIB, "SparsePagedAttention"): 14,
    (CONTRIB, "SparseAttentionIndexer"): 4,
    (CONTRIB, "PackedSparseAttentionIndexer"): 4,
}
"""The input that holds the cosines; the next one holds the sines."""
ROTATED_FLOPS = 3.0
"""Per element that turns: a product with a cosine, one with a sine, and a sum."""


@flops("RotaryEmbedding")
@flops("RotaryEmbedding", "MRotaryEmbedding", domain=CONTRIB)
def _rotation(o: Operands) -> float:
    """Of the first elements of each head, or of all."""
    head_size, turned = _head_size(o), o.integer("rotary_embedding_dim", 0)
    return ROTATED_FLOPS * o.numel(0) * (turned / head_size if 0 < turned < head_size else 1.0)


def _head_size(o: Operands) -> int:
    """0 where nothing says how many heads [batch, tokens, hidden] holds."""
    shape, heads = o.shape(0), o.integer("num_heads", 0)
    if len(shape) == 4:
        return shape[-1]
    return shape[-1] // heads if shape and heads > 0 else 0


def _tokens(o: Operands) -> int:
    """Of all sequences, in [batch, heads, tokens, size], [batch, tokens, hidden] or [tokens, hidden]."""
    shape = o.shape(0)
    return shape[0] * shape[2] if len(shape) == 4 else prod(shape[:-1])


def _rows_read(o: Operands) -> int:
    """All inputs once, but of both tables no more than a row for each token."""
    cosines = COSINES[o.op.domain, o.op.op_type]
    return o.input_bytes - sum(_spared(o, position) for position in (cosines, cosines + 1))


def _spared(o: Operands, position: int) -> int:
    rows = prod(o.shape(position)[:-1])
    return o.nbytes(position) * max(0, rows - _tokens(o)) // max(1, rows)


for domain, op_type in COSINES:
    bytes_read.add(_rows_read, (op_type,), domain)
