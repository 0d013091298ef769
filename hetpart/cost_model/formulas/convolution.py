"""Convolutions: two flops for each weight an output element sees."""

from __future__ import annotations

from math import prod

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import flops

INTEGER_WEIGHT_INPUT = {"QLinearConv": 3}
"""Where the weight is not input 1."""


def _weights_per_output(o: Operands, weight: int) -> int:
    """Weight is [outputs, inputs / group, *kernel]: each output element is a sum over all but the first."""
    return prod(o.shape(weight)[1:])


@flops("Conv", "ConvInteger", "QLinearConv", "CausalConvWithState")
def _convolution(o: Operands) -> float:
    weight = INTEGER_WEIGHT_INPUT.get(o.op.op_type, 1)
    bias = o.output_numel() if o.input(2) is not None and o.op.op_type == "Conv" else 0
    return 2.0 * o.output_numel() * _weights_per_output(o, weight) + bias


@flops("ConvTranspose")
def _transposed_convolution(o: Operands) -> float:
    """Weight is [inputs, outputs / group, *kernel]: each input element is spread over all but the first."""
    bias = o.output_numel() if o.input(2) is not None else 0
    return 2.0 * o.numel(0) * _weights_per_output(o, 1) + bias


@flops("DeformConv")
def _deformable_convolution(o: Operands) -> float:
    """A convolution that first interpolates each sampled element from its four neighbours."""
    sampled = o.output_numel() // max(1, o.output_shape()[1] if len(o.output_shape()) > 1 else 1)
    interpolation = 8.0 * sampled * prod(o.shape(1)[1:]) * o.integer("group", 1)
    return 2.0 * o.output_numel() * _weights_per_output(o, 1) + interpolation


@flops("Col2Im")
def _columns_to_image(o: Operands) -> float:
    return float(o.numel(0))
