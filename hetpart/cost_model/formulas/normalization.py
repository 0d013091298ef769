"""Softmax, normalizations and losses."""

from __future__ import annotations

from hetpart.cost_model.formulas.gathering import CACHED_BYTES
from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import CONTRIB, bytes_read, bytes_scattered, flops, per_input_element

PER_ELEMENT: dict[str, float] = {
    "BatchNormalization": 2, "GroupNormalization": 8, "Hardmax": 2, "InstanceNormalization": 8,
    "LayerNormalization": 8, "LogSoftmax": 7, "LpNormalization": 4, "MeanVarianceNormalization": 7,
    "NegativeLogLikelihoodLoss": 1, "RMSNormalization": 5, "SimplifiedLayerNormalization": 5, "Softmax": 7,
    "SoftmaxCrossEntropyLoss": 8,
}  # fmt: skip
CONTRIB_PER_ELEMENT: dict[str, float] = {
    "BiasSoftmax": 8, "BranchwiseRMSNorm": 5, "GatedRMSNorm": 10, "GroupNorm": 9, "QLinearSoftmax": 9,
    "QOrderedLayerNormalization": 10, "SkipGroupNorm": 10, "SkipLayerNormalization": 10,
    "SkipSimplifiedLayerNormalization": 7,
}  # fmt: skip
EMBEDDINGS = range(2, 5)
"""Which inputs of EmbedLayerNormalization are tables."""
POSITIONS, POSITION_IDS = 3, 8
"""Which of its inputs is the table of places, and which says the place of every token."""

per_input_element(PER_ELEMENT)
per_input_element(CONTRIB_PER_ELEMENT, CONTRIB)


@flops("LRN")
def _local_response(o: Operands) -> float:
    return float(o.numel(0) * (2 * o.integer("size", 1) + 10))


@flops("EmbedLayerNormalization", "QEmbedLayerNormalization", domain=CONTRIB)
def _embedding(o: Operands) -> float:
    return 10.0 * o.output_numel()


@bytes_scattered("EmbedLayerNormalization", "QEmbedLayerNormalization", domain=CONTRIB)
def _embedding_rows(o: Operands) -> int:
    return sum(_table_rows(o, position) for position in EMBEDDINGS if o.input(position) is not None)


def _table_rows(o: Operands, position: int) -> int:
    """A row a token, of the positions without ids a row for each place of one sequence; of a small table all once."""
    table, rows = o.nbytes(position), o.output_nbytes()
    if position == POSITIONS and o.input(POSITION_IDS) is None:
        rows //= max(1, (o.output_shape() or (1,))[0])
    return min(table, rows) if table <= CACHED_BYTES else rows


@bytes_read("EmbedLayerNormalization", "QEmbedLayerNormalization", domain=CONTRIB)
def _embedding_read(o: Operands) -> int:
    """One row of each table a token, and the rest in full."""
    rest = sum(value.nbytes for i, value in enumerate(o.inputs) if value is not None and i not in EMBEDDINGS)
    return _embedding_rows(o) + rest
