# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""What a forward pass leaves in attributes of modules that are no buffers: flags, numbers, tensors, lists, objects.

A trace follows none of it. Where the pass computes the same with what it left, as with a flag that a warning was given,
nothing is lost; else every call of a step would compute what the first one does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from hetpart.errors import InvalidModelError
from hetpart.training.held import KEPT
from hetpart.training.noted import Filled, back, differ, noted, stand_in, tensors
from hetpart.training.watched import Watch

if TYPE_CHECKING:
    from torch.export import ExportedProgram

Attribute = tuple[str, str]
"""Path of a module, and a name."""
_OWN = frozenset({*vars(nn.Module()), "_flat_weights", "_flat_weight_refs"}) - {"training"}
"""What PyTorch keeps of a module: parameters, buffers, parts, hooks, and a recurrent layer's parameters in order. A
pass may change whether it trains."""
_GONE = object()
"""In the place of an attribute that is not there."""
_PASSES, _WATCHED = 5, 1
"""How many passes go on from the first, and which of them is watched."""


class Left:
    """What a pass left, by attribute; the modules have what they had before."""

    def __init__(self, model: nn.Module) -> None:
        self._owners = dict(model.named_modules())
        self._watch: Watch | None = None
        self.values: dict[Attribute, Any] = {}
        """Notes of it."""

    @contextmanager
    def watching(self) -> Generator[None]:
        """What is left within."""
        before = {path: _attributes(owner) for path, owner in self._owners.items()}
        try:
            with nullcontext() if self._watch is None else self._watch.watching():
                yield
        finally:
            self.values = dict(self._changed(before))
            for path, name in self.values:
                _put(self._owners[path], name, before[path].get(name, _GONE))

    @contextmanager
    def restored(self) -> Generator[None]:
        """Let containers hold behind it what they hold, each in its place: PyTorch puts others there."""
        before = {path: _attributes(owner) for path, owner in self._owners.items()}
        try:
            yield
        finally:
            for path, notes in before.items():
                for name, note in notes.items():
                    if isinstance(note, Filled):
                        _put(self._owners[path], name, note)

    def _changed(self, before: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[Attribute, Any]]:
        for path, owner in self._owners.items():
            known, left = before[path], _attributes(owner)
            for name in sorted({*known, *left}):
                if differ(known.get(name, _GONE), left.get(name, _GONE)):
                    yield (path, name), left.get(name, _GONE)

    @contextmanager
    def going_on(self, values: Mapping[Attribute, Any], watch: Watch | None) -> Generator[list[Tensor]]:
        """Modules with ``values``, but stand-ins for tensors, whose content nobody knows: what comes back."""
        values = {key: stand_in(value) for key, value in values.items()}
        before = {(path, name): _attributes(self._owners[path]).get(name, _GONE) for path, name in values}
        self._watch = watch
        try:
            for (path, name), value in values.items():
                _put(self._owners[path], name, value if watch is None else watch.watched(value))
            yield [tensor for value in values.values() for tensor in tensors(value)]
        finally:
            self._watch = None
            for (path, name), value in before.items():
                _put(self._owners[path], name, value)


def require_alike(left: Left, first: ExportedProgram, export: Callable[[], ExportedProgram]) -> None:
    """See that passes that go on from what ``first`` left compute the same, and read nothing of it.

    They go on until nothing changes but the content of tensors. Where something grows with every call, nobody may look
    at it.

    Raises:
        InvalidModelError: they do not.
    """
    values = left.values
    for number in range(_PASSES if values else 0):
        watch = Watch() if number == _WATCHED else None
        with left.going_on(values, watch) as stand_ins:
            again = export()
        read = {id(constant) for constant in again.constants.values()}
        if str(first.graph) != str(again.graph) or any(id(tensor) in read for tensor in stand_ins):
            raise _changed(values, "and its next call computes with that")
        settled = all(not differ(values.get(key, _GONE), value, forms=True) for key, value in left.values.items())
        if settled or (watch is not None and not watch.looked):
            return
        values = {**values, **left.values}
    if values:
        raise _changed(left.values, "in every call, and looks at it")


def _changed(values: Mapping[Attribute, Any], why: str) -> InvalidModelError:
    names = ", ".join(f"{name!r} of {path or 'the model'!r}" for path, name in values)
    return InvalidModelError(
        f"the forward pass changes {names}, {why}: a step would compute what the first call does in every one",
        hint=f"keep it in a buffer: {KEPT}",
    )


def _attributes(owner: nn.Module) -> dict[str, Any]:
    return {name: noted(value) for name, value in vars(owner).items() if name not in _OWN}


def _put(owner: nn.Module, name: str, value: Any) -> None:
    if value is _GONE:
        vars(owner).pop(name, None)
    else:
        vars(owner)[name] = back(value)
