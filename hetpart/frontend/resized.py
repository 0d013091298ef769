# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""The example call of a program at other sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.utils import _pytree as pytree

from hetpart.frontend.assumed import argument_names
from hetpart.frontend.dimensions import Dimensions, size_at
from hetpart.frontend.example import Example


def resized(
    program: torch.export.ExportedProgram, example: Example, known: Dimensions, sizes: Mapping[str, int]
) -> Example:
    """``example``, of which ``program`` was made, with its tensors cut or repeated to ``sizes``."""
    given, spec = pytree.tree_flatten((example.args, dict(example.kwargs)))
    traced = zip(given, _traced(program), strict=True)
    made = [_of_form(value, _shape(name, like, known, sizes)) for value, (name, like) in traced]
    args, kwargs = pytree.tree_unflatten(made, spec)
    return replace(example, args=args, kwargs=kwargs)


def example_of(program: torch.export.ExportedProgram, known: Dimensions, sizes: Mapping[str, int]) -> Example:
    """An example call of ``program`` at ``sizes``, of zeros; its dimensions are called as in ``known``."""
    spec = program.call_spec.in_spec
    assert spec is not None
    traced = [value for _, value in _traced(program)]
    args, kwargs = pytree.tree_unflatten([_zeros(value, known, sizes) for value in traced], spec)
    axes_of_args, axes_of_kwargs = pytree.tree_unflatten([_axes(value, known) for value in traced], spec)
    names = argument_names(program)
    axes = dict(zip(names, axes_of_args, strict=False)) | dict(axes_of_kwargs)
    return Example(tuple(args), dict(kwargs), axes if len(names) == len(axes) else (*axes_of_args,))


def _traced(program: torch.export.ExportedProgram) -> list[tuple[str, Any]]:
    """What the trace knows of the arguments, by name and in order; a constant is itself."""
    values = {node.name: node.meta.get("val") for node in program.graph.find_nodes(op="placeholder")}
    specs = [spec.arg for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    return [(arg.name, arg.value if isinstance(arg, ConstantArgument) else values.get(arg.name)) for arg in specs]


def _shape(name: str, traced: Any, known: Dimensions, sizes: Mapping[str, int]) -> list[int] | None:
    """That of the argument ``name`` at ``sizes``; ``None`` where it is no tensor."""
    if not isinstance(traced, torch.Tensor):
        return None
    fixed = {axis: called for (owner, axis), called in known.fixed.items() if owner == name}
    return [sizes.get(fixed.get(axis, ""), size_at(size, known, sizes)) for axis, size in enumerate(traced.shape)]


def _of_form(value: Any, shape: Sequence[int] | None) -> Any:
    if not isinstance(value, torch.Tensor) or shape is None:
        return value
    value = value.detach().clone()
    for axis, wanted in enumerate(shape):
        there = value.shape[axis]
        if wanted != there:
            places = torch.arange(wanted, device=value.device) % max(there, 1)
            value = value.index_select(axis, places) if there else value.new_zeros(_with(value.shape, axis, wanted))
    return value


def _with(shape: torch.Size, axis: int, size: int) -> list[int]:
    return [size if place == axis else held for place, held in enumerate(shape)]


def _zeros(traced: Any, known: Dimensions, sizes: Mapping[str, int]) -> Any:
    if isinstance(traced, torch.Tensor):
        return torch.zeros([size_at(size, known, sizes) for size in traced.shape], dtype=traced.dtype)
    return traced.node.hint if isinstance(traced, torch.SymInt) else traced


def _axes(traced: Any, known: Dimensions) -> Any:
    if isinstance(traced, torch.SymInt):
        return torch.export.Dim.DYNAMIC
    if not isinstance(traced, torch.Tensor):
        return None
    open_axes = {axis: size for axis, size in enumerate(traced.shape) if isinstance(size, torch.SymInt)}
    return {axis: known.names.get(str(size), torch.export.Dim.AUTO) for axis, size in open_axes.items()}
