"""Convolutions: two flops for each weight an output element sees."""

from __future__ import annotations

from math import prod

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import CONTRIB, flops

QUANTIZED_WEIGHT = 3
"""Where a QLinearConv has its weight."""


def _weights_per_output(o: Operands, weight: int = 1) -> int:
    """Weight is [outputs, inputs / group, *kernel]: each output element is a sum over all but the first."""
    return prod(o.shape(weight)[1:])


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
