# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""Calls of operators that the exporter translates to something else, or to what ONNX Runtime computes otherwise.

Each was found by comparing plans with eager PyTorch (``benchmarks/torch_ops.py``). These stay PyTorch's, as what has no
translation does; those of ``divided`` go in their parts.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch._ops import OpOverload

from hetpart.frontend.conditions import (
    DOUBLES,
    FLOATS,
    INTEGERS,
    MEAN_OF_BAGS,
    NO_KERNEL,
    Concerned,
    adds_unknown,
    always,
    argument_of,
    corrects_too_much,
    either,
    empties,
    empty,
    finds_phases,
    given,
    has,
    keeps_all,
    makes,
    projects,
    searches_open,
    single,
    steps_open,
    takes_complex,
    uses_beyond_first,
)
from hetpart.frontend.windows import drops_windows, pads_beyond, pools_open, rounds_scale, shrinks

aten = torch.ops.aten
KEPT: Mapping[OpOverload, Concerned] = {
    # Margins of NaN are 0 to PyTorch.
    aten.multilabel_margin_loss.default: always,
    aten.multilabel_margin_loss_forward.default: always,
    aten.multi_margin_loss.default: always,
    # 1 less what is nearly 1.
    aten.erfc.default: always,
    aten.special_erfc.default: always,
    # The exponential of large numbers.
    aten.special_erfcx.default: always,
    aten.special_log_ndtr.default: always,
    aten.logcumsumexp.default: always,
    # A sum, or a mean that counts the wrong elements.
    aten.scatter_reduce.two: has("reduce", "mean"),
    # The divisor is left out.
    **dict.fromkeys(
        (aten.avg_pool2d.default, aten.avg_pool3d.default), either(given("divisor_override", None), drops_windows)
    ),
    # Before opset 22 a window that starts behind all there is counts, to what fuses slices and concatenations.
    **dict.fromkeys(
        (
            aten.avg_pool1d.default, aten.max_pool1d.default, aten.max_pool2d.default, aten.max_pool3d.default,
            aten.max_pool2d_with_indices.default, aten.max_pool3d_with_indices.default,
        ),
        drops_windows,
    ),
    # Dropout is left out.
    aten.scaled_dot_product_attention.default: given("dropout_p", 0.0),
    # The mean of an empty bag ends the process.
    aten.embedding_bag.default: has("mode", MEAN_OF_BAGS),
    aten.embedding_bag.padding_idx: has("mode", MEAN_OF_BAGS),
    # What a backward pass is told beside the bags is left out.
    aten._embedding_bag.default: lambda node: argument_of(node, "mode", 0) == MEAN_OF_BAGS or uses_beyond_first(node),
    aten._embedding_bag_forward_only.default: has("mode", MEAN_OF_BAGS),
    # A comparison with 0 does not see the sign of -0.
    aten.signbit.default: always,
    aten.copysign.Tensor: always,
    aten.copysign.Scalar: always,
    # The quadrant is told by the signs of numbers, of which 0 has none and NaN neither.
    aten.atan2.default: always,
    aten.angle.default: takes_complex,
    # Quotients through float32, which has 24 bits; powers, products and remainders through floating point.
    **dict.fromkeys(
        (
            aten.div.Tensor_mode, aten.div.Scalar_mode, aten.prod.default, aten.prod.dim_int, aten.fmod.Tensor,
            aten.fmod.Scalar, aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, aten.pow.Scalar,
        ),
        makes(INTEGERS),
    ),
    # Without the filter.
    aten._upsample_bilinear2d_aa.default: always,
    aten._upsample_bilinear2d_aa.vec: always,
    aten._upsample_bicubic2d_aa.default: always,
    aten._upsample_bicubic2d_aa.vec: always,
    # Sizes by a factor in float32: 29 of 100 by 0.29.
    **dict.fromkeys(
        (
            aten.upsample_nearest1d.vec, aten.upsample_nearest2d.vec, aten.upsample_nearest3d.vec,
            aten.upsample_bilinear2d.vec, aten.upsample_bicubic2d.vec, aten.upsample_trilinear3d.vec,
            aten.upsample_linear1d.vec,
        ),
        rounds_scale,
    ),
    # Axes that a number has not, and kernels that refuse what is empty.
    **dict.fromkeys(
        (
            aten.max.dim, aten.min.dim, aten.aminmax.default, aten.topk.default, aten.logsumexp.default,
            aten.searchsorted.Tensor,
        ),
        single,
    ),
    # As many steps of a search as the example takes.
    aten.bucketize.Tensor: either(single, searches_open),
    aten.bucketize.Scalar: searches_open,
    **dict.fromkeys(
        (
            aten.im2col.default, aten._pad_circular.default, aten.native_group_norm.default, aten.group_norm.default,
            aten.instance_norm.default, aten.pixel_shuffle.default, aten.pixel_unshuffle.default,
        ),
        empty,
    ),
    # Of nothing a mean is no number, and any is false.
    **dict.fromkeys((aten.mean.default, aten.mean.dim, aten.any.default, aten.any.dim, aten.any.dims), empty),
    aten.isin.Tensor_Tensor: empties,
    # Sums that cannot be added up as products with ones, of which there may be none.
    **dict.fromkeys((aten.sum.default, aten.sum.dim_IntList), adds_unknown),
    aten.pad.default: lambda node: empty(node) or shrinks(node),
    aten.nonzero.default: single,
    aten.linalg_vector_norm.default: lambda node: single(node) or keeps_all(node),
    aten.gather.default: empties,
    **dict.fromkeys((aten.tril_indices.default, aten.triu_indices.default), lambda node: 0 in node.args[:2]),
    # No kernel pads what it makes by more than it moves on.
    **dict.fromkeys(
        (
            aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input,
            aten.convolution.default,
        ),
        pads_beyond,
    ),
    # All NaN are one number.
    **dict.fromkeys((aten._unique2.default, aten.unique_dim.default), makes(FLOATS)),
    # Numbers in the order of what is no number.
    **dict.fromkeys((aten.sort.default, aten.sort.stable), lambda node: single(node) or makes(FLOATS)(node)),
    # The product of no columns is left out, and what is added is whole.
    aten.addmm.default: empties,
    # What is divided by is never less than 0.
    **dict.fromkeys(
        (
            aten.var.default, aten.var.dim, aten.var.correction, aten.std.default, aten.std.dim, aten.std.correction,
            aten.var_mean.default, aten.var_mean.dim, aten.var_mean.correction, aten.std_mean.default,
            aten.std_mean.dim, aten.std_mean.correction,
        ),
        lambda node: empty(node) or corrects_too_much(node),
    ),
    # Of one step, a number.
    **dict.fromkeys(
        (aten.linspace.Tensor_Tensor, aten.linspace.Tensor_Scalar, aten.linspace.Scalar_Tensor), has("steps", 1)
    ),
    # Their kernels have float32 and float16, and where there is no translation as many steps as the example takes.
    aten.gru.input: either(makes(NO_KERNEL), empty),
    **dict.fromkeys((aten.rnn_tanh.input, aten.rnn_relu.input), either(makes(NO_KERNEL), steps_open)),
    # Nor are states projected there.
    aten.lstm.input: either(makes(NO_KERNEL), projects, empty),
    # No kernel of its own has float64.
    **dict.fromkeys((aten.prelu.default, aten._prelu_kernel.default), makes(DOUBLES)),
    # What is added up is 0 but for roundings in a spectrum's imaginary parts that belong to no pair.
    **dict.fromkeys(
        (
            aten._fft_r2c.default, aten.fft_fft.default, aten.fft_ifft.default, aten.fft_fft2.default,
            aten.fft_ifft2.default, aten.fft_fftn.default, aten.fft_ifftn.default, aten.fft_rfft.default,
            aten.fft_rfft2.default, aten.fft_rfftn.default, aten.fft_ihfft.default, aten.stft.default,
            aten.stft.center,
        ),
        finds_phases,
    ),
    # ONNX's schema says that as many numbers come back as went in, and a run refuses their place.
    aten._fft_c2r.default: lambda node: not isinstance(argument_of(node, "last_dim_size", 0), int),
    # Their parts check what they made, and a check returns nothing; or go other ways than the whole.
    **dict.fromkeys(
        (
            aten.linalg_cholesky.default, aten.linalg_inv.default, aten.linalg_solve.default, aten._linalg_det.default,
            aten.linalg_ldl_factor.default, aten.linalg_lu_factor.default, aten.linalg_tensorinv.default,
            aten.linalg_tensorsolve.default, aten.linalg_matrix_power.default, aten.linalg_svdvals.default,
            aten.linalg_cond.default, aten.linalg_cond.p_str, aten.linalg_norm.ord_str, aten.inverse.default,
        ),
        always,
    ),
    # Windows are those of the example's sizes.
    **dict.fromkeys(
        (
            aten.adaptive_avg_pool1d.default, aten.adaptive_avg_pool2d.default, aten.adaptive_avg_pool3d.default,
            aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default, aten.adaptive_max_pool1d.default,
            aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default,
        ),
        pools_open,
    ),
    # Its parts write to a copy, which the exporter refuses.
    # Their parts write into a diagonal, which is no view here.
    aten.diagonal_scatter.default: always,
}  # fmt: skip
"""Operators that stay PyTorch's."""
