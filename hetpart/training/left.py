# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""What a forward pass leaves in attributes of modules that are no buffers: flags, NumPy's numbers, tensors.

A trace follows none of it. Where the pass computes the same with what it left, as with a flag that a warning was given,
nothing is lost; else every call of a step would compute what the first one does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

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
            known = before[path]
            for name in sorted({*known, *_attributes(owner)}):
                value = vars(owner).get(name, _GONE)
                if _differ(known.get(name, _GONE), value):
                    yield (path, name), value

    @contextmanager
    def going_on(self) -> Generator[list[Tensor]]:
        """Modules as they were left, with stand-ins for tensors, whose content nobody knows: what comes back."""
        values = {key: _stand_in(value) for key, value in self.values.items()}
        before = {(path, name): vars(self._owners[path]).get(name, _GONE) for path, name in values}
        try:
            for (path, name), value in values.items():
                _put(self._owners[path], name, value)
            yield [value for value in values.values() if isinstance(value, Tensor)]
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


def _attributes(owner: nn.Module) -> dict[str, Any]:
    return {name: value for name, value in vars(owner).items() if isinstance(value, _FOLLOWED)}


def _stand_in(value: Any) -> Any:
    return torch.zeros(value.shape, dtype=value.dtype) if isinstance(value, Tensor) else value


def _differ(before: Any, after: Any) -> bool:
    if before is after:
        return False
    plain = isinstance(before, bool | int | float | np.generic) and type(before) is type(after)
    return not plain or bool(before != after)


def _put(owner: nn.Module, name: str, value: Any) -> None:
    if value is _GONE:
        vars(owner).pop(name, None)
    else:
        vars(owner)[name] = value
