"""Images: unfolded for a matrix product, folded behind one, or copied with room around them."""

from __future__ import annotations

from math import ceil, prod

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.memory import NO_SCRATCH, Scratch
from hetpart.cost_model.session.scratch.table import FLOAT_BYTES, at_once, scratch

UNFOLDED_BYTES = 64 << 10
"""Of an image laid out for a matrix product, what a thread holds at a time."""
SHARE_MULTIPLICATIONS, SHARE_PIXELS, MOST_SHARING = 64 << 10, 16, 16
"""For each so many multiplications of one image a thread more shares them, by as many pixels at a time, up to so many
threads: ``MLAS_SGEMM_THREAD_COMPLEXITY``, ``MLAS_SGEMM_STRIDEN_THREAD_ALIGN``, ``MLAS_MAXIMUM_THREAD_COUNT``."""
VOLUME = ("slices", "rows", "columns")
FILTERS = {"cubic": 2, "linear": 1}
"""Pixels to either side that count when an image is resized, where it does not shrink."""
SAMPLE_LANES = 8
"""Pixels that a deformable convolution plans together."""
SAMPLE_BYTES = 32
"""Of one sample: where its four neighbours lie, and how much each counts."""


@scratch("Conv")
def _convolution(o: Operands, threads: int) -> Scratch:
    """A group whose filters outnumber its pixels lays out all of an image, and one group follows the other.

    Any other lays out as much as a thread holds. What is a product as it lies takes nothing.
    """
    source, made = o.input(0), o.output()
    if source is None or made is None or not (source.is_static and made.is_static) or made.dtype != "float32":
        return NO_SCRATCH
    if _is_product(o):
        return NO_SCRATCH
    groups = max(1, o.integer("group", 1))
    filters, *inner = o.shape(1)
    pixels, taps = prod(o.output_shape()[2:]), prod(inner)
    if filters // groups > pixels or len(inner) - 1 > len(VOLUME):
        return at_once(taps * pixels * FLOAT_BYTES)
    images = groups * o.shape(0)[0]
    workers = min(threads, images) if images > 1 else _sharing(filters * taps * pixels, pixels, threads)
    return at_once(workers * UNFOLDED_BYTES)


def _is_product(o: Operands) -> bool:
    """Whether pixels are multiplied where they lie: one by one, or of a single channel in rows or whole columns.

    Strides and room around the image forbid it, wherever the latter comes from.
    """
    image, made, (_, channels, *window) = o.shape(0)[2:], o.output_shape()[2:], o.shape(1)
    dilations = o.integers("dilations") or (1,) * len(window)
    inside = all(
        after == before - step * (taps - 1)
        for after, before, step, taps in zip(made, image, dilations, window, strict=True)
    )
    if not inside or any(stride != 1 for stride in o.integers("strides")):
        return False
    if prod(window) == 1:
        return True
    of_lines = len(window) < len(VOLUME) and channels == 1 and all(step == 1 for step in dilations)
    return of_lines and (window[-1] == image[-1] or (window[-1] == 1 and window[0] == image[0]))


def _sharing(multiplications: int, pixels: int, threads: int) -> int:
    """How many of ``threads`` share the pixels of one image, as MLAS divides a product by its columns."""
    workers = min(threads, MOST_SHARING, multiplications // SHARE_MULTIPLICATIONS + 1)
    share = -(-pixels // (workers * SHARE_PIXELS)) * SHARE_PIXELS
    if share >= pixels:
        return 1
    return workers - 1 if share * (workers - 1) >= pixels else workers


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


@scratch("Resize")
def _smoothed(o: Operands, _: int) -> Scratch:
    """With antialias: how much each pixel counts along every axis, and one image with its rows resized.

    Of volumes beside it all slices of all of them, resized in their plane.
    """
    before, after = o.shape(0), o.output_shape()
    if not o.integer("antialias", 0) or len(before) != len(after) or len(before) < len(VOLUME) - 1:
        return NO_SCRATCH
    first, last = _spatial(before, after)
    sizes = [*zip(before[first:last], after[first:last], strict=True)]
    width, channels = o.output_nbytes() / max(1, o.output_numel()), prod((*before[1:first], *before[last:]))
    slices = prod(size for size, _ in sizes[:-2]) * channels
    (high, resized_high), (_, wide) = sizes[-2:]
    volumes = prod(before[: min(first, 1)]) * resized_high if sizes[:-2] else 0
    reach = FILTERS.get(str(o.attribute("mode", "")), 1)
    shares = (_share_bytes(*size, reach) for size in sizes)
    return at_once(*shares, volumes * wide * slices * width, high * wide * slices * width)


def _spatial(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, int]:
    """Where the axes of the image begin and end: channels are before them where their number stays, else behind."""
    rank = len(before)
    if rank <= len(VOLUME):
        return 0, rank
    return (2, rank) if before[1] == after[1] else (1, rank - 1)


def _share_bytes(before: int, after: int, reach: int) -> int:
    """A window of pixels for each that is made."""
    return FLOAT_BYTES * after * (1 + 2 * ceil(reach * max(1.0, before / max(1, after))))
