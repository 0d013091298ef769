"""Threads that begin to work on cores of their own.

Linux wakes a thread on the core it was on last, or on that of who woke it, and looks for a better one when its clock
ticks: of two lanes that began together, one waited for the other for some milliseconds in a quarter to a half of the
runs, on two idle cores.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from queue import SimpleQueue
from threading import get_native_id
from typing import Generic, TypeVar

_Item = TypeVar("_Item")


class Desk(Generic[_Item]):
    """Where one thread waits for what others hand to it, to be done beside what they go on with."""

    __slots__ = ("_before", "_queue", "_thread")

    def __init__(self) -> None:
        self._queue: SimpleQueue[_Item] = SimpleQueue()
        self._thread = 0
        self._before: set[int] = set()
        """Cores that the thread may run on again; none where nothing was changed."""

    def sit(self) -> None:
        """The calling thread is the one that waits here."""
        self._thread = get_native_id()

    def get(self) -> _Item:
        """What was handed over next; waits for it."""
        item = self._queue.get()
        if self._before:
            _confine(0, self._before)
            self._before = set()
        return item

    def put(self, item: _Item) -> None:
        """Hand ``item`` to a thread that waits for nothing else."""
        self._queue.put(item)

    def put_beside(self, item: _Item) -> None:
        """The same, by a thread that goes on working: the other wakes on another core than this one's."""
        cores = cores_of(self._thread) if self._thread else set[int]()
        others = cores - {_core()}
        if others and others != cores and _confine(self._thread, others):
            self._before = cores
        self._queue.put(item)


def cores_of(thread: int) -> set[int]:
    """Those that ``thread`` may run on, 0 the calling one; none where the system does not tell."""
    with suppress(OSError, AttributeError):
        return os.sched_getaffinity(thread)
    return set()


def _confine(thread: int, cores: set[int]) -> bool:
    """Let ``thread`` run on ``cores`` alone; whether the system did so: where it forbids it, runs are as they were."""
    with suppress(OSError):
        os.sched_setaffinity(thread, cores)
        return True
    return False


def _no_core() -> int:
    return -1


_core = getattr(ctypes.CDLL(None), "sched_getcpu", _no_core) if os.name == "posix" else _no_core
"""Number of the core that the calling thread runs on; -1 where the system does not tell."""
