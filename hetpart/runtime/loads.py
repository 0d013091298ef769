"""Sessions that are made side by side, and an end to all of them where one fails or nobody wants them any more."""

from __future__ import annotations

import os
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from threading import Lock
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_GLANCE_SECONDS = 0.5
"""A Ctrl-C that comes just before a wait begins does not end it: so nobody waits longer without looking up."""
Made = TypeVar("Made")


class Stoppable(Protocol):
    """As ``onnxruntime.SessionOptions``: who loads with them looks now and then whether to go on."""

    def set_load_cancellation_flag(self, stop: bool, /) -> None:
        """Whether to stop."""
        ...


class Loads:
    """What is being loaded."""

    def __init__(self) -> None:
        self._begun: list[Stoppable] = []
        self._stopped = False
        self._mutex = Lock()

    def begin(self, options: Stoppable) -> None:
        """A session with these ``options`` is going to be made."""
        with self._mutex:
            self._begun.append(options)
            if self._stopped:
                options.set_load_cancellation_flag(True)

    def stop(self) -> None:
        """Let all end soon, and those that begin later too."""
        with self._mutex:
            self._stopped = True
            for options in self._begun:
                options.set_load_cancellation_flag(True)


def load_all(
    number: int, make: Callable[[int, Loads], Made], progress: Callable[[str], None] | None = None
) -> list[Made]:
    """What ``make`` makes of every number below ``number``, as many at once as there are cores.

    Where one fails, or Ctrl-C comes, those under way end soon, and no more are begun.
    """
    loads, done = Loads(), 0
    with ThreadPoolExecutor(max(1, min(number, os.cpu_count() or 1))) as pool:
        try:
            futures = [pool.submit(make, place, loads) for place in range(number)]
            for future in _as_they_end(futures):
                future.result()
                done += 1
                if progress is not None:
                    progress(f"loading the partitions: {done} of {number}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            loads.stop()
            raise
    return [future.result() for future in futures]


def load_one(options: Stoppable, make: Callable[[], Made]) -> Made:
    """What ``make`` makes with ``options``, which Ctrl-C ends."""

    def begun(place: int, loads: Loads) -> Made:
        del place
        loads.begin(options)
        return make()

    return load_all(1, begun)[0]


def _as_they_end(futures: list[Future[Made]]) -> Iterator[Future[Made]]:
    left = set(futures)
    while left:
        ended, left = wait(left, timeout=_GLANCE_SECONDS, return_when=FIRST_COMPLETED)
        yield from ended
