# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Numbers and containers that tell whether code looks at them: what grows with every call may decide something late."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from hetpart.training.noted import Filled

_LOOKS = (
    "__bool__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__", "__iter__", "__reversed__",
    "__len__", "__int__", "__float__", "__index__", "__hash__", "__mod__", "__floordiv__", "count", "copy", "index",
    "items", "keys", "pop", "popitem", "popleft", "values", "__repr__", "__str__", "__format__",
)  # fmt: skip
_COUNTS = ("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__neg__")
"""What makes another number to watch; of a container it makes another one, of all that is in it."""
_KINDS = (int, float, list, deque, dict, set)


class Watch:
    """Whether anybody looked at what is watched."""

    def __init__(self) -> None:
        self.looked, self._within = False, False
        self._kinds = {kind: self._kind(kind) for kind in _KINDS}

    @contextmanager
    def watching(self) -> Generator[None]:
        """Looks within count."""
        self._within = True
        try:
            yield
        finally:
            self._within = False

    def watched(self, value: Any) -> Any:
        """A note of the same, with what can be watched in the place of the rest."""
        if isinstance(value, Filled):
            inner = value.with_parts([self.watched(part) for part in value.parts])
            kind = self._kinds.get(type(value.container))
            if kind is None:
                return inner
            made = kind(maxlen=value.container.maxlen) if isinstance(value.container, deque) else kind()
            return Filled(made, inner.content)
        kind = self._kinds.get(type(value))
        return value if kind is None else kind(value)

    def _kind(self, kind: type) -> type:
        counts = _COUNTS if kind in (int, float) else ()
        names = _LOOKS if counts else (*_LOOKS, *_COUNTS)
        looks = {name: self._looking(plain) for name in names if (plain := getattr(kind, name, None)) is not None}
        made = type(f"Watched{kind.__name__}", (kind,), looks)
        if hasattr(kind, "__getitem__"):
            setattr(made, "__getitem__", self._taking(getattr(kind, "__getitem__")))  # noqa: B009, B010 - of any kind
        for name in counts:
            setattr(made, name, _counting(getattr(kind, name), made))
        return made

    def _taking(self, plain: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        """One part is watched itself; several of them are a list of which nobody knows."""

        def take(container: Any, key: Any) -> Any:
            self.looked |= self._within and isinstance(key, slice)
            return plain(container, key)

        return take

    def _looking(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def look(*args: Any, **named: Any) -> Any:
            self.looked |= self._within
            return plain(*args, **named)

        return look


def _counting(plain: Callable[..., Any], kind: type) -> Callable[..., Any]:
    def count(*args: Any) -> Any:
        made = plain(*args)
        return made if made is NotImplemented else kind(made)

    return count
