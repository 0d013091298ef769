# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingTypeStubs=false, reportPrivateUsage=false
"""Python's arithmetic of sizes and numbers, as Python computes it.

The exporter divides whole numbers towards zero, and computes others in float32: ``-(-n // 3)`` is one too small then,
and ``int(n * 0.29)`` of 100 is 29. Here whole numbers are int64 and others float64. A tensor that meets such a number
is given it in float32, which is the last thing that is done: who computes on looks behind that.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from onnxscript.onnx_opset import opset20

op: Any = opset20
_WHOLE, _REAL, _TRUTH = ir.DataType.INT64, ir.DataType.DOUBLE, ir.DataType.BOOL
_GIVEN = ir.DataType.FLOAT
"""What the exporter takes a number for that is not whole."""
_SIZES = frozenset({"Shape", "Size"})
_HANDED_ON = frozenset({"Gather", "Identity", "Reshape", "Squeeze"})
"""What the exporter puts between a shape and a size of it."""
_NUMPY: Mapping[ir.DataType, Any] = {_WHOLE: np.int64, _REAL: np.float64, _TRUTH: np.bool_}


@dataclass(frozen=True, slots=True, eq=False)
class _Number:
    """A number as a value of the graph being made."""

    value: Any
    kind: ir.DataType
    known: float | None = None
    """What it is, where the code says so."""

    @classmethod
    def of(cls, given: Any) -> _Number:
        """Of an argument of a translation: a value, or Python's number."""
        if isinstance(given, ir.Value):
            return cls._behind(given)
        kind = _TRUTH if isinstance(given, bool) else _WHOLE if isinstance(given, int) else _REAL
        return cls(_constant(given, kind), kind, given)

    @classmethod
    def _behind(cls, value: ir.Value) -> _Number:
        maker = value.producer()
        if maker is not None and maker.op_type == "Cast" and value.dtype is _GIVEN:
            source = maker.inputs[0]
            if source is not None and source.dtype is _REAL:
                return cls(source, _REAL)
        if value.dtype is not None and value.dtype in _NUMPY:
            return cls(value, value.dtype)
        kind = _WHOLE if value.dtype is not None and value.dtype.is_integer() else _REAL
        return cls(_cast(value, kind), kind)

    def as_(self, kind: ir.DataType) -> Any:
        """Its value in another kind."""
        if self.kind is kind:
            return self.value
        return _cast(self.value, kind) if self.known is None else _constant(self.known, kind)


def _constant(number: float, kind: ir.DataType) -> Any:
    return op.Constant(value=ir.tensor(np.array(number, _NUMPY[kind])))


def _cast(value: Any, kind: ir.DataType) -> Any:
    made = op.Cast(value, to=kind)
    made.dtype, made.shape = kind, ir.Shape([])
    return made


def _given(made: Any, kind: ir.DataType) -> Any:
    """What the exporter is handed: of a number that is not whole the one in float32, behind which it lies."""
    made.dtype, made.shape = kind, ir.Shape([])
    return op.Cast(made, to=_GIVEN) if kind is _REAL else made


def _common(*numbers: _Number) -> ir.DataType:
    return _REAL if any(number.kind is _REAL for number in numbers) else _WHOLE


