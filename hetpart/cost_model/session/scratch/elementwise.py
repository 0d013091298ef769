"""Ops of element by element, and along an axis: what they lay out or keep on the way."""

from __future__ import annotations

from itertools import zip_longest
from math import prod

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.memory import NO_SCRATCH, Interval, Scratch
from hetpart.cost_model.session.scratch.table import CONTRIB, FLOAT_BYTES, QUANTIZED, at_once, scratch

BY_AXIS = 13
"""Opset from which Softmax is along one axis; before, all axes behind it counted as one."""
BRANCHES = (1, 2)
"""Inputs of a Where behind its condition."""
QUANTIZED_BRANCHES = (1, 4)
"""Those of a QLinearWhere, with a scale and a zero behind each."""
HALF = "float16"
PARTIAL_SUMS = 2
"""Variadic ops work pair by pair: what they have so far, and what they make of it."""


@scratch("QLinearWhere", domain=CONTRIB)
def _quantized_where(o: Operands, _: int) -> Scratch:
    """A byte for each element of either branch, stretched to it and the condition alone."""
    return at_once(*(prod(_stretched(o.shape(0), o.shape(branch))) for branch in QUANTIZED_BRANCHES))


@scratch("Where", domain=QUANTIZED)
def _where_between_quantizers(o: Operands, _: int) -> Scratch:
    """The same of one that quantization stands around."""
    return at_once(*(prod(_stretched(o.shape(0), o.shape(branch))) for branch in BRANCHES))


@scratch("Where")
def _where(o: Operands, _: int) -> Scratch:
    """What it takes of either branch, stretched to it and the condition alone, before it makes what joins them."""
    each = o.output_nbytes() / max(1, o.output_numel())
    sizes = (round(each * prod(_stretched(o.shape(0), o.shape(branch)))) for branch in BRANCHES)
    return Scratch(tuple(Interval(0, 1, size) for size in sizes if size), made_at=1)


def _stretched(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """What tensors of these shapes have in common once they are stretched."""
    pairs = zip_longest(reversed(one), reversed(other), fillvalue=1)
    return tuple(right if left == 1 else left for left, right in pairs)


@scratch("Hardmax", "LogSoftmax", "Softmax")
def _along_an_axis(o: Operands, _: int) -> Scratch:
    """Along any axis but the last: the input with that axis last, and the output too."""
    rank = len(o.output_shape())
    if o.op.version < BY_AXIS or not rank or o.integer("axis", -1) % rank == rank - 1:
        return NO_SCRATCH
    return at_once(o.output_nbytes(), o.output_nbytes())


@scratch("Softmax", domain=QUANTIZED)
@scratch("QLinearSoftmax", domain=CONTRIB)
def _quantized_along_an_axis(o: Operands, _: int) -> Scratch:
    """The same, of bytes."""
    rank = len(o.output_shape())
    last = not rank or o.integer("axis", -1) % rank == rank - 1
    return NO_SCRATCH if last else at_once(o.output_numel(), o.output_numel())


@scratch("Max", "Mean", "Min", "Sum")
def _pair_by_pair(o: Operands, _: int) -> Scratch:
    inputs = sum(value is not None for value in o.inputs)
    return at_once(*[o.output_nbytes()] * min(PARTIAL_SUMS, inputs - 2))


@scratch("BiasGelu", "FastGelu", domain=CONTRIB)
def _sum_before(o: Operands, _: int) -> Scratch:
    """Nothing where no bias is added."""
    return at_once(o.output_nbytes() if o.input(1) is not None else 0)


@scratch("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=CONTRIB)
def _summed_in_floats(o: Operands, _: int) -> Scratch:
    """Of halves both that are added and what is made of them."""
    first = o.input(0)
    halves = first is not None and first.dtype == HALF
    return at_once(*(FLOAT_BYTES * n for n in (o.numel(0), o.numel(1), o.output_numel()))) if halves else NO_SCRATCH


@scratch("MeanVarianceNormalization")
def _normalized(o: Operands, _: int) -> Scratch:
    return at_once(o.output_nbytes(), o.output_nbytes())


@scratch("BatchNormalization")
def _trained(o: Operands, _: int) -> Scratch:
    """In training the mean and the variance of what it is given."""
    return at_once(o.nbytes(3), o.nbytes(4)) if o.integer("training_mode", 0) else NO_SCRATCH
