# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The structure of arguments and results: lists, tuples, dicts and what else PyTorch knows inside one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.utils import _pytree as pytree

_MUTABLE = {immutable_list: list, immutable_dict: dict}
"""What FX makes of lists and dicts that a graph returns, and what a module returns there."""


def ordered_as(value: Any, spec: pytree.TreeSpec) -> Any:
    """``value`` with the entries of its dicts in the order of ``spec``, where they have the same keys."""
    kind = spec.type
    if spec.is_leaf() or type(value) is not kind:
        return value
    if kind is dict and value.keys() == set(spec.context):
        return {key: ordered_as(value[key], child) for key, child in zip(spec.context, spec.children(), strict=True)}
    parts, context = pytree.SUPPORTED_NODES[kind].flatten_fn(value)
    if len(parts) != spec.num_children:
        return value
    ordered = [ordered_as(part, child) for part, child in zip(parts, spec.children(), strict=True)]
    return pytree.SUPPORTED_NODES[kind].unflatten_fn(ordered, context)


def difference(found: pytree.TreeSpec, wanted: pytree.TreeSpec) -> str:
    """What ``found`` has at the first place where ``wanted`` has something else, and what that is."""
    one, other = found.children(), wanted.children()
    if found.type is not wanted.type or found.context != wanted.context or len(one) != len(other):
        return f"{_described(found)} in the place of {_described(wanted)}"
    return next((said for said in map(difference, one, other) if said), "")


def _described(spec: pytree.TreeSpec) -> str:
    if spec.is_leaf():
        return "a value"
    if isinstance(spec.context, list):
        return f"a {spec.type.__name__} with {', '.join(map(repr, spec.context)) or 'nothing'}"
    return f"a {spec.type.__name__} of {len(spec.children())}"


def plain(spec: pytree.TreeSpec) -> pytree.TreeSpec:
    """``spec`` with lists and dicts in the place of FX's own, which nobody can write to."""
    return pytree.tree_structure(_mutable(pytree.tree_unflatten(range(spec.num_leaves), spec)))


def _mutable(value: Any) -> Any:
    kind = _MUTABLE.get(type(value), type(value))
    if kind is dict:
        given: Mapping[Any, Any] = value
        return {key: _mutable(part) for key, part in given.items()}
    if kind in (list, tuple):
        parts: Sequence[Any] = value
        return kind(_mutable(part) for part in parts)
    return value
