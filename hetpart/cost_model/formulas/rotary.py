"""Rotary embeddings read a row of cosines and one of sines a token, of tables that have one for every position."""

from __future__ import annotations

from math import prod

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import CONTRIB, ONNX, Key, bytes_read

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
