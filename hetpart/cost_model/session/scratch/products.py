"""Matrix products of integers, whose sums are wider than what goes in and out."""

from __future__ import annotations

from math import prod

from hetpart.cost_model.formulas.integers import CHANNELS, RIGHT, SYMMETRIC, held_as
from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.memory import NO_SCRATCH, Scratch
from hetpart.cost_model.session.scratch.table import CONTRIB, FLOAT_BYTES, QUANTIZED, at_once, scratch

SUM_BYTES = 4
"""Products of bytes are summed up as int32."""
POINTER_BYTES = 8
IMAGE_AXES = 2
"""Of what has more, all groups are unfolded at once."""
SCALED_BLOCK_BYTES = 8
"""A scale and a sum beside each block of a row that is quantized as it is multiplied."""
INTEGERS = 4
"""Accuracy level from which MatMulNBits multiplies integers."""
PACKED_BITS = 4
"""Bits of the weights that MatMulNBits multiplies with floats without unpacking them all first."""


@scratch("Gemm", "MatMul", domain=QUANTIZED)
@scratch("QLinearMatMul")
def _quantized_product(o: Operands, _: int) -> Scratch:
    return at_once(SUM_BYTES * o.output_numel())


@scratch("QGemm", domain=CONTRIB)
def _quantized_gemm(o: Operands, _: int) -> Scratch:
    """Its sums lie in the output where that is of floats."""
    made = o.output()
    return at_once(SUM_BYTES * o.output_numel() if made is not None and made.dtype != "float32" else 0)


@scratch("MatMulInteger", domain=QUANTIZED)
@scratch("DynamicQuantizeMatMul", domain=CONTRIB)
def _quantizing_product(o: Operands, _: int) -> Scratch:
    return at_once(o.numel(0))


@scratch("MatMulNBits", domain=CONTRIB)
def _packed_product(o: Operands, _: int) -> Scratch:
    """Rows quantized block by block, with a scale and a sum of each.

    All weights as floats where no kernel multiplies them as they are: what is no constant is laid out for none.
    """
    block, inner = max(1, o.integer("block_size", 32)), o.integer("K", 1)
    weights = o.input(1)
    is_laid_out = weights is not None and weights.is_constant
    if o.integer("accuracy_level", 0) < INTEGERS or not is_laid_out:
        unpacked = FLOAT_BYTES * inner * o.integer("N", 1)
        as_it_is = is_laid_out and o.integer("bits", PACKED_BITS) == PACKED_BITS
        return NO_SCRATCH if as_it_is else at_once(unpacked)
    rows = o.numel(0) // max(1, inner)
    return at_once(rows * -(-inner // block) * (block + SCALED_BLOCK_BYTES))


@scratch("MatMulBnb4", domain=CONTRIB)
def _unpacked_product(o: Operands, _: int) -> Scratch:
    """All weights as floats."""
    return at_once(FLOAT_BYTES * o.integer("K", 1) * o.integer("N", 1))


@scratch("Conv", domain=QUANTIZED)
def _convolution_between_quantizers(o: Operands, _: int) -> Scratch:
    """Weights that are quantized for it, as the model has them as floats, have no kernel for symmetric ones."""
    weights = o.input(1)
    given = weights is not None and not (weights.is_constant and weights.dtype == "float32")
    return _convolution_of_bytes(o, o.shape(1), symmetric=given and held_as(o, 1) == SYMMETRIC[1])


@scratch("QLinearConv")
def _quantized_convolution(o: Operands, _: int) -> Scratch:
    image, weight = o.input(0), o.input(RIGHT)
    dtypes = () if image is None or weight is None else (image.dtype, weight.dtype)
    return _convolution_of_bytes(o, o.shape(RIGHT), symmetric=dtypes == SYMMETRIC)


def _convolution_of_bytes(o: Operands, weight: tuple[int, ...], *, symmetric: bool) -> Scratch:
    """Symmetric weights are multiplied with unsigned pixels where they lie, by pointers; others with an unfolded image.

    A convolution of every channel by itself goes by pointers, whatever the weights are.
    """
    filters, inner, *kernel = (*weight, 1, 1)[: max(2, len(weight))]
    pixels, taps = prod(o.output_shape()[2:]), prod(kernel)
    plain = taps == 1 and o.shape(0)[2:] == o.output_shape()[2:]
    groups = o.integer("group", 1)
    depthwise = inner == 1 and filters == groups
    sums, pointers = SUM_BYTES * pixels * filters, pixels * taps * POINTER_BYTES
    if symmetric and (depthwise or (groups == 1 and inner % CHANNELS == 0)):
        return at_once(0 if plain else pointers)
    if depthwise:
        return at_once(sums, pointers)
    unfolded = 0 if plain else pixels * taps * inner * (groups if len(kernel) > IMAGE_AXES else 1)
    return at_once(sums, unfolded)


@scratch("AveragePool", domain=QUANTIZED)
@scratch("QLinearAveragePool", domain=CONTRIB)
def _quantized_average(o: Operands, _: int) -> Scratch:
    """All of the input as floats."""
    return at_once(FLOAT_BYTES * o.numel(0))
