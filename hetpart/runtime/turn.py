# pyright: reportAttributeAccessIssue=false, reportUnknownMemberType=false
"""Whose turn it is to use what a session has once."""

from __future__ import annotations

from threading import RLock, current_thread
from typing import TYPE_CHECKING, Protocol

from hetpart.errors import ExecutionError

if TYPE_CHECKING:
    from collections.abc import Collection
    from contextlib import AbstractContextManager
    from threading import Thread


class Worker(Protocol):
    """What makes runs."""

    def crew(self) -> Collection[Thread]:
        """The threads that it does so in, beside the caller's."""
        ...

    def settle(self) -> None:
        """Return when nothing is under way any more, as something may be of a run that was interrupted twice."""
        ...


class Turn:
    """A lock that refuses whom it would keep waiting for himself.

    Between two steps of a thread Python may call others of the program's functions there: the handler of a signal, or
    the ``__del__`` of what it collects. One that wants the turn of the run that it came into would wait for ever.
    """

    __slots__ = ("_lock", "worker")

    def __init__(self) -> None:
        self._lock = RLock()
        """It knows its owner from the moment that it is taken to the one that it is free: no signal comes between."""
        self.worker: Worker | None = None
        """Who makes the runs of whoever has the turn."""

    def take(self) -> AbstractContextManager[object]:
        """What to enter for the turn.

        Raises:
            ExecutionError: this thread has it, or works for who has.
        """
        self.require_other()
        return self._lock

    def settle(self) -> None:
        """Return when nothing is under way of runs before this turn, which is the caller's."""
        if self.worker is not None:
            self.worker.settle()

    def require_other(self) -> None:
        """This thread does not have the turn, nor works for who has.

        Raises:
            ExecutionError: it has, or does.
        """
        crew = () if self.worker is None else self.worker.crew()
        if self._lock._is_owned() or (crew and current_thread() in crew):  # as threading.Condition asks
            raise ExecutionError(
                "a signal handler or __del__ asks this session while a run of it is under way in the same thread",
                hint="leave a note there, and ask when the run is over",
            )
