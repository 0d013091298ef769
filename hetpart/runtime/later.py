"""Runs that the caller does not wait for."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any

from hetpart.errors import HetpartError

if TYPE_CHECKING:
    from collections.abc import Callable

    Callback = Callable[[list[Any], Any, str], None]
    """Called with the results, what the caller gave, and what went wrong: ``""`` where nothing did."""


class LaterRuns:
    """Threads that make runs and tell of them. There are none before the first run.

    Args:
        at_once: Runs at the same time.
    """

    def __init__(self, at_once: int) -> None:
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="hetpart run_async")

    def begin(self, run: Callable[[], list[Any]], callback: Callback, user_data: Any) -> None:
        """Return at once; when ``run`` has ended its thread calls ``callback``. What that raises is logged."""
        told = Event()
        future = self._pool.submit(_run_after, told, run)
        future.add_done_callback(partial(_tell, callback, user_data))
        told.set()

    def close(self) -> None:
        """Wait until every run has been told of."""
        self._pool.shutdown(wait=True)


def _run_after(told: Event, run: Callable[[], list[Any]]) -> list[Any]:
    """A run that ends before it is known whom to tell would be told of in the caller's thread."""
    told.wait()
    return run()


def _tell(callback: Callback, user_data: Any, ended: Future[list[Any]]) -> None:
    error = ended.exception()
    if error is None:
        callback(ended.result(), user_data, "")
    else:
        callback([], user_data, error.message if isinstance(error, HetpartError) else str(error))
