"""Signals: what a Fourier transform of any length pads."""

from __future__ import annotations

from hetpart.cost_model.formulas.generation import padded_length, transformed_length
from hetpart.cost_model.formulas.operands import Operands, element_bytes
from hetpart.cost_model.memory import NO_SCRATCH, Scratch
from hetpart.cost_model.session.scratch.table import FLOAT_BYTES, at_once, scratch

CONVOLVED = 4
"""Padded signals held at a time: the chirp and its transform, what is multiplied by it, and what comes back."""


@scratch("DFT")
def _transformed(o: Operands, _: int) -> Scratch:
    """A length that is no power of two is computed as a convolution of the next power behind twice of it."""
    length = transformed_length(o)
    padded = padded_length(length)
    if padded == length:
        return NO_SCRATCH
    source = o.input(0)
    size = FLOAT_BYTES if source is None else element_bytes(source)
    return at_once(*[2 * size * padded] * CONVOLVED)
