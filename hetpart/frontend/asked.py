# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateUsage=false
"""What the user asks of the axes of arguments, and as ``torch.export`` wants it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._dynamo.exc import UserError
from torch.export.dynamic_shapes import _combine_args, _tree_map_with_path
from torch.utils import _pytree as pytree
from torch.utils._sympy.numbers import int_oo

from hetpart.errors import HetpartError, InvalidOptionError
from hetpart.frontend.example import Example, Openness

Asked = Sequence[Mapping[int, Any]]
"""For every argument what the user says of its axes; nothing at all where no argument is spoken of."""
_FORMS = (Mapping, list, tuple, torch.export.ShapesCollection, torch.export.AdditionalInputs, type(None))
_HINT = "write dynamic_shapes={'x': {0: 'batch'}}: for every argument what its axes are called, None where they stay"
_MISFITS = (HetpartError, UserError, TypeError, ValueError)
"""Where what is said is of another form than the arguments."""


def export_dimensions(given: Any, openness: Openness) -> Any:
    """``given`` with a dynamic dimension in the place of every name, or with what ``openness`` makes of it."""
    if isinstance(given, Mapping):
        return {key: export_dimensions(value, openness) for key, value in given.items()}
    if isinstance(given, list | tuple):
        return type(given)(export_dimensions(value, openness) for value in given)
    if openness is Openness.REQUIRED or not is_open(given):
        return torch.export.Dim.DYNAMIC if isinstance(given, str) else given
    if openness is Openness.NONE:
        return None
    least, most = _span(given)
    return torch.export.Dim.AUTO(min=least, max=most)


def require_form(given: Any) -> None:
    """Refuse what says nothing of arguments.

    Raises:
        InvalidOptionError: ``given`` is that.
    """
    if not isinstance(given, _FORMS):
        raise InvalidOptionError(f"dynamic_shapes is {given!r}, which speaks of no argument", hint=_HINT)


def require_axes(module: torch.nn.Module, example: Example) -> None:
    """Refuse what is said of a tensor as a whole, or of axes by other things than numbers.

    Raises:
        InvalidOptionError: that is said.
    """
    try:
        asked_dimensions(module, example)
    except InvalidOptionError:
        raise
    except _MISFITS:  # what torch.export says of it is clear
        return


def is_open(said: Any) -> bool:
    """Whether the user wants the axis to be open, whatever the code does."""
    return isinstance(said, str | torch.export.Dim) or getattr(said, "type", None) == torch.export.Dim.DYNAMIC.type


def may_be_fixed(module: torch.nn.Module, example: Example) -> bool:
    """Whether what the user says of axes goes with ``example``, so that it is code that has no open axes there."""
    try:
        asked = asked_dimensions(module, example)
    except _MISFITS:  # its refusal says so
        return False
    tensors = pytree.tree_leaves((example.args, dict(example.kwargs)))
    both = [(axes, tensor.shape) for tensor, axes in zip(tensors, asked, strict=False) if axes]
    said = [(one, shape[axis]) for axes, shape in both for axis, one in axes.items()]
    return any(map(is_open, _leaves(example.dynamic_shapes))) and all(_is_within(one, size) for one, size in said)


def _leaves(given: Any) -> Iterator[Any]:
    """What is said of every axis, and of arguments that are numbers."""
    parts = given.values() if isinstance(given, Mapping) else given if isinstance(given, list | tuple) else None
    if parts is None:
        yield given
    for part in parts or ():
        yield from _leaves(part)


def _is_within(said: Any, size: int) -> bool:
    """Whether ``size`` is one that is asked for; of what is computed of another dimension that is not known."""
    least, most = (said, said) if type(said) is int else _span(said)
    is_one = (least is None or least <= size) and (most is None or size <= most)
    return is_one and not hasattr(said, "root")


def _span(said: Any) -> tuple[int | None, int | None]:
    """The least and the largest size that are asked for, where it says so."""
    most = getattr(said, "max", None)
    return getattr(said, "min", None), None if most == int_oo else most


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
            asked[id(value)] = axes = _by_axis(said, owners[id(value)])
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
        name, size, place = name_of(said), int(tensor.shape[axis]), f"axis {axis} of {where!r}"
        known, first = sizes.setdefault(name, (size, place)) if name else (size, place)
        if known != size:
            raise InvalidOptionError(
                f"the dimension {name!r} is {known} in {first} and {size} in {place} of the example",
                hint="give them two names, or an example in which both are of one size",
            )


def _by_axis(leaf: Any, where: str) -> Mapping[int, Any]:
    others = [axis for axis in leaf if not isinstance(axis, int)] if isinstance(leaf, Mapping) else []
    if others or isinstance(leaf, str | torch.export.Dim):
        said = f"the axis {others[0]!r}" if others else f"{name_of(leaf)!r}"
        raise InvalidOptionError(f"dynamic_shapes says {said} of {where!r}, and axes are numbers", hint=_HINT)
    return leaf if isinstance(leaf, Mapping) else dict(enumerate(leaf)) if isinstance(leaf, list | tuple) else {}


def name_of(dimension: Any) -> str:
    """What the user calls it; ``""`` where it has no name."""
    if isinstance(dimension, str):
        return dimension
    return dimension.__name__ if isinstance(dimension, torch.export.Dim) else ""


def base_of(asked: Any) -> Any:
    """The dimension that ``asked`` is, or is derived of."""
    found = getattr(asked, "root", asked)
    return found if hasattr(found, "min") and isinstance(found, torch.export.Dim) else None
