# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingTypeStubs=false
"""Reductions of as many elements as a run has, which may be none: any is false then, and a mean is no number.

ONNX Runtime's kernels have the least number there is for the largest of none, which is no 0 and so true, and 0 for a
mean. What has no open axis is the exporter's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch
from onnxscript.function_libs.torch_lib.ops.core import (
    aten_any,
    aten_any_dim,
    aten_any_dims,
    aten_mean,
    aten_mean_dim,
)
from onnxscript.function_libs.torch_lib.ops.nn import aten_mse_loss
from onnxscript.function_libs.torch_lib.ops.prims import prims_var
from onnxscript.onnx_opset import opset20

from hetpart.frontend.digits import like
from hetpart.frontend.repeated import constant, rank

op: Any = opset20
_usual_error: Any = aten_mse_loss
_usual_variance: Any = prims_var
_Translation = Callable[..., Any]
_MEAN = 1
"""Of a loss over its elements, as PyTorch numbers it."""


def _of_none(x: ir.Value, dim: int | Sequence[int] | None = None) -> bool:
    """Whether a run may have nothing along the axes ``dim``, or all."""
    assert x.shape is not None
    return any(not isinstance(x.shape[axis], int) for axis in _axes(x, dim))


def _axes(x: ir.Value, dim: int | Sequence[int] | None) -> list[int]:
    named = [dim] if isinstance(dim, int) else dim or range(rank(x))
    return [axis % rank(x) for axis in named if rank(x)]


def _any(usual: _Translation) -> _Translation:
    def translate(x: ir.Value, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Any:
        if not _of_none(x, dim):
            return usual(x) if dim is None and not keepdim else usual(x, dim, keepdim)
        flags = op.Cast(op.Cast(x, to=ir.DataType.BOOL), to=ir.DataType.INT64)
        largest = op.ReduceMax(flags, constant(_axes(x, dim)), keepdims=keepdim)
        return op.Greater(largest, op.Constant(value_int=0))

    return translate


def _mean(usual: _Translation) -> _Translation:
    def translate(x: ir.Value, dim: int | Sequence[int] | None = None, *args: Any, **named: Any) -> Any:
        made = usual(x, *(() if dim is None else (dim, *args)), **named)
        return _no_number(op.Size(x), made) if _of_none(x, dim) else made

    return translate


def _no_number(size: Any, made: Any) -> Any:
    """NaN where the mean ``made`` is of ``size`` elements, and those are none."""
    nan = op.CastLike(op.Constant(value_float=math.nan), made)
    return op.Where(op.Equal(size, op.Constant(value_int=0)), nan, made)


def _squared_error(x: ir.Value, target: ir.Value, reduction: int = 1) -> Any:
    made = _usual_error(x, target, reduction)
    if reduction != _MEAN or not (_of_none(x) or _of_none(target)):
        return made
    return _no_number(op.Mul(op.Size(x), op.Size(target)), made)


def _variance(x: ir.Value, dims: Sequence[int] | None, correction: float | None = 1.0, output_dtype: int = -1) -> Any:
    """What is divided by is no less than 0."""
    if not _of_none(x, dims):
        return _usual_variance(x, dims, correction, output_dtype)
    axes = constant(_axes(x, dims))
    apart = op.Sub(x, op.ReduceMean(x, axes, keepdims=True))
    number = op.CastLike(op.ReduceProd(op.Gather(op.Shape(x), axes), keepdims=False), x)
    squares = op.Mul(op.ReduceMean(op.Mul(apart, apart), axes, keepdims=False), number)
    taken = like(x, 1 if correction is None else correction)
    made = op.Div(squares, op.Max(op.Sub(number, taken), like(x, 0)))
    return made if output_dtype in (-1, None) else op.Cast(made, to=output_dtype)


aten = torch.ops.aten
TRANSLATIONS: Mapping[Any, _Translation] = {
    aten.any.default: _any(aten_any),
    aten.any.dim: _any(aten_any_dim),
    aten.any.dims: _any(aten_any_dims),
    aten.mean.default: _mean(aten_mean),
    aten.mean.dim: _mean(aten_mean_dim),
    aten.mse_loss.default: _squared_error,
    torch.ops.prims.var.default: _variance,
}
"""By operator, as ``torch.onnx.export`` takes them."""
