"""Convolutions: two flops for each weight an output element sees."""

from __future__ import annotations

from math import prod

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import CONTRIB, flops, serial_cycles, spread_cycles
from hetpart.cost_model.session.layout import ALIGNED, IMAGE_RANK
from hetpart.devices import CHANNEL_BLOCK

COPIES = 2
"""Of each element of the columns, a panel at a time: ``MlasConvIm2Col`` of ``convolve.cpp`` writes it, and
``MlasSgemmOperation`` packs it. A column of 1 to 64 filters took 0.2 ns an element and 0.018 a filter on an EPYC 9004,
whose products take the latter."""
COPY_CYCLES = 0.35
"""Of an element that is copied so."""
ADDED_CYCLES, ADDED_RUN_CYCLES = 1.3, 0.7
"""Of each element of the columns that a ``ConvTranspose`` makes of all groups and adds to the image, ``Col2im`` on one
thread: 1.0 to 1.7 on an EPYC 9004, taken to run at 3.5 GHz, with one channel a group, 1.2 and 1.3 with 16 and 64.
Without strides, where what it adds lies together, 0.8."""
QUANTIZED_WEIGHT = 3
"""Where a QLinearConv has its weight."""


def _weights_per_output(o: Operands, weight: int = 1) -> int:
    """Weight is [outputs, inputs / group, *kernel]: each output element is a sum over all but the first."""
    return prod(o.shape(weight)[1:])


def is_expanded(o: Operands) -> bool:
    """Whether the CPU provider writes out a ``Conv`` window by window, as columns that it multiplies with the filters.

    It does so for each group by itself, of all but images whose channels make blocks; plain products need none.
    """
    first, filters, groups = o.input(0), o.shape(1), o.integer("group", 1)
    if first is None or first.dtype != "float32" or len(filters) < IMAGE_RANK - 1:
        return False
    made, inner, *window = filters
    if len(filters) != IMAGE_RANK:
        return groups > 1 or prod(window) > 1
    if inner == 1 and made == groups:
        return groups > 1 and made % ALIGNED != 0
    return groups > 1 and (inner % CHANNEL_BLOCK, made // groups % CHANNEL_BLOCK) != (0, 0)


def column_elements(o: Operands) -> int:
    """Of all columns: for each place of the result, what the windows of all groups see there."""
    made, *_ = o.shape(1)
    return o.output_numel() // max(1, made) * o.integer("group", 1) * _weights_per_output(o)


@spread_cycles("Conv")
def _expanded(o: Operands) -> float:
    return COPIES * COPY_CYCLES * column_elements(o) if is_expanded(o) else 0.0


def _bias(o: Operands) -> int:
    return o.output_numel() if o.input(2) is not None else 0


@flops("Conv")
def _convolution(o: Operands) -> float:
    return 2.0 * o.output_numel() * _weights_per_output(o) + _bias(o)


@flops("ConvInteger", "CausalConvWithState")
def _plain_convolution(o: Operands) -> float:
    return 2.0 * o.output_numel() * _weights_per_output(o)


@flops("FusedConv", "NhwcConv", "NhwcFusedConv", "CausalConvWithState", domain=CONTRIB)
def _contrib_convolution(o: Operands) -> float:
    """The activation and the sum on top are a few flops an element."""
    return o.output_numel() * (2.0 * _weights_per_output(o) + 2)


def _quantized_convolution(o: Operands) -> float:
    return o.output_numel() * (2.0 * _weights_per_output(o, QUANTIZED_WEIGHT) + 2)


flops.add(_quantized_convolution, ("QLinearConv",))
flops.add(_quantized_convolution, ("QLinearConv",), CONTRIB)


def _transposed_convolution(o: Operands) -> float:
    """Weight is [inputs, outputs / group, *kernel]: each input element is spread over all but the first."""
    return 2.0 * o.numel(0) * _weights_per_output(o)


flops.add(lambda o: _transposed_convolution(o) + _bias(o), ("ConvTranspose",))
flops.add(_transposed_convolution, ("ConvTransposeWithDynamicPads",), CONTRIB)


@serial_cycles("ConvTranspose")
def _added_columns(o: Operands) -> float:
    channels = max(1, (*o.shape(1), 1)[0])
    each = ADDED_CYCLES if max(o.integers("strides"), default=1) > 1 else ADDED_RUN_CYCLES
    return each * o.numel(0) / channels * o.integer("group", 1) * _weights_per_output(o)


@flops("DeformConv")
def _deformable_convolution(o: Operands) -> float:
    """A convolution that first interpolates each sampled element from its four neighbours."""
    shape = o.output_shape()
    positions = o.output_numel() // max(1, shape[1] if len(shape) > 1 else 1)
    channels = o.shape(0)[1] if len(o.shape(0)) > 1 else 1
    interpolation = 8.0 * positions * channels * prod(o.shape(1)[2:])
    return 2.0 * o.output_numel() * _weights_per_output(o) + interpolation


@flops("Col2Im")
def _columns_to_image(o: Operands) -> float:
    return float(o.numel(0))
