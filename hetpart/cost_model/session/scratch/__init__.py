"""Op → what its kernel takes from the arena beside inputs and outputs, a file per family."""

from __future__ import annotations

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.memory import NO_SCRATCH, Scratch
from hetpart.cost_model.session.scratch import (
    attention,
    einsum,
    elementwise,
    experts,
    images,
    products,
    recurrent,
    signals,
)
from hetpart.cost_model.session.scratch.table import QUANTIZED, SCRATCH
from hetpart.devices import Provider
from hetpart.graph.ir import Graph, Op

__all__ = ["FAMILIES", "SCRATCH", "scratch_of"]

FAMILIES = (attention, einsum, elementwise, experts, images, products, recurrent, signals)
"""Modules that fill the table when they are imported."""


def scratch_of(op: Op, graph: Graph, provider: Provider, threads: int, *, quantized: bool = False) -> Scratch:
    """What the kernel of ``op`` takes while it runs, where it computes on plain values.

    Args:
        op: Of any type.
        graph: What it is an op of.
        provider: What runs it.
        threads: Those that do; 0 counts as one.
        quantized: Whether it is computed on integers, by the DequantizeLinear before and the QuantizeLinear behind it.
    """
    formula = SCRATCH.get((provider, QUANTIZED if quantized else op.domain, op.op_type))
    return NO_SCRATCH if formula is None else formula(Operands.of(op, graph), max(1, threads))
