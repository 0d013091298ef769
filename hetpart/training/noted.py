# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""What attributes of a module hold, noted: to see whether it changed, to put it back, and to go on from it.

Tuples, lists, dictionaries, sets, arrays and plain objects are noted with what is in them; of others, as iterators, is
known which one it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_PLAIN = (bool, int, float, complex, str, bytes, np.generic)
_CONTAINERS = (list, tuple, deque, dict, set, np.ndarray)
_NO_OBJECTS = (*_PLAIN, *_CONTAINERS, nn.Module, type, FunctionType, MethodType, ModuleType)
_FOREIGN = frozenset({"builtins", "numpy", "torch", "weakref", "functools", "enum", "logging", "threading", "_thread"})
"""Of objects of these packages nothing is noted but which ones they are."""
_DEEPEST = 4


@dataclass(frozen=True, slots=True, eq=False)
class Filled:
    """A container, and what is in it, noted too."""

    container: Any
    content: Any
    """A list of parts, a dictionary of them, a set, or an array."""

    def back(self) -> Any:
        """The container, which holds ``content`` again; of a tuple that would hold others, another one."""
        container, content = self.container, self.content
        if isinstance(container, tuple):
            parts = [back(part) for part in content]
            if len(parts) == len(container) and all(map(_is_same, parts, container)):
                return container
            return type(container)(*parts) if hasattr(container, "_fields") else type(container)(parts)
        if isinstance(container, np.ndarray):
            container[...] = content
            return container
        if is_object(container):
            _put_back(container, {key: back(part) for key, part in content.items()})
            return container
        held = container
        held.clear()
        if isinstance(content, list):
            held.extend([back(part) for part in content])
        elif isinstance(content, dict):
            held.update({key: back(part) for key, part in content.items()})
        else:
            held.update(content)
        return container

    @property
    def parts(self) -> list[Any]:
        """What is in it, in order."""
        content = self.content
        return (
            [] if isinstance(content, np.ndarray) else [*(content.values() if isinstance(content, dict) else content)]
        )

    def with_parts(self, parts: list[Any]) -> Filled:
        """The same container with others in it."""
        content = self.content
        if isinstance(content, dict):
            return Filled(self.container, dict(zip(content, parts, strict=True)))
        return Filled(self.container, content if isinstance(content, set | np.ndarray) else parts)


def _put_back(value: Any, content: dict[str, Any]) -> None:
    for name in _attributes(value).keys() - content.keys():
        object.__delattr__(value, name)
    for name, part in content.items():
        object.__setattr__(value, name, part)


def _is_same(one: Any, other: Any) -> bool:
    return one is other


def is_object(value: Any) -> bool:
    """Whether it is one of a class of somebody's own, that keeps what it holds in attributes and is no function."""
    foreign = type(value).__module__.partition(".")[0] in _FOREIGN
    return not (foreign or isinstance(value, _NO_OBJECTS) or callable(value)) and bool(_slots(value)) | hasattr(
        value, "__dict__"
    )


def _slots(value: Any) -> list[str]:
    """Names of attributes that its class has places for."""
    declared = (vars(kind).get("__slots__", ()) for kind in type(value).__mro__)
    names = [name for one in declared for name in ((one,) if isinstance(one, str) else one)]
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _attributes(value: Any) -> dict[str, Any]:
    """What an object keeps."""
    placed = {name: getattr(value, name) for name in _slots(value) if hasattr(value, name)}
    return {**getattr(value, "__dict__", {}), **placed}


def noted(value: Any, deep: int = 0) -> Any:
    """``value``, or a note of what is in it."""
    content = _content(value, deep + 1) if deep <= _DEEPEST else None
    return value if content is None else Filled(value, content)


def _content(value: Any, deep: int) -> Any:
    if isinstance(value, list | tuple | deque):
        return [noted(part, deep) for part in value]
    if isinstance(value, np.ndarray):
        return value.copy() if value.dtype != object and value.flags.writeable else None
    if isinstance(value, set):
        return set(value)
    held = value if isinstance(value, dict) else _attributes(value) if is_object(value) else None
    return None if held is None else {key: noted(part, deep) for key, part in held.items()}


def back(value: Any) -> Any:
    """What was noted, as it was."""
    return value.back() if isinstance(value, Filled) else value


def tensors(value: Any) -> Iterator[Tensor]:
    """Those in it."""
    if isinstance(value, Filled):
        for part in value.parts:
            yield from tensors(part)
    elif isinstance(value, Tensor):
        yield value


def stand_in(value: Any) -> Any:
    """The same with others in the place of tensors, whose content nobody knows."""
    if isinstance(value, Filled):
        return value.with_parts([stand_in(part) for part in value.parts])
    return torch.zeros(value.shape, dtype=value.dtype) if isinstance(value, Tensor) else value


def differ(before: Any, after: Any, *, forms: bool = False) -> bool:
    """Whether two notes are of different things; with ``forms``, of tensors only the form tells them apart."""
    if isinstance(before, Filled) and isinstance(after, Filled):
        same = before.container is after.container or (forms or isinstance(before.container, tuple))
        return not same or _differ_within(before.content, after.content, forms=forms)
    if before is after:
        return False
    if forms and isinstance(before, Tensor) and isinstance(after, Tensor):
        return before.shape != after.shape or before.dtype != after.dtype
    return not (isinstance(before, _PLAIN) and type(before) is type(after)) or bool(before != after)


def _differ_within(before: Any, after: Any, *, forms: bool) -> bool:
    if type(before) is not type(after):
        return True
    if isinstance(before, np.ndarray):
        return before.shape != after.shape or before.tobytes() != after.tobytes()
    if isinstance(before, set):
        return bool(before != after)
    if isinstance(before, dict):
        return [*before] != [*after] or any(differ(before[key], after[key], forms=forms) for key in before)
    return len(before) != len(after) or any(
        differ(one, other, forms=forms) for one, other in zip(before, after, strict=True)
    )
