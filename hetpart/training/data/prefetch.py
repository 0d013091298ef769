# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Batches made ready by a thread of their own while the step before them runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Any, TypeVar, cast

import numpy as np

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class _Last:
    """Ends the queue: ``error`` is what the batches ended with, if it was not their end."""

    error: BaseException | None


def prefetch(batches: Iterable[Item], ahead: int = 2, kept: Callable[[Item], Item] | None = None) -> Iterator[Item]:
    """The same batches in the same order, up to ``ahead`` of them made before they are asked for.

    The next ones are made while one is used: each has to lie in memory of its own, or ``kept`` is to copy it. An error
    of ``batches`` is raised where its batch would have come. Closing the iterator ends the thread; with ``ahead`` 0
    there is none.
    """
    if ahead < 1:
        yield from batches
        return
    queue: Queue[Item | _Last] = Queue(ahead)
    stop = Event()
    thread = Thread(target=_fill, args=(batches, queue, stop, kept), name="hetpart-prefetch", daemon=True)
    thread.start()
    try:
        while not isinstance(item := queue.get(), _Last):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        stop.set()
        with suppress(Empty):
            while True:
                queue.get_nowait()  # lets a thread that waits for room see that it is to stop
        thread.join()


def _fill(
    batches: Iterable[Item], queue: Queue[Item | _Last], stop: Event, kept: Callable[[Item], Item] | None
) -> None:
    error: BaseException | None = None
    try:
        for batch in batches:
            if not _put(batch if kept is None else kept(batch), queue, stop):
                return
    except BaseException as raised:  # noqa: BLE001 - raised again in the consumer's thread
        error = raised
    _put(_Last(error), queue, stop)


def _put(item: Item | _Last, queue: Queue[Item | _Last], stop: Event) -> bool:
    while not stop.is_set():
        with suppress(Full):
            queue.put(item, timeout=0.1)
            return True
    return False


def copied(batch: Any) -> Any:
    """``batch`` with the tensors and arrays in it in memory of their own: a loader may fill its own again."""
    kind: Any = type(batch)
    if issubclass(kind, dict):
        return {name: copied(part) for name, part in batch.items()}
    if issubclass(kind, tuple | list):
        parts = [copied(part) for part in batch]
        return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
    if isinstance(batch, np.ndarray):
        return np.array(cast("object", batch))
    return batch.detach().clone() if hasattr(batch, "detach") and hasattr(batch, "clone") else batch
