"""Mixtures of experts: each token is sent to ``k`` experts, and only the experts it is sent to are read."""

from __future__ import annotations

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import CONTRIB, bytes_read, flops

WEIGHTS: dict[str, tuple[int, ...]] = {"MoE": (2, 4, 6), "QMoE": (2, 5, 8)}
"""Inputs that hold the weights of all experts, as [experts, …]."""
SMALL: dict[str, tuple[int, ...]] = {"MoE": (0, 1), "QMoE": (0, 1)}
"""Inputs that belong to no expert."""


BITS: dict[str, int] = {"fp4": 4, "fp8": 8, "nvfp4": 4, "wfp4afp8": 4}
"""Of a weight, by the ``quant_type`` of QMoE; of integers its attributes tell."""


def packed(o: Operands, layer: int) -> int:
    """Weights that an element of the weights of an expert's first, second or third layer holds."""
    if o.op.op_type != "QMoE":
        return 1
    told = o.integer(f"fc{layer}_expert_weight_bits", o.integer("expert_weight_bits", 4))
    return max(1, 8 // max(1, BITS.get(str(o.attribute("quant_type", "int")), told)))


def _tokens(o: Operands) -> int:
    shape = o.shape(0)
    return o.numel(0) // max(1, shape[-1] if shape else 1)


def _experts(o: Operands) -> int:
    shape = o.shape(WEIGHTS[o.op.op_type][0])
    return max(1, shape[0] if shape else 1)


@flops(*WEIGHTS, domain=CONTRIB)
def _mixture(o: Operands) -> float:
    """Two flops for each weight of an expert and token sent to it; packed weights count as many as they hold."""
    layers = enumerate(WEIGHTS[o.op.op_type], start=1)
    weights = sum(o.numel(position) * packed(o, layer) for layer, position in layers)
    return 2.0 * _tokens(o) * o.integer("k", 1) * weights / _experts(o)


@bytes_read(*WEIGHTS, domain=CONTRIB)
def _active_bytes(o: Operands) -> int:
    shared = sum(o.nbytes(position) for position in SMALL[o.op.op_type])
    active = min(1.0, _tokens(o) * o.integer("k", 1) / _experts(o))
    return shared + round((o.input_bytes - shared) * active)
