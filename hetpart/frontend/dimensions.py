# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportAttributeAccessIssue=false, reportPrivateUsage=false, reportMissingTypeStubs=false
"""Dimensions that differ from call to call: as the user names them, as ``torch.export`` wants them and as it writes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch.export.dynamic_shapes import _combine_args, _tree_map_with_path
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from hetpart.errors import InvalidOptionError
from hetpart.graph.walk import all_graphs

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx

    from hetpart.frontend.example import Example

_SYMBOL = re.compile(r"[A-Za-z_]\w*")
Asked = Sequence[Mapping[int, Any]]
"""For every argument what the user says of its axes; nothing at all where no argument is spoken of."""


@dataclass(frozen=True, slots=True)
class Dimensions:
    """What the symbols of a program are called, and what they are in its example."""

    names: Mapping[str, str]
    sizes: Mapping[str, int]
    """By name; those that the example does not tell are left out."""
    ranges: Mapping[str, tuple[int, int | None]]
    """By name, the least and the largest size of the program; ``None`` where it sets no largest."""


def export_dimensions(given: Any) -> Any:
    """``given`` with a dynamic dimension in the place of every name."""
    if isinstance(given, str):
        return torch.export.Dim.DYNAMIC
    if isinstance(given, Mapping):
        return {key: export_dimensions(value) for key, value in given.items()}
    if isinstance(given, list | tuple):
        return type(given)(export_dimensions(value) for value in given)
    return given


def asked_dimensions(module: torch.nn.Module, example: Example) -> Asked:
    """What the user says of the axes of every argument that is a tensor.

    ``dynamic_shapes`` of ``example`` are of a form that ``torch.export`` has taken: by the arguments' names, or in the
    order in which ``forward`` has them. The result is in the order of the call, which may be another.

    Raises:
        InvalidOptionError: a tensor lacks an axis of which it is said, or one name is of two sizes.
    """
    given = example.dynamic_shapes
    if not given or not isinstance(given, Mapping | list | tuple):
        return ()
    arguments: dict[str, Any] = _combine_args(module, example.args, example.kwargs)
    asked: dict[int, Mapping[int, Any]] = {}
    sizes: dict[str, tuple[int, str]] = {}

    owners = {id(leaf): name for name, value in arguments.items() for leaf in pytree.tree_leaves(value)}

    def note(_path: Any, value: Any, said: Any) -> None:
        if isinstance(value, torch.Tensor):
            asked[id(value)] = axes = _by_axis(said)
            _require_axes(axes, value, owners[id(value)])
            _require_one_size(axes, value, owners[id(value)], sizes)

    ordered = arguments if isinstance(given, Mapping) else type(given)(arguments.values())
    _tree_map_with_path(note, ordered, given, tree_name="inputs")
    return tuple(asked.get(id(leaf), {}) for leaf in pytree.tree_leaves((example.args, dict(example.kwargs))))


def _require_axes(axes: Mapping[int, Any], tensor: torch.Tensor, where: str) -> None:
    lacking = [axis for axis in axes if not 0 <= axis < tensor.dim()]
    if lacking:
        raise InvalidOptionError(
            f"dynamic_shapes speaks of axis {lacking[0]} of {where!r}, which has {tensor.dim()} axes:"
            f" {list(tensor.shape)}",
            hint="axes are counted from 0",
        )


def _require_one_size(
    axes: Mapping[int, Any], tensor: torch.Tensor, where: str, sizes: dict[str, tuple[int, str]]
) -> None:
    for axis, said in axes.items():
        name, size, place = _name_of(said), int(tensor.shape[axis]), f"axis {axis} of {where!r}"
        known, first = sizes.setdefault(name, (size, place)) if name else (size, place)
        if known != size:
            raise InvalidOptionError(
                f"the dimension {name!r} is {known} in {first} and {size} in {place} of the example",
                hint="give them two names, or an example in which both are of one size",
            )


def dimensions_of(program: torch.export.ExportedProgram, asked: Asked) -> Dimensions:
    """Names for the symbols of ``program``: the user's in ``asked``, else the input's and the number of the axis."""
    names: dict[str, str] = {}
    sizes: dict[str, int] = {}
    axes = list(_open_axes(program, asked))
    for axis in axes:
        symbol = str(axis.size)
        if not _SYMBOL.fullmatch(symbol) or symbol in names:
            continue
        names[symbol] = _name_of(axis.asked) or axis.place
        if axis.size.node.hint is not None:
            sizes.setdefault(names[symbol], int(axis.size.node.hint))
    for axis in axes:
        root = getattr(axis.asked, "root", None)
        for symbol in _roots(axis.size, names):
            names[str(symbol)] = _name_of(root) or str(symbol)
            known = axis.size.node.shape_env.backed_var_to_val.get(symbol)
            sizes |= {} if known is None else {names[str(symbol)]: int(known)}
    return Dimensions(names, sizes, _ranges(program, names, axes))


@dataclass(frozen=True, slots=True, eq=False)
class _OpenAxis:
    """An axis of an argument that differs from call to call."""

    place: str
    """The argument, and the number of the axis."""
    size: torch.SymInt
    asked: Any
    """What the user says of it."""


def _open_axes(program: torch.export.ExportedProgram, asked: Asked) -> Iterator[_OpenAxis]:
    inputs = list(_inputs(program))
    assert not asked or len(asked) == len(inputs)
    for position, (name, tensor) in enumerate(inputs):
        own = asked[position] if asked else {}
        sizes: tuple[Any, ...] = () if tensor is None else tuple(tensor.shape)
        for axis, size in enumerate(sizes):
            if isinstance(size, torch.SymInt):
                yield _OpenAxis(f"{name}_dim{axis}", size, own.get(axis))


def _roots(size: torch.SymInt, names: Mapping[str, str]) -> list[Any]:
    """The symbols that ``size`` is made of and that no axis has by itself, as that of ``2 * Dim("half")``."""
    return sorted((symbol for symbol in size.node.expr.free_symbols if str(symbol) not in names), key=str)


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
    program: torch.export.ExportedProgram, names: Mapping[str, str], axes: Sequence[_OpenAxis]
) -> dict[str, tuple[int, int | None]]:
    found: dict[str, tuple[int, int | None]] = {}
    least = {_name_of(one): one.min for one in (_base(axis.asked) for axis in axes) if one is not None}
    for symbol, span in program.range_constraints.items():
        name = names.get(str(symbol))
        if name is not None:
            lower, upper = span_of(span)
            found[name] = max(lower, least.get(name, 0)), upper
    return found


def _base(asked: Any) -> Any:
    """The dimension that ``asked`` is, or is derived of."""
    found = getattr(asked, "root", asked)
    return found if hasattr(found, "min") and isinstance(found, torch.export.Dim) else None


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


def _by_axis(leaf: Any) -> Mapping[int, Any]:
    return leaf if isinstance(leaf, Mapping) else dict(enumerate(leaf)) if isinstance(leaf, list | tuple) else {}


def _name_of(dimension: Any) -> str:
    if isinstance(dimension, str):
        return dimension
    return dimension.__name__ if isinstance(dimension, torch.export.Dim) else ""


def name_dimensions(model: onnx.ModelProto, names: Mapping[str, str]) -> None:
    """Write the names into every shape that ``model`` states."""
    for graph in all_graphs(model.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            for dim in value.type.tensor_type.shape.dim:
                if dim.dim_param:
                    dim.dim_param = _SYMBOL.sub(lambda found: names.get(found[0], found[0]), dim.dim_param)


def open_symbols(model: onnx.ModelProto) -> set[str]:
    """The names in sizes of the inputs of ``model``."""
    dims = (dim for value in model.graph.input for dim in value.type.tensor_type.shape.dim)
    return {symbol for dim in dims for symbol in _SYMBOL.findall(dim.dim_param)}
