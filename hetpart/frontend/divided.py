# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""Calls of operators that the exporter translates to something else, or to what ONNX Runtime computes otherwise.

Each was found by comparing plans with eager PyTorch (``benchmarks/torch_ops.py``). These can be taken apart, and go in
their parts; those of ``staying`` stay PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch._ops import OpOverload

from hetpart.frontend import halves, scattered, strided
from hetpart.frontend.conditions import (
    BFLOATS,
    DOUBLES,
    FLOATS,
    INTEGERS,
    SINGLES,
    Concerned,
    adds_large,
    always,
    argument_of,
    both,
    by_vector,
    either,
    given,
    has,
    lacks_one,
    makes,
    mixes,
    mixes_bounds,
    opens,
    takes_complex,
    uses_beyond_first,
    widens,
)
from hetpart.frontend.parts import WIDENED

aten = torch.ops.aten
DIVIDED: Mapping[OpOverload, Concerned] = {
    # A mean over N examples: the second result is a constant 1, and the gradient N times too large.
    aten.nll_loss_forward.default: always,
    # The running means are taken whether it trains or not.
    aten._native_batch_norm_legit_functional.default: always,
    aten._native_batch_norm_legit.default: always,
    aten.native_batch_norm.default: always,
    # The label smoothing is left out, and examples without a batch are refused.
    aten.cross_entropy_loss.default: always,
    # The logarithm of a sigmoid, which is 0 from -90 on.
    aten.binary_cross_entropy_with_logits.default: always,
    aten.log_sigmoid.default: always,
    aten.log_sigmoid_forward.default: always,
    aten.soft_margin_loss.default: always,
    aten.hardtanh_backward.default: always,  # At the bounds it is 1.
    # The exponential of large numbers.
    aten.logaddexp.default: always,
    aten.logaddexp2.default: always,
    aten.logsumexp.default: makes(BFLOATS),
    # One type is expected of all, and the means are in float32.
    aten.layer_norm.default: either(mixes, makes(DOUBLES)),
    aten.native_layer_norm.default: either(
        mixes, makes(DOUBLES), lambda node: uses_beyond_first(node) and not makes(SINGLES)(node)
    ),
    aten.native_group_norm.default: either(mixes, makes(DOUBLES)),
    # A number that is an attribute is float32.
    **dict.fromkeys(
        (
            aten.batch_norm.default, aten._native_batch_norm_legit_no_training.default, aten.group_norm.default,
            aten.instance_norm.default, aten.leaky_relu.default, aten.elu.default, aten.celu.default,
            aten.selu.default, aten.hardsigmoid.default, aten.hardswish.default, aten.mish.default,
        ),
        makes(DOUBLES),
    ),
    aten.addmm.default: both(makes(DOUBLES), either(given("alpha", 1), given("beta", 1))),
    # What is to count for nothing is multiplied by 0.
    **dict.fromkeys(
        (aten.addbmm.default, aten.addmv.default, aten.addr.default, aten.baddbmm.default), has("beta", 0)
    ),
    # Of a Clip with one bound the other is the largest finite number; a whole one beside another finds no overload.
    aten.clamp.default: either(lacks_one("min", "max"), mixes_bounds),
    aten.clamp_min.default: always,
    aten.clamp_max.default: always,
    aten.clamp.Tensor: lacks_one("min", "max"),
    aten.clamp_min.Tensor: always,
    aten.clamp_max.Tensor: always,
    # The quotient is rounded before it is rounded down: 1 // 0.1 is 9, and the remainder 0.1.
    aten.div.Tensor_mode: either(both(has("rounding_mode", "floor"), makes(FLOATS)), halves.loses),
    aten.div.Scalar_mode: either(both(has("rounding_mode", "floor"), makes(FLOATS)), halves.loses),
    **dict.fromkeys(
        (
            aten.floor_divide.default, aten.floor_divide.Scalar,
            aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor,
        ),
        makes(FLOATS),
    ),
    # Taken apart, it has a number in the place of a tensor, which is of no type that the other could be brought to.
    aten.rsub.Scalar: either(widens, halves.loses),
    # A sum of what a mask leaves, and infinity times 0.
    aten.diagonal.default: always,
    aten.diagonal_copy.default: always,
    # Their parts write into a diagonal, which is no view here.
    aten.diagonal_scatter.default: always,
    aten.diagonal_backward.default: always,
    # Numbers that the tensor beside them cannot hold.
    **halves.LOST,
    # Steps in the memory of a tensor that lies in order, whatever is transposed.
    **dict.fromkeys(strided.OWN, always),
    # Of what is scattered as much as there are places for.
    **dict.fromkeys(scattered.OWN, scattered.differs),
    # Sums are added up in floating point, which has 53 bits.
    aten.sum.default: adds_large,
    aten.sum.dim_IntList: adds_large,
    # What is widened is made first.
    **dict.fromkeys(WIDENED, given("dtype", None)),
    # NaN is left out of a sum in float64.
    aten.log_softmax.int: lambda node: argument_of(node, "dtype", None) is not None or makes(DOUBLES)(node),
    aten._log_softmax.default: makes(DOUBLES),
    # NaN is no number that is less than 0.
    aten.heaviside.default: makes(FLOATS),
    aten.angle.default: lambda node: makes(FLOATS)(node) and not takes_complex(node),
    # Whole numbers drawn between 0 and 1.
    **dict.fromkeys((aten.geometric.default, aten.geometric_.default), makes(INTEGERS)),
    # The largest number beside NaN.
    aten.linalg_vector_norm.default: has("ord", math.inf, -math.inf),
    # ONNX Runtime 1.31 fuses the transposition of a matrix into its product with a vector, which is wrong then.
    aten.mv.default: always,
    aten.matmul.default: by_vector,
    # What it transposes may have no element, and then it divides by 0, which ends the process.
    aten.einsum.default: opens,
    # No kernel drops all.
    aten.dropout.default: both(has("p", 1), has("train", True)),
    aten.native_dropout.default: has("p", 1),
    # One where it is to be zero, and the other way round.
    aten.bernoulli.default: always,
}  # fmt: skip
"""Operators that go in parts."""
