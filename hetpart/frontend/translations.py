# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingTypeStubs=false
"""Translations of hetpart's own, in the place of the exporter's.

What is largest or smallest is NaN where there is one, as it is to PyTorch: ONNX Runtime's kernels pass over it. Sums
and choices of truth values are logic: its kernels neither add nor choose them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch
from onnxscript.onnx_opset import opset20

from hetpart.frontend import attended, digits, numbers, reduced
from hetpart.frontend.digits import like
from hetpart.frontend.repeated import constant, rank, repeated

op: Any = opset20
aten = torch.ops.aten
_TRUE_IS = ir.DataType.FLOAT
"""ONNX's kernels compare no booleans."""


def _extreme(reduced: Callable[..., Any]) -> Callable[..., Any]:
    def translate(x: ir.Value, dim: int | Sequence[int] = (), keepdim: bool = False) -> ir.Value:
        if not rank(x):
            return op.Identity(x)
        axes = constant([dim] if isinstance(dim, int) else list(dim))
        made = reduced(x, axes, keepdims=keepdim)
        if not _may_be_nan(x):
            return made
        return op.Add(made, op.ReduceSum(op.Where(op.IsNaN(x), x, like(x, 0)), axes, keepdims=keepdim))

    return translate


def _place(found: Callable[..., Any]) -> Callable[..., Any]:
    def translate(x: ir.Value, dim: int | None = None, keepdim: bool = False) -> ir.Value:
        flat = x if dim is not None and rank(x) else op.Reshape(x, constant([-1]))
        axis = dim if dim is not None and rank(x) else 0
        made = found(flat, axis=axis, keepdims=keepdim)
        if _may_be_nan(x):
            flags = op.Cast(op.IsNaN(flat), to=_TRUE_IS)
            any_one = op.Cast(op.ReduceMax(flags, constant([axis]), keepdims=keepdim), to=ir.DataType.BOOL)
            made = op.Where(any_one, op.ArgMax(flags, axis=axis, keepdims=keepdim), made)
        if flat is x:
            return made
        return op.Reshape(made, constant([1] * rank(x) if keepdim else []))

    return translate


def _extreme_and_place(reduced: Callable[..., Any], found: Callable[..., Any]) -> Callable[..., Any]:
    def translate(x: ir.Value, dim: int, keepdim: bool = False) -> tuple[ir.Value, ir.Value]:
        return _extreme(reduced)(x, dim, keepdim), _place(found)(x, dim, keepdim)

    return translate


def _sign(x: ir.Value) -> ir.Value:
    made = op.Sign(x)
    return op.Where(op.IsNaN(x), like(x, 0), made) if _may_be_nan(x) else made


def _topmost(x: ir.Value, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Any, Any]:  # noqa: A002 - PyTorch's
    """NaN is more than every number."""
    number = constant([k]) if isinstance(k, int) else op.Reshape(k, constant([-1]))
    how = {"axis": dim, "largest": int(largest), "sorted": int(sorted)}
    if not _may_be_nan(x):
        return op.TopK(x, number, **how)
    _, places = op.TopK(op.Where(op.IsNaN(x), like(x, math.inf), x), number, **how)
    return op.GatherElements(x, places, axis=dim), places


def _transposed(x: ir.Value) -> ir.Value:
    """Of a vector a value of its own: the exporter gives what it gets another name."""
    return op.Transpose(x, perm=[1, 0]) if rank(x) == 2 else op.Identity(x)


def _copied(x: ir.Value, given: ir.Value, non_blocking: bool = False) -> Any:
    """What is given, as ``x`` is: the exporter leaves it as small as it comes."""
    del non_blocking
    made = op.Cast(given, to=x.dtype)
    return made if x.shape == given.shape else op.Expand(made, op.Shape(x))


def _may_be_nan(x: ir.Value) -> bool:
    return x.dtype is not None and x.dtype.is_floating_point()


def _added(x: Any, other: Any, alpha: float = 1) -> Any:
    """Either of truth values is true; ``alpha`` is whether the second one counts."""
    if _is_truth(x) and _is_truth(other):
        return op.Or(_truth(x), _truth(other) if alpha else op.And(_truth(other), _truth(False)))
    return op.Add(x, other if alpha == 1 else op.Mul(other, op.CastLike(alpha, other)))


def _chosen(condition: ir.Value, x: Any, other: Any) -> Any:
    if _is_truth(x) and _is_truth(other):
        return op.Or(op.And(condition, _truth(x)), op.And(op.Not(condition), _truth(other)))
    return op.Where(condition, x, other)


def _filled(x: ir.Value, mask: ir.Value, value: Any) -> Any:
    if x.dtype is ir.DataType.BOOL:
        return _chosen(mask, op.Cast(value, to=x.dtype) if isinstance(value, ir.Value) else bool(value), x)
    return op.Where(mask, op.CastLike(value, x), x)


def _is_truth(given: Any) -> bool:
    return given.dtype is ir.DataType.BOOL if isinstance(given, ir.Value) else isinstance(given, bool)


def _truth(given: Any) -> Any:
    return given if isinstance(given, ir.Value) else op.Constant(value=ir.tensor(given, dtype=ir.DataType.BOOL))


TRANSLATIONS: Mapping[Any, Callable[..., Any]] = {
    aten.t.default: _transposed,
    aten.copy.default: _copied,
    aten.repeat_interleave.self_int: repeated,
    aten.amax.default: _extreme(op.ReduceMax),
    aten.amin.default: _extreme(op.ReduceMin),
    aten.max.default: _extreme(op.ReduceMax),
    aten.min.default: _extreme(op.ReduceMin),
    aten.argmax.default: _place(op.ArgMax),
    aten.argmin.default: _place(op.ArgMin),
    aten.max.dim: _extreme_and_place(op.ReduceMax, op.ArgMax),
    aten.min.dim: _extreme_and_place(op.ReduceMin, op.ArgMin),
    aten.sign.default: _sign,
    aten.topk.default: _topmost,
    aten.add.Tensor: _added,
    aten.where.self: _chosen,
    aten.where.ScalarSelf: _chosen,
    aten.where.ScalarOther: _chosen,
    aten.where.Scalar: _chosen,
    aten.masked_fill.Scalar: _filled,
    aten.masked_fill.Tensor: _filled,
    **attended.TRANSLATIONS,
    **digits.TRANSLATIONS,
    **numbers.TRANSLATIONS,
    **reduced.TRANSLATIONS,
}
"""By operator, as ``torch.onnx.export`` takes them."""
