# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""What a plan of a PyTorch model takes for granted of the sizes and numbers that it leaves open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv, Mod

from hetpart.errors import InvalidOptionError
from hetpart.frontend.assumed import written
from hetpart.frontend.dimensions import span_of
from hetpart.graph.granted import NAMES, Condition, Granted, OpenSize

if TYPE_CHECKING:
    import onnx

    from hetpart.frontend.model import ExportedModel
    from hetpart.graph.ir import Shape


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """A size that the plan leaves open, or a number that is an argument."""

    input: str
    axis: int | None
    size: Any
    """What it is in the program, as SymPy has it."""
    example: int
    called: str = ""
    """As the user calls it."""

    @property
    def name(self) -> str:
        return self.input if self.axis is None else f"{self.input}_dim{self.axis}"


def granted(exported: ExportedModel, inputs: Mapping[str, Shape | None], sizes: Mapping[str, int]) -> Granted:
    """Of ``exported``, whose plan has ``inputs`` of these shapes and is for ``sizes`` of some dimensions, by name.

    Raises:
        InvalidOptionError: a condition cannot be asked of a run.
    """
    assumed = exported.assumed
    if assumed is None:  # somebody else asks
        return Granted()
    sizes = _with_roots(exported, inputs, sizes)
    places = list(_places(exported, inputs, sizes))
    names = _named(places)
    asked, relations = _located(places, names)
    guards = [guard.xreplace(asked) for guard in assumed.given(sizes).guards]
    spans = [span for place in places for span in _spans(exported, place, names[place])]
    said = dict.fromkeys(written(one) for one in (*relations, *guards, *spans) if one != True)  # noqa: E712 - SymPy's
    open_sizes = tuple(OpenSize(names[place], place.input, place.axis, place.example) for place in places)
    for text in said:
        _require_asked(text, {size.name for size in open_sizes}, exported.loaded.name)
    return Granted(open_sizes, tuple(said)) if said else Granted()


def _values(exported: ExportedModel) -> dict[str, Any]:
    """What the program is given, by name."""
    return {node.name: node.meta.get("val") for node in exported.original.graph.find_nodes(op="placeholder")}


def _with_roots(
    exported: ExportedModel, inputs: Mapping[str, Shape | None], sizes: Mapping[str, int]
) -> dict[str, int]:
    """``sizes``, and those of dimensions that no axis has by itself, as that of ``2 * Dim("half")``, in the plan."""
    assert exported.assumed is not None
    values, found = _values(exported), dict[str, int]()
    for name, shape in inputs.items():
        value = values.get(name)
        of_value: Sequence[Any] = value.shape if isinstance(value, torch.Tensor) else ()
        for planned, size in zip(shape or (), of_value, strict=False):
            expression: Any = size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(0)
            symbols = list(expression.free_symbols)
            line = _line(expression, symbols[0]) if len(symbols) == 1 else None
            if planned is not None and line is not None:
                factor, rest = map(int, line)
                found[exported.assumed.called(symbols[0])] = (planned - rest) // factor
    return found | dict(sizes)


def _places(exported: ExportedModel, inputs: Mapping[str, Shape | None], sizes: Mapping[str, int]) -> Iterator[_Place]:
    values = _values(exported)
    called = dict(_called(exported.loaded.proto))
    for name, shape in inputs.items():
        value = values.get(name)
        if isinstance(value, torch.SymInt):
            yield _place(exported, sizes, name, None, value)
        if isinstance(value, torch.Tensor) and shape is not None:  # one that is complex has an axis less
            for axis, (planned, size) in enumerate(zip(shape, value.shape, strict=False)):
                if planned is None:
                    place = _place(exported, sizes, name, axis, size)
                    yield replace(place, called=called.get((name, axis), ""))


def _called(model: onnx.ModelProto) -> Iterator[tuple[tuple[str, int], str]]:
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            yield (value.name, axis), dim.dim_param


def _place(
    exported: ExportedModel, sizes: Mapping[str, int], name: str, axis: int | None, size: int | torch.SymInt
) -> _Place:
    if isinstance(size, int):
        return _Place(name, axis, sympy.Integer(size), size)
    assert exported.assumed is not None
    expression, hint = exported.assumed.at(size.node.expr, sizes), size.node.hint
    return _Place(name, axis, expression, 1 if hint is None else int(hint))


def _named(places: Sequence[_Place]) -> dict[_Place, str]:
    """What conditions call each: as the user does, where that is one place's own and Python takes it for a name."""
    found: dict[_Place, str] = {}
    for place in places:
        for name in (place.called, place.name, f"{place.name}_"):
            if name.isidentifier() and not iskeyword(name) and name not in NAMES and name not in found.values():
                found[place] = name
                break
    return found


def _located(places: Sequence[_Place], names: Mapping[_Place, str]) -> tuple[dict[Any, Any], list[Any]]:
    """By symbol of the program what tells it in a call, and what calls must have so that all sizes go together."""
    asked: dict[Any, Any] = {}
    relations: list[Any] = []
    for place in sorted(places, key=lambda place: not place.size.is_Symbol):
        size, here = place.size.xreplace(asked), sympy.Symbol(names[place], integer=True)
        unknown = place.size.free_symbols - asked.keys()
        if place.size.is_Symbol and unknown:
            asked[place.size] = here
        elif len(unknown) == 1 and (line := _line(size, *unknown)) is not None:
            factor, rest = line
            asked[unknown.pop()] = FloorDiv(here - rest, factor)
            relations.append(sympy.Eq(Mod(here - rest, factor), 0))
        else:
            relations.append(sympy.Eq(here, size))
    return asked, relations


def _line(size: Any, symbol: Any) -> tuple[Any, Any] | None:
    """``a`` and ``b``, where ``size`` is ``a * symbol + b`` of whole numbers."""
    factor, rest = size.coeff(symbol, 1), size.coeff(symbol, 0)
    is_line = factor.is_Integer and factor > 0 and sympy.expand(factor * symbol + rest - size) == 0
    return (factor, rest) if is_line else None


def _spans(exported: ExportedModel, place: _Place, name: str) -> Iterator[Any]:
    """That the size is none that the program is not for."""
    here, assumed = sympy.Symbol(name, integer=True), exported.assumed
    constraint = exported.original.range_constraints.get(place.size)
    called = "" if assumed is None else assumed.names.get(str(place.size), "")
    least, most = exported.loaded.ranges.get(called, (0, None) if constraint is None else span_of(constraint))
    if least > 0 or place.axis is None:
        yield sympy.Ge(here, least)
    if most is not None:
        yield sympy.Le(here, most)


def _require_asked(text: str, known: set[str], model: str) -> None:
    try:
        unknown = sorted(Condition.read(text).names - known)
    except ValueError as error:
        why = str(error)
    else:
        why = f"no argument tells {unknown[0]!r}" if unknown else ""
    if why:
        raise InvalidOptionError(
            f"{model} takes for granted that {text}, which a run cannot be asked: {why}",
            hint="give every dimension a number: shape='NAME=SIZE'",
        )
