"""Signals: what a Fourier transform of any length pads."""

from __future__ import annotations

from hetpart.cost_model.formulas.operands import Operands, element_bytes
from hetpart.cost_model.memory import NO_SCRATCH, Scratch
from hetpart.cost_model.session.scratch.table import FLOAT_BYTES, at_once, scratch

AXIS_IS_INPUT = 20
"""Opset from which the axis is the third input of DFT; before, it was an attribute."""
AXIS_INPUT, LENGTH_INPUT = 2, 1
CONVOLVED = 4
"""Padded signals held at a time: the chirp and its transform, what is multiplied by it, and what comes back."""


@scratch("DFT")
def _transformed(o: Operands, _: int) -> Scratch:
    """A length that is no power of two is computed as a convolution of the next power behind twice of it."""
    length = _length(o)
    if length & (length - 1) == 0:
        return NO_SCRATCH
    source = o.input(0)
    size = FLOAT_BYTES if source is None else element_bytes(source)
    padded = 1 << (2 * length - 2).bit_length()
    return at_once(*[2 * size * padded] * CONVOLVED)


def _length(o: Operands) -> int:
    shape, axis = o.shape(0), o.integer("axis", 1)
    if o.op.version >= AXIS_IS_INPUT:
        axis = _constant(o, AXIS_INPUT, -2)
    if o.integer("inverse", 0) and o.integer("onesided", 0):
        shape = o.output_shape()
    given = shape[axis] if -len(shape) <= axis < len(shape) else 1
    return max(1, _constant(o, LENGTH_INPUT, given))


def _constant(o: Operands, position: int, default: int) -> int:
    value = o.input(position)
    return int(value.content[0]) if value is not None and value.content else default
