# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""Calls of operators that the exporter translates to something else, or to what ONNX Runtime computes otherwise.

Each was found by comparing plans with eager PyTorch (``benchmarks/torch_ops.py``). An operator that can be taken apart
goes in its parts; a call of another one stays PyTorch's, as what has no translation does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

aten = torch.ops.aten
Concerned = Callable[[Node], bool]
"""Whether a call is one of those that go wrong."""
_INTEGERS = frozenset({torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8})
_FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_INT64 = frozenset({torch.int64})
_NO_KERNEL = frozenset({torch.bfloat16, torch.float64})
"""What the processor's recurrent kernels do not compute in."""
_MEAN_OF_BAGS = 1


def _always(node: Node) -> bool:
    del node
    return True


def _given(name: str, *harmless: Any) -> Concerned:
    """Whether the argument ``name`` is another than ``harmless``, of which the first is its default."""
    return lambda node: _argument(node, name, harmless[0]) not in harmless


def _is(name: str, *harmful: Any) -> Concerned:
    return lambda node: _argument(node, name, None) in harmful


def _argument(node: Node, name: str, default: Any) -> Any:
    assert isinstance(node.target, OpOverload)
    places = [argument.name for argument in node.target._schema.arguments]
    place = places.index(name)
    given = node.args[place] if place < len(node.args) else node.kwargs.get(name, default)
    return tuple(given) if isinstance(given, list) else given


def _makes(dtypes: frozenset[torch.dtype]) -> Concerned:
    """Whether the result, or the first of several, has one of ``dtypes``."""
    return lambda node: next(_dtypes(node.meta.get("val")), None) in dtypes


def _dtypes(value: Any) -> Iterator[torch.dtype]:
    for one in value if isinstance(value, list | tuple) else (value,):
        if isinstance(one, torch.Tensor):
            yield one.dtype


def _mixes(node: Node) -> bool:
    """Whether tensors of several floating types go in, as an autocast leaves them."""
    values = [one.meta.get("val") for one in node.all_input_nodes]
    return len({value.dtype for value in values if isinstance(value, torch.Tensor)}) > 1


def _lacks_one(*names: str) -> Concerned:
    """Whether one of the arguments ``names`` is missing."""
    return lambda node: any(_argument(node, name, None) is None for name in names)


def _of_size(wrong: Callable[[torch.Tensor], bool]) -> Concerned:
    """Whether the first argument is a tensor that is ``wrong``, in the trace."""

    def concerned(node: Node) -> bool:
        first = node.args[0] if node.args else None
        value = first.meta.get("val") if isinstance(first, Node) else None
        return isinstance(value, torch.Tensor) and wrong(value)

    return concerned


def _empties(node: Node) -> bool:
    """Whether a tensor without elements goes in."""
    values = [one.meta.get("val") for one in node.all_input_nodes]
    return any(isinstance(value, torch.Tensor) and 0 in value.shape for value in values)


def _takes(dtypes: frozenset[torch.dtype]) -> Concerned:
    """Whether the first argument is a tensor of one of ``dtypes`` that has axes and elements."""
    return _of_size(lambda tensor: tensor.dtype in dtypes and tensor.dim() > 0 and 0 not in tensor.shape)


def _corrects_too_much(node: Node) -> bool:
    """Whether a variance is of no more elements than its correction takes off them."""
    value = node.args[0].meta.get("val") if isinstance(node.args[0], Node) else None
    if not isinstance(value, torch.Tensor):
        return False
    axes: Any = _given_to(node, "dim") or range(value.dim())
    sizes: list[Any] = (
        [value.shape[axis] for axis in ([axes] if isinstance(axes, int) else axes)] if value.dim() else []
    )
    known = [size for size in sizes if isinstance(size, int)]
    taken = _given_to(node, "correction" if _has(node, "correction") else "unbiased")
    return len(known) == len(sizes) and math.prod(known) <= (1 if taken is None else taken)


def _has(node: Node, name: str) -> bool:
    assert isinstance(node.target, OpOverload)
    return any(argument.name == name for argument in node.target._schema.arguments)


def _given_to(node: Node, name: str) -> Any:
    return _argument(node, name, None) if _has(node, name) else None


def _both(*conditions: Concerned) -> Concerned:
    return lambda node: all(condition(node) for condition in conditions)


