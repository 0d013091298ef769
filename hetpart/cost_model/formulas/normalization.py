"""Softmax, normalizations and attention."""

from __future__ import annotations

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import flops, per_input_element

PER_ELEMENT: dict[str, float] = {
    "BatchNormalization": 2, "GroupNormalization": 8, "Hardmax": 2, "InstanceNormalization": 8,
    "LayerNormalization": 8, "LogSoftmax": 7, "LpNormalization": 4, "MeanVarianceNormalization": 7,
    "RMSNormalization": 5, "Softmax": 7,
}  # fmt: skip

per_input_element(PER_ELEMENT)


@flops("LRN")
def _local_response(o: Operands) -> float:
    return float(o.numel(0) * (2 * o.integer("size", 1) + 10))
