# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingTypeStubs=false
"""Attention by a mask: to what a mask lets nothing of be seen it attends not at all.

A translation, because what is taken apart is traced anew, and all of the program with it: that was a third of the time
in which a decoder is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import onnx_ir as ir
import torch
from onnxscript.function_libs.torch_lib.ops.nn import aten_scaled_dot_product_attention
from onnxscript.onnx_opset import opset20

from hetpart.frontend.digits import like
from hetpart.frontend.repeated import constant, rank, repeated

op: Any = opset20
_unmasked: Any = aten_scaled_dot_product_attention


def _attended(  # noqa: PLR0913 - PyTorch's arguments
    query: ir.Value,
    key: ir.Value,
    value: ir.Value,
    attn_mask: ir.Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """softmax(scale · query · keyᵀ + mask) · value; zeros where a mask lets nothing be seen, not a mean or NaN."""
    may_be_none = key.shape is not None and not isinstance(key.shape[-2], int)
    has_keys = key.shape is None or key.shape[-2] != 0
    if attn_mask is None and has_keys and not may_be_none:
        if scale is not None and scale < 0:  # it takes the root
            query, scale = _negative(query), -scale
        return _unmasked(query, key, value, None, dropout_p, is_causal, scale, enable_gqa)
    last = rank(key) - 1
    if enable_gqa:
        times = _whole(query, -3) // _whole(key, -3)
        key, value = repeated(key, times, -3), repeated(value, times, -3)
    scaled = op.Mul(query, like(query, _whole(query, -1) ** -0.5 if scale is None else scale))
    scores = op.MatMul(scaled, op.Transpose(key, perm=[*range(last - 1), last, last - 1]))
    nothing = like(query, -math.inf)
    if attn_mask is None and is_causal and may_be_none:
        scores = op.Where(_up_to(query, key), scores, nothing)
    if attn_mask is None or not has_keys:
        return op.MatMul(op.Softmax(scores, axis=-1), value)  # the exporter's own has no form for no keys
    if attn_mask.dtype is ir.DataType.BOOL:
        seen, scores = attn_mask, op.Where(attn_mask, scores, nothing)
    else:
        seen = op.Not(op.Equal(attn_mask, like(attn_mask, -math.inf)))
        scores = op.Add(scores, op.CastLike(attn_mask, query))
    counted = op.Cast(seen, to=ir.DataType.FLOAT)
    some = _summed(counted) if may_be_none else op.ReduceMax(counted, constant([-1]), keepdims=True)
    made = op.MatMul(op.Softmax(scores, axis=-1), value)
    return op.Where(op.Cast(some, to=ir.DataType.BOOL), made, like(query, 0))


def _summed(x: Any) -> Any:
    """Along the last axis, which stays as one: ONNX Runtime's reductions leave it as it is where a run has 0 there."""
    ones = op.Expand(op.Constant(value_float=1.0), op.Concat(op.Shape(x, start=-1), constant([1]), axis=0))
    return op.MatMul(x, ones)


def _up_to(query: ir.Value, key: ir.Value) -> Any:
    """Which keys every query sees that sees none behind it."""
    zero, one = op.Constant(value_int=0), op.Constant(value_int=1)
    rows, columns = (
        op.Range(zero, op.Squeeze(op.Shape(x, start=rank(x) - 2, end=rank(x) - 1)), one) for x in (query, key)
    )
    return op.GreaterOrEqual(op.Unsqueeze(rows, constant([1])), columns)


def _negative(x: ir.Value) -> ir.Value:
    """With what the exporter asks of it."""
    made: Any = op.Neg(x)
    made.dtype, made.shape = x.dtype, x.shape
    return made


def _whole(x: ir.Value, axis: int) -> int:
    """A size that is no name: of heads, and of what they hold."""
    assert x.shape is not None
    size = x.shape[axis]
    assert isinstance(size, int)
    return size


TRANSLATIONS: Mapping[Any, Callable[..., Any]] = {torch.ops.aten.scaled_dot_product_attention.default: _attended}
"""By operator, as ``torch.onnx.export`` takes them."""