def _shrinks(node: Node) -> bool:
    """Whether a padding takes off what is there, or adds nothing but a copy of its edge."""
    return _argument(node, "mode", "constant") != "constant" and any(
        isinstance(size, int) and size < 0 for size in _argument(node, "pad", ())
    )


def _keeps_all(node: Node) -> bool:
    """Whether all axes are reduced, and stay."""
    return _argument(node, "keepdim", False) and not _argument(node, "dim", None)


def _pads_beyond(node: Node) -> bool:
    pads, steps = (_argument(node, name, default) for name, default in (("output_padding", 0), ("stride", 1)))
    pads, steps = ((one,) if isinstance(one, int) else one for one in (pads, steps))
    return any(pad >= step for pad, step in zip(pads, steps, strict=False) if pad)


_empty = _of_size(lambda tensor: 0 in tensor.shape)
_single = _of_size(lambda tensor: tensor.dim() == 0)

DIVIDED: Mapping[OpOverload, Concerned] = {
    # A mean over N examples: the second result is a constant 1, and the gradient N times too large.
    aten.nll_loss_forward.default: _always,
    # The running means are taken whether it trains or not.
    aten._native_batch_norm_legit_functional.default: _always,
    aten._native_batch_norm_legit.default: _always,
    aten.native_batch_norm.default: _always,
    # The label smoothing is left out, and examples without a batch are refused.
    aten.cross_entropy_loss.default: _always,
    # The logarithm of a sigmoid, which is 0 from -90 on.
    aten.binary_cross_entropy_with_logits.default: _always,
    aten.log_sigmoid.default: _always,
    aten.log_sigmoid_forward.default: _always,
    aten.soft_margin_loss.default: _always,
    # The exponential of large numbers.
    aten.logaddexp.default: _always,
    aten.logaddexp2.default: _always,
    # One type is expected of all.
    aten.layer_norm.default: _mixes,
    aten.native_layer_norm.default: _mixes,
    aten.native_group_norm.default: _mixes,
    # Of a Clip with one bound the other is the largest finite number.
    aten.clamp.default: _lacks_one("min", "max"),
    aten.clamp_min.default: _always,
    aten.clamp_max.default: _always,
    aten.clamp.Tensor: _lacks_one("min", "max"),
    aten.clamp_min.Tensor: _always,
    aten.clamp_max.Tensor: _always,
    # The quotient is rounded before it is rounded down: 1 // 0.1 is 9, and the remainder 0.1.
    aten.div.Tensor_mode: _both(_is("rounding_mode", "floor"), _makes(_FLOATS)),
    aten.div.Scalar_mode: _both(_is("rounding_mode", "floor"), _makes(_FLOATS)),
    **dict.fromkeys(
        (aten.floor_divide.default, aten.floor_divide.Scalar, aten.remainder.Tensor, aten.remainder.Scalar),
        _makes(_FLOATS),
    ),
    # A sum of what a mask leaves, and infinity times 0.
    aten.diagonal.default: _always,
    aten.diagonal_copy.default: _always,
    # Sums are added up in floating point, which has 53 bits.
    aten.sum.default: _takes(_INT64),
    aten.sum.dim_IntList: _takes(_INT64),
    # What is widened is made first.
    aten.softmax.int: lambda node: _argument(node, "dtype", None) is not None,
    # The largest number beside NaN.
    aten.linalg_vector_norm.default: _is("ord", math.inf, -math.inf),
    # NaN is no number that is less than 0.
    aten.heaviside.default: _makes(_FLOATS),
    # One where it is to be zero, and the other way round.
    aten.bernoulli.default: _always,
}
"""Operators that go in parts."""
KEPT: Mapping[OpOverload, Concerned] = {
    # Margins of NaN are 0 to PyTorch.
    aten.multilabel_margin_loss.default: _always,
    aten.multi_margin_loss.default: _always,
    # The exponential of large numbers.
    aten.special_erfcx.default: _always,
    aten.special_log_ndtr.default: _always,
    aten.logcumsumexp.default: _always,
    # A sum, or a mean that counts the wrong elements.
    aten.scatter_reduce.two: _is("reduce", "mean"),
    # The divisor is left out.
    aten.avg_pool2d.default: _given("divisor_override", None),
    aten.avg_pool3d.default: _given("divisor_override", None),
    # Dropout is left out.
    aten.scaled_dot_product_attention.default: _given("dropout_p", 0.0),
    # The mean of an empty bag ends the process.
    aten.embedding_bag.default: _is("mode", _MEAN_OF_BAGS),
    aten.embedding_bag.padding_idx: _is("mode", _MEAN_OF_BAGS),
    aten._embedding_bag.default: _is("mode", _MEAN_OF_BAGS),
    aten._embedding_bag_forward_only.default: _is("mode", _MEAN_OF_BAGS),
    # A comparison with 0 does not see the sign of -0.
    aten.signbit.default: _always,
    aten.copysign.Tensor: _always,
    aten.copysign.Scalar: _always,
    # The quadrant is told by the signs of numbers, of which 0 has none and NaN neither.
    aten.atan2.default: _always,
    # Quotients through float32, which has 24 bits; powers, products and remainders through floating point.
    **dict.fromkeys(
        (
            aten.div.Tensor_mode, aten.div.Scalar_mode, aten.prod.default, aten.prod.dim_int, aten.fmod.Tensor,
            aten.fmod.Scalar, aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, aten.pow.Scalar,
        ),
        _makes(_INTEGERS),
    ),
    # Without the filter.
    aten._upsample_bilinear2d_aa.default: _always,
    aten._upsample_bilinear2d_aa.vec: _always,
    aten._upsample_bicubic2d_aa.default: _always,
    aten._upsample_bicubic2d_aa.vec: _always,
    # Axes that a number has not, and kernels that refuse what is empty.
    **dict.fromkeys(
        (
            aten.max.dim, aten.min.dim, aten.aminmax.default, aten.topk.default, aten.logsumexp.default,
            aten.bucketize.Tensor, aten.searchsorted.Tensor,
        ),
        _single,
    ),
    **dict.fromkeys(
        (
            aten.im2col.default, aten._pad_circular.default, aten.native_group_norm.default, aten.group_norm.default,
            aten.pixel_shuffle.default, aten.pixel_unshuffle.default,
        ),
        _empty,
    ),
    aten.pad.default: lambda node: _empty(node) or _shrinks(node),
    aten.nonzero.default: _single,
    aten.linalg_vector_norm.default: lambda node: _single(node) or _keeps_all(node),
    aten.gather.default: _empties,
    **dict.fromkeys((aten.tril_indices.default, aten.triu_indices.default), lambda node: 0 in node.args[:2]),
    # No kernel pads what it makes by more than it moves on.
    **dict.fromkeys(
        (
            aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input,
            aten.convolution.default,
        ),
        _pads_beyond,
    ),
    # Numbers in the order of what is no number.
    **dict.fromkeys((aten.sort.default, aten.sort.stable), lambda node: _single(node) or _makes(_FLOATS)(node)),
    # The product of no columns is left out, and what is added is whole.
    aten.addmm.default: _empties,
    # What is divided by is never less than 0.
    **dict.fromkeys(
        (
            aten.var.default, aten.var.dim, aten.var.correction, aten.std.default, aten.std.dim, aten.std.correction,
            aten.var_mean.default, aten.var_mean.dim, aten.var_mean.correction, aten.std_mean.default,
            aten.std_mean.dim, aten.std_mean.correction,
        ),
        _corrects_too_much,
    ),
    # Of one step, a number.
    **dict.fromkeys(
        (aten.linspace.Tensor_Tensor, aten.linspace.Tensor_Scalar, aten.linspace.Scalar_Tensor), _is("steps", 1)
    ),
    # Their kernels have float32 and float16.
    **dict.fromkeys(
        (aten.lstm.input, aten.gru.input, aten.rnn_tanh.input, aten.rnn_relu.input), _makes(_NO_KERNEL)
    ),
    # Their parts check what they made, and a check returns nothing; or go other ways than the whole.
    **dict.fromkeys(
        (
            aten.linalg_cholesky.default, aten.linalg_inv.default, aten.linalg_solve.default, aten._linalg_det.default,
            aten.linalg_ldl_factor.default, aten.linalg_lu_factor.default, aten.linalg_tensorinv.default,
            aten.linalg_tensorsolve.default, aten.linalg_matrix_power.default, aten.linalg_svdvals.default,
            aten.linalg_cond.default, aten.linalg_cond.p_str, aten.linalg_norm.ord_str, aten.inverse.default,
        ),
        _always,
    ),
    # Its parts write to a copy, which the exporter refuses.
    aten.diagonal_scatter.default: _always,
}  # fmt: skip
"""Operators that stay PyTorch's."""
