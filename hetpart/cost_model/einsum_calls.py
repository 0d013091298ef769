"""The measured kernels that an Einsum calls: of copies, sums and products."""

from __future__ import annotations

from hetpart.cost_model.call_seconds import ELEMENT_BYTES, Surroundings, call_seconds
from hetpart.cost_model.formulas.einsum import Copy, Product, Step, Sum, einsum_steps
from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.kernel_calls import DTYPE
from hetpart.cost_model.moving_calls import COPY, LONGEST_RUN, KernelCall
from hetpart.cost_model.product_calls import PLAIN
from hetpart.graph.ir import Graph, Op
from hetpart.rates import KernelRates

FEWEST = 16
"""Terms and columns of the smallest product in a calibration's tables; less takes its cycles."""


def einsum_seconds(op: Op, graph: Graph, rates: KernelRates) -> float | None:
    """Seconds of an Einsum whose steps follow each other; None where no table speaks of one of them."""
    operands = Operands.of(op, graph)
    steps, first = einsum_steps(operands), operands.input(0)
    if not steps or first is None or first.dtype != DTYPE or any(map(_is_too_small, steps)):
        return None
    calls = list(zip(steps, map(_call, steps), strict=True))
    if any(call.family not in rates.tables for _, call in calls):
        return None
    return rates.launch_seconds + sum(call_seconds(call, rates, _around(step)) for step, call in calls)


def _is_too_small(step: Step) -> bool:
    return isinstance(step, Product) and min(step.inner, step.columns) < FEWEST


def _around(step: Step) -> Surroundings:
    """What a step reads was made by the one before."""
    moved = ELEMENT_BYTES * (step.reads + step.makes)
    return Surroundings(distance=moved, touched=moved, weights=0)


def _call(step: Step) -> KernelCall:
    match step:
        case Product(batches, rows, inner, columns):
            return KernelCall(PLAIN, (rows, inner, columns), calls=batches)
        case Copy(numel, run):
            return (
                KernelCall(COPY, (numel,)) if run == numel else KernelCall("transpose", (numel, min(run, LONGEST_RUN)))
            )
        case Sum(reads, makes, kept, across):
            reduced = max(1, reads // max(1, makes))
            return (
                KernelCall("reduction_across", (max(1, makes // kept), reduced, kept))
                if across
                else KernelCall("reduction", (makes, reduced))
            )
