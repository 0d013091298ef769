"""Bind the symbolic dimensions of the graph inputs to numbers."""

from __future__ import annotations

import ast
import operator
import re
from difflib import get_close_matches
from shlex import quote
from typing import TYPE_CHECKING

import onnx

from hetpart.errors import UnboundDimensionsError, UnknownDimensionError
from hetpart.units import OPEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: lambda a, b: a // b,
}
_EXPRESSION_LIMIT = 200
_HYPHENATED = re.compile(r"\w+(-\w+)+")
"""A name such as ``seq-len``, which only looks like an expression: exporters put spaces around a minus."""
_LARGEST = 2**63 - 1
_SHOWN = 3


def bind_dimensions(model: onnx.ModelProto, bindings: Mapping[str, int]) -> dict[str, int]:
    """Write ``bindings`` into the graph inputs' types and return the dimensions the model has, each with its number.

    Those that are bound to ``OPEN`` stay as they are.

    A dimension without a name is called ``INPUT.AXIS``. One that is an expression of others (``past + seq``, as
    PyTorch's exporter writes) follows from them.

    Raises:
        UnboundDimensionsError: dimensions are left without a number.
        UnknownDimensionError: a binding names no dimension of the model.
    """
    bound: dict[str, int] = {}
    unbound: dict[str, list[str]] = {}
    names: set[str] = set()
    for value, axis, dim in _open_dimensions(model):
        name = dim.dim_param or f"{value.name}.{axis}"
        names |= {name, *_symbols(name)}
        if any(bindings.get(part) == OPEN for part in (name, *_symbols(name))):
            continue
        size = _evaluate(name, bindings)
        if size is None or not 0 <= size <= _LARGEST:
            unbound.setdefault(name, []).append(f"{value.name}[{axis}]")
        else:
            dim.dim_value = bound[name] = size
    _refuse_unknown(bindings, names)
    _refuse_unbound(unbound, bindings)
    return bound


def _open_dimensions(
    model: onnx.ModelProto,
) -> Iterator[tuple[onnx.ValueInfoProto, int, onnx.TensorShapeProto.Dimension]]:
    constants = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name in constants or not value.type.tensor_type.HasField("shape"):
            continue
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value") or dim.dim_value < 0:
                yield value, axis, dim


def _refuse_unknown(bindings: Mapping[str, int], names: set[str]) -> None:
    unknown = frozenset(bindings) - names
    for name in sorted(unknown):
        known = ", ".join(sorted(names)) or "none"
        close = get_close_matches(name, names, 1)
        guess = f"did you mean {close[0]!r}? " if close else ""
        raise UnknownDimensionError(
            f"the model has no dimension {name!r}",
            dimensions=unknown,
            hint=f"{guess}its open dimensions are: {known}",
        )


def _refuse_unbound(unbound: Mapping[str, list[str]], bindings: Mapping[str, int]) -> None:
    if not unbound:
        return
    listed = ", ".join(f"{_outcome(name, bindings)} (of {_few(where)})" for name, where in sorted(unbound.items()))
    needed = sorted({symbol for name in unbound for symbol in _needed(name)})
    example = quote(",".join(f"{name}=1" for name in needed))
    raise UnboundDimensionsError(
        f"{len(unbound)} dimension{'s have' if len(unbound) > 1 else ' has'} no number: {listed}",
        hint=f"give the sizes it will run with, for example --shape {example}",
    )


def _outcome(name: str, bindings: Mapping[str, int]) -> str:
    """The dimension, and what it comes to where that is no size."""
    size = _evaluate(name, bindings)
    if size is None:
        return name
    return f"{name} = {size}" if abs(size) <= _LARGEST else f"{name}, over 2^63"


def _needed(name: str) -> tuple[str, ...]:
    """What to give a number so that the dimension has one: the names in it, or its own where those do not suffice."""
    symbols = () if _HYPHENATED.fullmatch(name) else _symbols(name)
    return symbols if symbols and _evaluate(name, dict.fromkeys(symbols, 1)) is not None else (name,)


def _few(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _parsed(expression: str) -> ast.expr | None:
    try:
        return ast.parse(expression, mode="eval").body if len(expression) <= _EXPRESSION_LIMIT else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _symbols(expression: str) -> tuple[str, ...]:
    tree = _parsed(expression)
    return () if tree is None else tuple(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def _evaluate(expression: str, bindings: Mapping[str, int]) -> int | None:
    if expression in bindings:
        return bindings[expression]
    tree = _parsed(expression)
    return None if tree is None else _value(tree, bindings)


def _value(tree: ast.expr, bindings: Mapping[str, int]) -> int | None:
    match tree:
        case ast.Constant(value=int() as number):
            return number
        case ast.Name(id=name):
            return bindings.get(name)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            a, b = _value(left, bindings), _value(right, bindings)
            if a is None or b is None or (isinstance(op, ast.FloorDiv) and b == 0):
                return None
            return _ARITHMETIC[type(op)](a, b)
        case _:
            return None


def bind_results(model: onnx.ModelProto, results: AbstractSet[str], bindings: Mapping[str, int]) -> None:
    """Write ``bindings`` into what the file declares of ``results``: values of ops that no inference knows."""
    for value in (*model.graph.value_info, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim if value.name in results else ():
            size = _evaluate(dim.dim_param, bindings) if dim.dim_param else None
            if size is not None and 0 <= size <= _LARGEST:
                dim.dim_value = size
