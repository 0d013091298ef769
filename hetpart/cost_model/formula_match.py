"""Formulas written out in ops of a graph, found from their last op.

A formula is a call as Python writes it: ``Mul(x, Sigmoid(Mul(x, scalar)))``. Names stand for values, the same name for
the same value; ``scalar`` for a constant of one element, names that begin with ``row`` for a vector. A number is a
constant that holds it. Sums and products may stand either way round; inputs that are not written may be anything.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from math import isclose

from hetpart.cost_model.wiring import Wiring
from hetpart.graph.ir import Value

COMMUTATIVE = frozenset({"Add", "Mul"})
SCALAR, ROW = "scalar", "row"
_TOLERANCE = 1e-5
"""Relative difference up to which a constant of the model is a number of the formula."""


@dataclass(frozen=True, slots=True)
class Call:
    """An op of a formula."""

    op_type: str
    arguments: tuple[Call | str | float, ...]


@dataclass(frozen=True, slots=True)
class Match:
    """Where a formula stands in a graph."""

    ops: frozenset[int]
    values: tuple[tuple[str, int], ...] = ()
    """What its names stand for."""

    def value(self, name: str) -> int | None:
        return next((value for known, value in self.values if known == name), None)


def formula(text: str) -> Call:
    """The formula that ``text`` writes."""
    call = _term(ast.parse(text, mode="eval").body)
    assert isinstance(call, Call)
    return call


def _term(node: ast.expr) -> Call | str | float:
    match node:
        case ast.Call(func=ast.Name(id=op_type), args=arguments):
            return Call(op_type, tuple(map(_term, arguments)))
        case ast.Name(id=name):
            return name
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case _:
            raise AssertionError(ast.unparse(node))


def matched(call: Call, value: int | None, wiring: Wiring) -> Match | None:
    """Where ``call`` makes ``value``; None where it does not."""
    return _call(call, value, Match(frozenset()), wiring)


def _call(call: Call, value: int | None, found: Match, wiring: Wiring) -> Match | None:
    op = wiring.producer(value)
    if op is None or op.op_type != call.op_type or op.domain or len(op.inputs) < len(call.arguments):
        return None
    within = Match(found.ops | {op.id}, found.values)
    for arguments in _orders(call):
        result: Match | None = within
        for argument, given in zip(arguments, wiring.inputs(op), strict=False):
            result = None if result is None else _argument(argument, given, result, wiring)
        if result is not None:
            return result
    return None


def _orders(call: Call) -> Iterator[tuple[Call | str | float, ...]]:
    yield call.arguments
    if call.op_type in COMMUTATIVE:
        yield call.arguments[::-1]


def _argument(term: Call | str | float, value: int | None, found: Match, wiring: Wiring) -> Match | None:
    match term:
        case Call():
            return _call(term, value, found, wiring)
        case str():
            return _named(term, value, found, wiring)
        case _:
            return found if value is not None and _holds(wiring.graph.values[value], term) else None


def _named(name: str, value: int | None, found: Match, wiring: Wiring) -> Match | None:
    known = found.value(name)
    if value is None or known is not None:
        return found if value is not None and known == value else None
    if not _fits(name, wiring.graph.values[value]):
        return None
    return Match(found.ops, (*found.values, (name, value)))


def _fits(name: str, value: Value) -> bool:
    if name == SCALAR:
        return value.is_constant and value.numel == 1
    return not name.startswith(ROW) or (value.producer is None and len(value.shape or ()) == 1)


def _holds(value: Value, number: float) -> bool:
    """Whether ``value`` is that constant; one whose content is not known may be."""
    if not value.is_constant or value.numel != 1:
        return False
    return value.content is None or isclose(value.content[0], number, rel_tol=_TOLERANCE)
