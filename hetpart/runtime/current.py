"""Which contents of states are current, before a run and after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hetpart.runtime.states import States


class Current:
    """Has a run that fails leave the contents current that were so before it. It holds one run at a time."""

    __slots__ = ("_before", "_states")

    def __init__(self, states: States) -> None:
        self._states = states
        self._before: tuple[dict[str, Any], int] = {}, 0

    def __enter__(self) -> None:
        self._before = self._states.current

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.back()
        self._before = {}, 0

    def back(self) -> None:
        """To what was current."""
        self._states.current = self._before
