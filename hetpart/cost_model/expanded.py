"""Seconds of convolutions that ONNX Runtime's CPU kernel writes out as columns and multiplies with the filters."""

from __future__ import annotations

from math import prod

from hetpart.cost_model.call_seconds import ELEMENT_BYTES, Surroundings, call_seconds
from hetpart.cost_model.formulas.convolution import COPIES, column_elements
from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.kernel_calls import DTYPE
from hetpart.cost_model.moving_calls import COPY, KernelCall
from hetpart.graph.ir import Graph, Op
from hetpart.rates import KernelRates

PANEL = 65_536
"""Elements of columns that are copied while a core's own caches hold them."""


def expanded_seconds(op: Op, graph: Graph, rates: KernelRates) -> float:
    """Of an op that ``is_expanded``: its columns, its products at the best rate of all, and what it writes."""
    operands = Operands.of(op, graph)
    _, inner, *window = operands.shape(1)
    numel, columns = operands.output_numel(), column_elements(operands)
    # Windows of one element are read as they lie.
    copies = COPIES if prod(window) > 1 else COPIES - 1
    products = 2 * numel * inner * prod(window) / rates.peak_flops[DTYPE]
    seconds = products + _copied(copies * columns, PANEL, rates) + _copied(numel, max(1, numel), rates)
    return rates.launch_seconds + seconds * op.usage.probability


def _copied(numel: int, at_once: int, rates: KernelRates) -> float:
    """Seconds of copying so many elements, without starting kernels."""
    moved = 2 * ELEMENT_BYTES * at_once
    around = Surroundings(distance=moved, touched=moved, weights=0)
    once = call_seconds(KernelCall(COPY, (at_once,)), rates, around)
    return max(0.0, once - rates.launch_seconds) * numel / at_once
