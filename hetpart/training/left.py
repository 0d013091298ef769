# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""What a forward pass leaves in attributes of modules that are no buffers: flags, NumPy's numbers, tensors, lists.

A trace follows none of it. Where the pass computes the same with what it left, as with a flag that a warning was given,
nothing is lost; else every call of a step would compute what the first one does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from hetpart.errors import InvalidModelError
from hetpart.training.held import KEPT

if TYPE_CHECKING:
    from torch.export import ExportedProgram

Attribute = tuple[str, str]
"""Path of a module, and a name."""
_FOLLOWED = (bool, int, float, np.generic, Tensor)
_CONTAINERS = (list, dict, set, deque)
_OWN = frozenset(vars(nn.Module()))
"""What PyTorch keeps of a module: its parameters, buffers, parts, hooks."""
_GONE = object()
"""In the place of an attribute that is not there."""


class Left:
    """What a pass left, by attribute; the modules have what they had before."""

    def __init__(self, model: nn.Module) -> None:
        self._owners = dict(model.named_modules())
        self.values: dict[Attribute, Any] = {}

    @contextmanager
    def watching(self) -> Generator[None]:
        """What is left within."""
        before = {path: _attributes(owner) for path, owner in self._owners.items()}
        try:
            yield
        finally:
            self.values = dict(self._changed(before))
            for path, name in self.values:
                _put(self._owners[path], name, before[path].get(name, _GONE))

    def _changed(self, before: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[Attribute, Any]]:
        for path, owner in self._owners.items():
            known, left = before[path], _attributes(owner)
            for name in sorted({*known, *left}):
                if _differ(known.get(name, _GONE), left.get(name, _GONE)):
                    yield (path, name), left.get(name, vars(owner).get(name, _GONE))

    @contextmanager
    def going_on(self) -> Generator[list[Tensor]]:
        """Modules as they were left, with stand-ins for tensors, whose content nobody knows: what comes back."""
        values = {key: _stand_in(value) for key, value in self.values.items()}
        before = {
            (path, name): _attributes(self._owners[path]).get(name, vars(self._owners[path]).get(name, _GONE))
            for path, name in values
        }
        try:
            for (path, name), value in values.items():
                _put(self._owners[path], name, value)
            yield [tensor for value in values.values() for tensor in _tensors(value)]
        finally:
            for (path, name), value in before.items():
                _put(self._owners[path], name, value)


def require_alike(left: Left, first: ExportedProgram, export: Callable[[], ExportedProgram]) -> None:
    """See that a pass that goes on from what ``first`` left computes the same, and reads nothing of it.

    Raises:
        InvalidModelError: it does not.
    """
    names = [f"{name!r} of {path or 'the model'!r}" for path, name in left.values]
    if not names:
        return
    with left.going_on() as stand_ins:
        again = export()
    read = {id(constant) for constant in again.constants.values()}
    if str(first.graph) != str(again.graph) or any(id(tensor) in read for tensor in stand_ins):
        raise InvalidModelError(
            f"the forward pass changes {', '.join(names)}, and its next call computes with that: a step would compute "
            "what the first call does in every one",
            hint=f"keep it in a buffer: {KEPT}",
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Filled:
    """A list, dictionary or set, and what is in it: a pass may fill it, and others may hold it."""

    container: Any
    content: Any
    """Such a container, of what is followed too."""

    def refilled(self) -> Any:
        """The container, which holds ``content`` again."""
        container, content = self.container, self.content
        container.clear()
        if isinstance(content, list):
            container.extend(map(_back, cast("list[Any]", content)))
        elif isinstance(content, dict):
            container.update((key, _back(value)) for key, value in content.items())
        else:
            container.update(content)
        return container


def _attributes(owner: nn.Module) -> dict[str, Any]:
    own = ((name, value) for name, value in vars(owner).items() if name not in _OWN)
    return {name: _noted(value) for name, value in own if isinstance(value, (*_FOLLOWED, *_CONTAINERS))}


def _noted(value: Any) -> Any:
    if isinstance(value, list | deque):
        return _Filled(value, [_noted(part) for part in value])
    if isinstance(value, dict):
        return _Filled(value, {key: _noted(part) for key, part in value.items()})
    return _Filled(value, set(value)) if isinstance(value, set) else value


def _back(value: Any) -> Any:
    return value.refilled() if isinstance(value, _Filled) else value


def _parts(value: Any) -> list[Any]:
    content = value.content
    return list(content.values() if isinstance(content, dict) else content)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, _Filled):
        for part in _parts(value):
            yield from _tensors(part)
    elif isinstance(value, Tensor):
        yield value


def _stand_in(value: Any) -> Any:
    if isinstance(value, Tensor):
        return torch.zeros(value.shape, dtype=value.dtype)
    if not isinstance(value, _Filled):
        return value
    content = value.content
    if isinstance(content, dict):
        return _Filled(value.container, {key: _stand_in(part) for key, part in content.items()})
    return _Filled(value.container, type(content)(map(_stand_in, content)))


def _differ(before: Any, after: Any) -> bool:
    if isinstance(before, _Filled) and isinstance(after, _Filled):
        return before.container is not after.container or _differ_within(before.content, after.content)
    if before is after:
        return False
    plain = isinstance(before, bool | int | float | np.generic) and type(before) is type(after)
    return not plain or bool(before != after)


def _differ_within(before: Any, after: Any) -> bool:
    if isinstance(before, set):
        return bool(before != after)
    if isinstance(before, dict):
        return [*before] != [*after] or any(_differ(before[key], after[key]) for key in before)
    return len(before) != len(after) or any(map(_differ, before, after))


def _put(owner: nn.Module, name: str, value: Any) -> None:
    if value is _GONE:
        vars(owner).pop(name, None)
    else:
        vars(owner)[name] = _back(value)
