# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportAttributeAccessIssue=false
"""Dimensions that differ from call to call: as the user names them, as ``torch.export`` wants them and as it writes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import InputKind

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


def export_dimensions(given: Any) -> Any:
    """``given`` with a dynamic dimension in the place of every name."""
    if isinstance(given, str):
        return torch.export.Dim.DYNAMIC
    if isinstance(given, Mapping):
        return {key: export_dimensions(value) for key, value in given.items()}
    if isinstance(given, list | tuple):
        return type(given)(export_dimensions(value) for value in given)
    return given


def dimensions_of(program: torch.export.ExportedProgram, given: Any) -> Dimensions:
    """Names for the symbols of ``program``: the user's in ``given``, else the input's and the number of the axis."""
    names: dict[str, str] = {}
    sizes: dict[str, int] = {}
    inputs = list(_inputs(program))
    asked = _leaves(given) if given else []
    for position, (name, tensor) in enumerate(inputs):
        if tensor is None:
            continue
        own = _by_axis(asked[position]) if len(asked) == len(inputs) else {}
        sizes_of: tuple[Any, ...] = tuple(tensor.shape)
        for axis, size in enumerate(sizes_of):
            symbol = str(size)
            if isinstance(size, int) or not _SYMBOL.fullmatch(symbol) or symbol in names:
                continue
            names[symbol] = _name_of(own.get(axis)) or f"{name}_dim{axis}"
            if size.node.hint is not None:
                sizes.setdefault(names[symbol], int(size.node.hint))
    return Dimensions(names, sizes)


def _inputs(program: torch.export.ExportedProgram) -> Iterator[tuple[str, torch.Tensor | None]]:
    """What a caller gives, in the order of the arguments; ``None`` for what is no tensor."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            value = values.get(spec.arg.name)
            yield spec.arg.name, value if isinstance(value, torch.Tensor) else None


def _leaves(given: Any) -> list[Any]:
    """What is said of each tensor, in the order of the arguments."""
    if _is_leaf(given):
        return [given]
    parts: Sequence[Any] = list(given.values()) if isinstance(given, Mapping) else list(given)
    return [leaf for part in parts for leaf in _leaves(part)]


def _is_leaf(given: Any) -> bool:
    """Whether it speaks of one tensor: nothing, numbered axes, or a dimension for each."""
    if isinstance(given, Mapping):
        return all(isinstance(key, int) for key in given)
    return not isinstance(given, list | tuple) or (bool(given) and not any(map(_holds_more, given)))


def _holds_more(part: Any) -> bool:
    return isinstance(part, Mapping | list | tuple)


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
