# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""Operators that return what others leave in their arguments: what custom ones wrote to copies, what was checked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch._ops import OpOverload

NAMESPACE = "hetpart_copying"
_ALIASED = re.compile(r"\(\w+!?\)")
"""What a schema says of a tensor that is written to: ``Tensor(a0!) x``."""
CHECK: OpOverload = torch.ops.aten._linalg_check_errors.default
_library = torch.library.Library(NAMESPACE, "FRAGMENT")
_original: dict[OpOverload, OpOverload] = {}
_made: dict[tuple[OpOverload, tuple[str, ...]], OpOverload] = {}


def written_arguments(target: OpOverload) -> list[str]:
    """Names of the arguments that ``target`` writes to."""
    return [one.name for one in target._schema.arguments if one.alias_info and one.alias_info.is_write]


def shared_returns(target: OpOverload) -> list[int]:
    """Which of what ``target`` returns lie in the memory of arguments that it does not write to, as views do."""
    returns = target._schema.returns
    return [place for place, one in enumerate(returns) if one.alias_info and not one.alias_info.is_write]


def plain_returns(target: OpOverload) -> list[int]:
    """Which of what ``target`` returns are no arguments that it wrote to."""
    returns = target._schema.returns
    return [place for place, one in enumerate(returns) if not (one.alias_info and one.alias_info.is_write)]


def copying(target: OpOverload, names: Sequence[str]) -> OpOverload:
    """The operator that returns what ``target`` returns and then what it wrote to copies of the arguments ``names``."""
    key = target, tuple(names)
    if key not in _made:
        name = re.sub(r"\W", "_", "_".join([str(target), *names]))
        schema = str(target._schema)
        given = _ALIASED.sub("", schema[schema.index("(") : schema.rindex(" -> ")])
        types = [str(target._schema.returns[place].type) for place in plain_returns(target)] + ["Tensor"] * len(names)
        _library.define(f"{name}{given} -> {types[0] if len(types) == 1 else '(' + ', '.join(types) + ')'}")
        _library.impl(name, partial(_called, target), "CompositeExplicitAutograd")
        _library._register_fake(name, partial(_called, target))
        _made[key] = getattr(getattr(torch.ops, NAMESPACE), name).default
        _original[_made[key]] = target
    return _made[key]


def called_by(target: OpOverload) -> OpOverload:
    """What an operator that was made here calls; another one as it is."""
    return _original.get(target, target)


def _called(target: OpOverload, *args: Any, **kwargs: Any) -> Any:
    made = call_on_copies(target, args, kwargs)
    return made[0] if len(made) == 1 else tuple(made)


def call_on_copies(target: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """What ``target`` returns that is no argument of it, and then what it wrote to copies of its arguments."""
    schema = target._schema
    given = dict(zip((one.name for one in schema.arguments), args, strict=False)) | dict(kwargs)
    copies = {name: given[name].clone() for name in written_arguments(target) if given.get(name) is not None}
    given |= copies
    placed = [given[one.name] for one in schema.arguments[: len(args)]]
    made = target(*placed, **{name: given[name] for name in kwargs})
    returned = made if len(schema.returns) > 1 else (made,)
    shared = shared_returns(target)
    plain = [returned[place].clone() if place in shared else returned[place] for place in plain_returns(target)]
    return [*plain, *copies.values()]


def _checked(x: torch.Tensor, info: torch.Tensor, api_name: str, is_matrix: bool) -> torch.Tensor:
    CHECK(info, api_name, is_matrix=is_matrix)
    return x.clone()


def _unchecked(x: torch.Tensor, info: torch.Tensor, api_name: str, is_matrix: bool) -> torch.Tensor:
    del info, api_name, is_matrix
    return torch.empty_like(x)


_library.define("checked(Tensor x, Tensor info, str api_name, bool is_matrix) -> Tensor")
_library.impl("checked", _checked, "CompositeExplicitAutograd")
_library._register_fake("checked", _unchecked)
CHECKED: OpOverload = torch.ops.hetpart_copying.checked.default
"""Returns what it is given, where the check of linear algebra finds no error."""


def _staying(x: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    lost = [dim for dim in dims if x.shape[dim] == 1]
    if lost:
        raise ValueError(
            f"the axis {lost[0]} of {tuple(x.shape)} is 1 in this run, and is squeezed: the model was traced for others"
        )
    return x.clone()


def _stayed(x: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    del dims
    return torch.empty_like(x)


_library.define("staying(Tensor x, int[] dims) -> Tensor")
_library.impl("staying", _staying, "CompositeExplicitAutograd")
_library._register_fake("staying", _stayed)
STAYING: OpOverload = torch.ops.hetpart_copying.staying.default
"""Returns what it is given, where no axis of those that a squeeze names is of size 1."""
