# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingTypeStubs=false, reportPrivateUsage=false
"""Python's operators on sizes and numbers, in the place of the exporter's: those are for what is not negative."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import onnx_ir as ir
import torch
from onnxscript.onnx_opset import opset20

op: Any = opset20
_SIZES = frozenset({"Shape", "Size"})
_HANDED_ON = frozenset({"Squeeze", "Gather", "Identity", "Reshape", "Cast"})
"""What the exporter puts between a shape and a size of it."""


def _quotient(x: Any, other: Any) -> Any:
    """Rounded down."""
    if _is_float(x) or _is_float(other):
        x, other = _float(x), _float(other)
        return op.Floor(op.Add(op.Div(op.Sub(x, _remainder(x, other)), other), _number(0.5)))
    if _is_size(x) and _is_size(other):
        return op.Div(x, other)
    return op.Div(op.Sub(x, op.Mod(x, other)), other)


def _remainder(x: Any, other: Any) -> Any:
    """Of the divisor's sign."""
    if not (_is_float(x) or _is_float(other)):
        return op.Mod(x, other)
    x, other = _float(x), _float(other)
    made, none = op.Mod(x, other, fmod=1), _number(0.0)
    is_other = op.And(op.Not(op.Equal(made, none)), op.Xor(op.Less(made, none), op.Less(other, none)))
    return op.Where(is_other, op.Add(made, other), made)


def _shifted_up(x: Any, places: Any) -> Any:
    return op.Mul(x, _power_of_two(places))


def _shifted_down(x: Any, places: Any) -> Any:
    return _quotient(x, _power_of_two(places))


def _power_of_two(places: Any) -> Any:
    return 1 << places if isinstance(places, int) else op.Pow(_whole(2), places)


def _bits(of_numbers: Callable[..., Any], of_truths: Callable[..., Any]) -> Callable[..., Any]:
    def translate(x: Any, other: Any) -> Any:
        if _is_truth(x) or _is_truth(other):
            return of_truths(x, other)
        return of_numbers(*(_whole(one) if isinstance(one, int) else one for one in (x, other)))

    return translate


def _rounded(x: Any, digits: int | None = None) -> Any:
    if digits is None:
        return op.Cast(op.Round(x), to=ir.DataType.INT64)
    scale = _number(10.0**digits)
    return op.Div(op.Round(op.Mul(x, scale)), scale)


def _root(x: Any) -> Any:
    return op.Sqrt(_float(x))


def _is_size(x: Any) -> bool:
    """Whether it is no less than 0, as far as is seen."""
    if isinstance(x, int):
        return x >= 0
    while isinstance(x, ir.Value) and (made := x.producer()) is not None:
        if made.op_type in _SIZES:
            return True
        if made.op_type not in _HANDED_ON:
            return False
        x = made.inputs[0]
    return False


def _is_float(x: Any) -> bool:
    return isinstance(x, float) or (isinstance(x, ir.Value) and x.dtype is not None and x.dtype.is_floating_point())


def _is_truth(x: Any) -> bool:
    return isinstance(x, bool) or (isinstance(x, ir.Value) and x.dtype is ir.DataType.BOOL)


def _float(x: Any) -> Any:
    return op.Cast(x, to=ir.DataType.FLOAT) if isinstance(x, ir.Value) else _number(float(x))


def _number(x: float) -> Any:
    return op.Constant(value=ir.tensor(x, dtype=ir.DataType.FLOAT))


def _whole(x: int) -> Any:
    return op.Constant(value=ir.tensor(x, dtype=ir.DataType.INT64))


TRANSLATIONS: Mapping[Any, Callable[..., Any]] = {
    operator.floordiv: _quotient,
    operator.mod: _remainder,
    operator.lshift: _shifted_up,
    operator.rshift: _shifted_down,
    operator.and_: _bits(op.BitwiseAnd, op.And),
    operator.or_: _bits(op.BitwiseOr, op.Or),
    operator.xor: _bits(op.BitwiseXor, op.Xor),
    round: _rounded,
    torch._sym_sqrt: _root,  # pyright: ignore[reportAttributeAccessIssue]
}
"""By Python's function, as ``torch.onnx.export`` takes them."""