def _of_one(made: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Of a number, of its kind."""

    def translate(given: Any) -> Any:
        number = _Number.of(given)
        kind = _common(number)
        return _given(made(number.as_(kind)), kind)

    return translate


def _of_two(made: Callable[[Any, Any], Any], kind: ir.DataType | None = None) -> Callable[[Any, Any], Any]:
    """Of two numbers of one kind, which ``made`` gives too unless ``kind`` says another."""

    def translate(one: Any, other: Any) -> Any:
        first, second = _Number.of(one), _Number.of(other)
        both = _common(first, second)
        return _given(made(first.as_(both), second.as_(both)), kind or both)

    return translate


def _of_both_kinds(whole: Callable[..., Any], real: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    def translate(one: Any, other: Any) -> Any:
        first, second = _Number.of(one), _Number.of(other)
        kind = _common(first, second)
        return _given((whole if kind is _WHOLE else real)(first.as_(kind), second.as_(kind)), kind)

    return translate


def _bitwise(whole: Callable[[Any, Any], Any], truth: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def translate(one: Any, other: Any) -> Any:
        first, second = _Number.of(one), _Number.of(other)
        if first.kind is _TRUTH and second.kind is _TRUTH:
            return _given(truth(first.value, second.value), _TRUTH)
        return _given(whole(first.as_(_WHOLE), second.as_(_WHOLE)), _WHOLE)

    return translate


def _rounded(made: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A whole number near a real one."""

    def translate(given: Any, digits: Any = None) -> Any:
        number = _Number.of(given)
        if digits is not None:
            power = _constant(10.0**digits, _REAL)
            return _given(op.Div(made(op.Mul(number.as_(_REAL), power)), power), _REAL)
        return _given(number.as_(_WHOLE) if number.kind is not _REAL else _cast(made(number.value), _WHOLE), _WHOLE)

    return translate


def _in_single(made: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Of a real number, where ONNX Runtime has no kernel for float64."""

    def translate(given: Any) -> Any:
        return made(_cast(_Number.of(given).as_(_REAL), _GIVEN))

    return translate


def _float(given: Any) -> Any:
    return _given(op.Identity(_Number.of(given).as_(_REAL)), _REAL)


def _root(given: Any) -> Any:
    return _given(op.Sqrt(_Number.of(given).as_(_REAL)), _REAL)


def _divided(one: Any, other: Any) -> Any:
    return _given(op.Div(_Number.of(one).as_(_REAL), _Number.of(other).as_(_REAL)), _REAL)


def _real_rest(number: Any, divisor: Any) -> Any:
    """Of the sign of ``divisor``; that of fmod is the number's."""
    zero = _constant(0, _REAL)
    rest = op.Mod(number, divisor, fmod=1)
    is_other = op.And(op.Xor(op.Less(rest, zero), op.Less(divisor, zero)), op.Not(op.Equal(rest, zero)))
    return op.Where(is_other, op.Add(rest, divisor), rest)


def _floored(number: Any, divisor: Any) -> Any:
    """A whole number divided downwards; ONNX divides towards zero, and its remainder has the sign of ``divisor``."""
    if _is_size(number) and _is_size(divisor):
        return op.Div(number, divisor)
    return op.Div(op.Sub(number, op.Mod(number, divisor)), divisor)


def _is_size(value: Any) -> bool:
    """Whether it is no less than 0, as far as is seen."""
    while (maker := value.producer()) is not None:
        if maker.op_type in _SIZES or maker.op_type == "Constant":
            return maker.op_type in _SIZES or maker.attributes["value"].as_tensor().numpy().min() >= 0
        if maker.op_type not in _HANDED_ON:
            return False
        value = maker.inputs[0]
    return False


def _real_floored(number: Any, divisor: Any) -> Any:
    return op.Round(op.Div(op.Sub(number, _real_rest(number, divisor)), divisor))


def _power(one: Any, other: Any) -> Any:
    """Whole where both are and the exponent is not negative."""
    base, exponent = _Number.of(one), _Number.of(other)
    is_whole = _common(base, exponent) is _WHOLE and (exponent.known is None or exponent.known >= 0)
    kind = _WHOLE if is_whole else _REAL
    return _given(op.Pow(base.as_(kind), exponent.as_(kind)), kind)


def _shifted(by_power: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def translate(one: Any, other: Any) -> Any:
        power = op.Pow(_constant(2, _WHOLE), _Number.of(other).as_(_WHOLE))
        return _given(by_power(_Number.of(one).as_(_WHOLE), power), _WHOLE)

    return translate


def _not(given: Any) -> Any:
    return _given(op.Not(_Number.of(given).as_(_TRUTH)), _TRUTH)


def _chosen(condition: Any, one: Any, other: Any) -> Any:
    first, second = _Number.of(one), _Number.of(other)
    kind = _TRUTH if first.kind is _TRUTH and second.kind is _TRUTH else _common(first, second)
    return _given(op.Where(_Number.of(condition).as_(_TRUTH), first.as_(kind), second.as_(kind)), kind)


def _summed(numbers: Sequence[Any]) -> Any:
    """One by one: ONNX has a sum of floating point alone."""
    return _given(reduce(op.Add, (_Number.of(one).as_(_WHOLE) for one in numbers)), _WHOLE)


def _same(number: Any) -> Any:
    return number


_MATH: Mapping[str, Callable[[Any], Any]] = {
    "cos": op.Cos, "cosh": op.Cosh, "sin": op.Sin, "sinh": op.Sinh, "tan": op.Tan, "tanh": op.Tanh,
    "asin": op.Asin, "acos": op.Acos, "atan": op.Atan,
}  # fmt: skip
"""ONNX Runtime computes most of them in float32 alone."""

TRANSLATIONS: Mapping[Any, Callable[..., Any]] = {
    operator.add: _of_two(op.Add),
    operator.sub: _of_two(op.Sub),
    operator.mul: _of_two(op.Mul),
    operator.neg: _of_one(op.Neg),
    operator.abs: _of_one(op.Abs),
    operator.truediv: _divided,
    operator.floordiv: _of_both_kinds(_floored, _real_floored),
    operator.mod: _of_both_kinds(op.Mod, _real_rest),
    operator.pow: _power,
    operator.and_: _bitwise(op.BitwiseAnd, op.And),
    operator.or_: _bitwise(op.BitwiseOr, op.Or),
    operator.xor: _bitwise(op.BitwiseXor, op.Xor),
    operator.lshift: _shifted(op.Mul),
    operator.rshift: _shifted(_floored),
    operator.not_: _not,
    operator.eq: _of_two(op.Equal, _TRUTH),
    operator.ne: _of_two(lambda one, other: op.Not(op.Equal(one, other)), _TRUTH),
    operator.lt: _of_two(op.Less, _TRUTH),
    operator.le: _of_two(op.LessOrEqual, _TRUTH),
    operator.gt: _of_two(op.Greater, _TRUTH),
    operator.ge: _of_two(op.GreaterOrEqual, _TRUTH),
    math.ceil: _rounded(op.Ceil),
    math.floor: _rounded(op.Floor),
    math.trunc: _rounded(_same),  # a cast to whole numbers goes towards zero
    round: _rounded(op.Round),
    torch.sym_int: _rounded(_same),
    torch.sym_float: _float,
    torch.sym_max: _of_two(op.Max),
    torch.sym_min: _of_two(op.Min),
    torch.sym_not: _not,
    torch.sym_ite: _chosen,
    torch.sym_sum: _summed,
    torch.sym_sqrt: _root,
    **{getattr(torch, f"_sym_{name}"): _in_single(made) for name, made in _MATH.items()},
}
"""By function, as ``torch.onnx.export`` takes them."""
