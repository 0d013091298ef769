# pyright: reportAttributeAccessIssue=false, reportUnknownMemberType=false
"""Whose turn it is to use what a session has once."""

from __future__ import annotations

from threading import RLock, current_thread
from typing import TYPE_CHECKING

from hetpart.errors import ExecutionError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from contextlib import AbstractContextManager
    from threading import Thread


class Turn:
    """A lock that refuses whom it would keep waiting for himself.

    Between two steps of a thread Python may call others of the program's functions there: the handler of a signal, or
    the ``__del__`` of what it collects. One that wants the turn of the run that it came into would wait for ever.
    """

    __slots__ = ("_lock", "crew")

    def __init__(self) -> None:
        self._lock = RLock()
        """It knows its owner from the moment that it is taken to the one that it is free: no signal comes between."""
        self.crew: Callable[[], Collection[Thread]] = tuple
        """The threads that work for whoever has the turn."""

    def take(self) -> AbstractContextManager[object]:
        """What to enter for the turn.

        Raises:
            ExecutionError: this thread has it, or works for who has.
        """
        self.require_other()
        return self._lock

    def require_other(self) -> None:
        """This thread does not have the turn, nor works for who has.

        Raises:
            ExecutionError: it has, or does.
        """
        crew = self.crew()
        if self._lock._is_owned() or (crew and current_thread() in crew):  # as threading.Condition asks
            raise ExecutionError(
                "a signal handler or __del__ asks this session while a run of it is under way in the same thread",
                hint="leave a note there, and ask when the run is over",
            )
