# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportAttributeAccessIssue=false, reportPrivateUsage=false, reportMissingTypeStubs=false
"""Dimensions that differ from call to call: as the user names them, as ``torch.export`` wants them and as it writes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch.export.graph_signature import InputKind
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from hetpart.frontend.asked import Asked, base_of, is_open, name_of
from hetpart.graph.walk import all_graphs

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx


_SYMBOL = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Dimensions:
    """What the symbols of a program are called, and what they are in its example."""

    names: Mapping[str, str]
    sizes: Mapping[str, int]
    """By name; those that the example does not tell are left out."""
    ranges: Mapping[str, tuple[int, int | None]]
    """By name, the least and the largest size of the program; ``None`` where it sets no largest."""
    fixed: Mapping[tuple[str, int], str]
    """By argument and axis, the names of those that the user leaves open and the program does not."""


def dimensions_of(program: torch.export.ExportedProgram, asked: Asked) -> Dimensions:
    """Names for the symbols of ``program``: the user's in ``asked``, else the input's and the number of the axis."""
    names: dict[str, str] = {}
    sizes: dict[str, int] = {}
    every = list(_axes(program, asked))
    axes = [axis for axis in every if isinstance(axis.size, torch.SymInt)]
    for axis in axes:
        symbol = str(axis.size)
        if not _SYMBOL.fullmatch(symbol) or symbol in names:
            continue
        names[symbol] = axis.name
        if axis.hint is not None:
            sizes.setdefault(names[symbol], axis.hint)
    for axis in axes:
        root = getattr(axis.asked, "root", None)
        for symbol, known in _roots(axis, names).items():
            names[str(symbol)] = name_of(root) or str(symbol)
            sizes |= {} if known is None else {names[str(symbol)]: int(known)}
    fixed = {(axis.argument, axis.number): axis for axis in every if axis.is_fixed}
    only = {axis.name: int(axis.size) for axis in fixed.values()}
    ranges = _ranges(program, names, axes) | {name: (size, size) for name, size in only.items()}
    return Dimensions(names, sizes | only, ranges, {place: axis.name for place, axis in fixed.items()})


@dataclass(frozen=True, slots=True, eq=False)
class _Axis:
    argument: str
    number: int
    size: int | torch.SymInt
    """In the program; a number where it is the same in every call."""
    asked: Any
    """What the user says of it."""

    @property
    def name(self) -> str:
        """The user's, else the argument and the number."""
        return name_of(self.asked) or _known_name(self.size) or f"{self.argument}_dim{self.number}"

    @property
    def hint(self) -> int | None:
        """Its size in the example, where that is known."""
        return self.size if isinstance(self.size, int) else self.size.node.hint

    @property
    def is_fixed(self) -> bool:
        """Whether the user leaves it open and the program does not."""
        return isinstance(self.size, int) and is_open(self.asked)


def _known_name(size: int | torch.SymInt) -> str:
    """That of the ``Dim`` which whoever made the program gave; in a file there is none."""
    if isinstance(size, int):
        return ""
    shapes = size.node.shape_env
    known: Mapping[str, str] = getattr(shapes, "source_name_to_debug_name", {})
    sources = shapes.var_to_sources.get(size.node.expr, [])
    return next((known[source.name] for source in sources if source.name in known), "")


def _axes(program: torch.export.ExportedProgram, asked: Asked) -> Iterator[_Axis]:
    inputs = list(_inputs(program))
    assert not asked or len(asked) == len(inputs)
    for position, (name, tensor) in enumerate(inputs):
        own = asked[position] if asked else {}
        sizes: tuple[Any, ...] = () if tensor is None else tuple(tensor.shape)
        for axis, size in enumerate(sizes):
            yield _Axis(name, axis, _settled(size), own.get(axis))


def _settled(size: int | torch.SymInt) -> int | torch.SymInt:
    """A number where the trace made one of a symbol."""
    known = size.node.maybe_as_int() if isinstance(size, torch.SymInt) else size
    return size if known is None else int(known)


def _roots(axis: _Axis, names: Mapping[str, str]) -> dict[Any, Any]:
    """The symbols that its size is made of and that no axis has by itself, as that of ``2 * Dim("half")``.

    With what they are in the example, where that is known.
    """
    assert isinstance(axis.size, torch.SymInt)
    known = axis.size.node.shape_env.backed_var_to_val
    roots = sorted((one for one in axis.size.node.expr.free_symbols if str(one) not in names), key=str)
    return {symbol: known.get(symbol) for symbol in roots}


def names_in(program: torch.export.ExportedProgram, known: Dimensions) -> dict[str, str]:
    """What the symbols of ``program`` are called, those of arguments that are numbers by the argument."""
    inputs = program.graph.find_nodes(op="placeholder")
    numbers = {str(node.meta["val"]): node.name for node in inputs if isinstance(node.meta.get("val"), torch.SymInt)}
    return {**numbers, **known.names}


def size_at(size: int | torch.SymInt, known: Dimensions, sizes: Mapping[str, int]) -> int:
    """What ``size`` is where dimensions have ``sizes``, by name, and those of the example where they are not in it."""
    if isinstance(size, int):
        return size
    named = {symbol: known.names.get(str(symbol), "") for symbol in size.node.expr.free_symbols}
    found = {**known.sizes, **sizes}
    return int(size.node.expr.xreplace({symbol: sympy.Integer(found[name]) for symbol, name in named.items()}))


def _ranges(
    program: torch.export.ExportedProgram, names: Mapping[str, str], axes: Sequence[_Axis]
) -> dict[str, tuple[int, int | None]]:
    found: dict[str, tuple[int, int | None]] = {}
    least = {name_of(one): one.min for one in (base_of(axis.asked) for axis in axes) if one is not None}
    for symbol, span in program.range_constraints.items():
        name = names.get(str(symbol))
        if name is not None:
            lower, upper = span_of(span)
            found[name] = max(lower, least.get(name, 0)), upper
    return found


def span_of(span: ValueRanges[Any]) -> tuple[int, int | None]:
    """The least and the largest size or number; ``None`` where there is no largest."""
    # A least of 2 is what `torch.export` writes for any size; the programs that it makes take 0 and 1 too.
    return int(span.lower) if span.lower > 2 else 0, None if span.upper == int_oo else int(span.upper)


def _inputs(program: torch.export.ExportedProgram) -> Iterator[tuple[str, torch.Tensor | None]]:
    """What a caller gives, in the order of the arguments; ``None`` for what is no tensor."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            value = values.get(spec.arg.name)
            yield spec.arg.name, value if isinstance(value, torch.Tensor) else None


def name_dimensions(model: onnx.ModelProto, known: Dimensions) -> None:
    """Write the names into every shape that ``model`` states, and those of fixed axes into its inputs'."""
    for graph in all_graphs(model.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            for dim in value.type.tensor_type.shape.dim:
                _name(dim, known.names)
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if (value.name, axis) in known.fixed:
                dim.dim_param = known.fixed[value.name, axis]


def _name(dim: onnx.TensorShapeProto.Dimension, names: Mapping[str, str]) -> None:
    written = _SYMBOL.sub(lambda found: names.get(found[0], found[0]), dim.dim_param)
    if written.isdigit():  # a symbol of which the trace made a number
        dim.dim_value = int(written)
    elif written:
        dim.dim_param = written


def open_symbols(model: onnx.ModelProto) -> set[str]:
    """The names in sizes of the inputs of ``model``."""
    dims = (dim for value in model.graph.input for dim in value.type.tensor_type.shape.dim)
    return {symbol for dim in dims for symbol in _SYMBOL.findall(dim.dim_param)}
