# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingTypeStubs=false
"""Translations that keep the digits which the exporter's lose: near 0, and of float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import onnx_ir as ir
import torch
from onnxscript.onnx_opset import opset20

op: Any = opset20
aten = torch.ops.aten


def like(x: ir.Value, number: float) -> Any:
    """``number`` in the type of ``x``."""
    assert x.dtype is not None
    return op.Constant(value=ir.tensor(number, dtype=x.dtype))


def _expm1(x: ir.Value) -> Any:
    """exp(x) - 1 = tanh(x / 2) (exp(x) + 1), in which nothing cancels."""
    return op.Mul(op.Tanh(op.Mul(x, like(x, 0.5))), op.Add(op.Exp(x), like(x, 1)))


def _log1p(x: ir.Value) -> Any:
    """log(u) x / (u - 1) of u = 1 + x rounded, and x where that is 1.

    What u has been rounded by is divided out: W. Kahan's, in the HP-15C Advanced Functions Handbook (1982), appendix.
    """
    one = like(x, 1)
    sum_ = op.Add(x, one)
    rounded = op.Sub(sum_, one)
    ratio = op.Where(op.Equal(rounded, x), one, op.Div(x, rounded))  # of infinity too
    return op.Where(op.Equal(rounded, like(x, 0)), x, op.Mul(op.Log(sum_), ratio))


def _sinc(x: ir.Value) -> Any:
    angle = op.Mul(x, like(x, math.pi))
    return op.Where(op.Equal(x, like(x, 0)), like(x, 1), op.Div(op.Sin(angle), angle))


def _once_rounded(translation: Callable[[ir.Value], Any]) -> Callable[[ir.Value], Any]:
    """``translation`` in float32 of what is in half precision, as PyTorch has it: a step more is a rounding more."""

    def made(x: ir.Value) -> Any:
        if x.dtype not in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16):
            return translation(x)
        return op.Cast(translation(op.Cast(x, to=ir.DataType.FLOAT)), to=x.dtype)

    made.__name__ = translation.__name__
    return made


TRANSLATIONS: Mapping[Any, Callable[..., Any]] = {
    aten.expm1.default: _once_rounded(_expm1),
    aten.special_expm1.default: _once_rounded(_expm1),
    aten.log1p.default: _once_rounded(_log1p),
    aten.special_log1p.default: _once_rounded(_log1p),
    aten.sinc.default: _once_rounded(_sinc),
    aten.special_sinc.default: _once_rounded(_sinc),
}
"""By operator, as ``torch.onnx.export`` takes them."""
