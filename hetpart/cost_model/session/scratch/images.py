"""Images: unfolded for a matrix product, folded behind one, or copied with room around them."""

from __future__ import annotations

from math import prod

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.memory import NO_SCRATCH, Scratch
from hetpart.cost_model.session.scratch.table import FLOAT_BYTES, at_once, scratch

UNFOLDED_BYTES = 64 << 10
"""Of an image laid out for a matrix product, what a thread holds at a time."""
SAMPLE_LANES = 8
"""Pixels that a deformable convolution plans together."""
SAMPLE_BYTES = 32
"""Of one sample: where its four neighbours lie, and how much each counts."""


@scratch("Conv")
def _convolution(o: Operands, threads: int) -> Scratch:
    """A convolution whose filters outnumber its pixels lays out all of its image; one of a single pixel nothing."""
    source, made = o.input(0), o.output()
    if source is None or made is None or not (source.is_static and made.is_static) or made.dtype != "float32":
        return NO_SCRATCH
    filters, *inner = o.shape(1)
    pixels = prod(o.output_shape()[2:])
    if prod(inner[1:]) == 1 and o.shape(0)[2:] == o.output_shape()[2:]:
        return NO_SCRATCH
    whole = prod(inner) * pixels * FLOAT_BYTES
    return at_once(whole if filters > pixels else threads * UNFOLDED_BYTES)


@scratch("ConvTranspose")
def _transposed(o: Operands, _: int) -> Scratch:
    """What every pixel of one image adds to the output, before it is summed up, a group at a time."""
    return at_once(prod(o.shape(1)[1:]) * prod(o.shape(0)[2:]) * FLOAT_BYTES)


@scratch("ConvInteger")
def _of_integers(o: Operands, _: int) -> Scratch:
    kernel = prod(o.shape(1)[2:])
    return at_once(prod(o.shape(1)[1:]) * prod(o.output_shape()[2:]) if kernel > 1 else 0)


@scratch("DeformConv")
def _deformable(o: Operands, _: int) -> Scratch:
    taps, pixels = prod(o.shape(1)[2:]), prod(o.output_shape()[2:])
    planned = o.integer("offset_group", 1) * taps * -(-pixels // SAMPLE_LANES) * SAMPLE_LANES * SAMPLE_BYTES
    channels = (*o.shape(0), 1, 1)[1] // max(1, o.integer("group", 1))
    return at_once(channels * taps * pixels * FLOAT_BYTES, planned)


@scratch("LRN")
def _local_response(o: Operands, _: int) -> Scratch:
    """The squares of one image, padded by the window's channels, and a scale for every element."""
    batch, channels = (*o.shape(0), 1, 1)[:2]
    image = o.nbytes(0) // max(1, batch)
    return at_once(o.nbytes(0), image + image // max(1, channels) * (o.integer("size", 1) - 1))
