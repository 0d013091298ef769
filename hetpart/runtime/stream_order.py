"""Which task waits for which event, where a device is told its work ahead: pure, from the tasks and their streams.

A task on a stream has been asked for when it ends here, and is done later. Tasks of one stream are done in the order
they were asked for. What of a task's predecessors on other streams is not done for certain, it must wait for: on its
stream, where it has one, so that the host goes on; else on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hetpart.runtime.tasks import TaskGraph


@dataclass(frozen=True, slots=True)
class Waits:
    """What a task waits for before it is asked for."""

    on_stream: tuple[int, ...] = ()
    """Tasks whose events its stream waits for."""
    on_host: tuple[int, ...] = ()
    """Tasks whose events the host waits for."""


@dataclass(frozen=True, slots=True)
class StreamOrder:
    """The waits of every task, and of which tasks there are events."""

    waits: tuple[Waits, ...]
    recorded: frozenset[int]


def stream_order(graph: TaskGraph, streams: Sequence[str | None], settled: frozenset[int]) -> StreamOrder:
    """The fewest waits that keep every task behind those it needs.

    Args:
        graph: The tasks, each after those it waits for.
        streams: Per task: its stream; ``None`` for work of the host, which is done when it ends.
        settled: Tasks on streams that the host waits for itself before they end.
    """
    done = frozenset(task for task, stream in enumerate(streams) if stream is None) | settled
    before = _before(graph)
    waits = tuple(
        _waits(streams, task, [first for first in _last(before, own.after) if first not in done])
        for task, own in enumerate(graph.tasks)
    )
    waited = {first for wait in waits for first in (*wait.on_stream, *wait.on_host)}
    return StreamOrder(waits, frozenset(waited | settled))


def _before(graph: TaskGraph) -> list[int]:
    """Per task: all that is done before it begins, as bits."""
    found: list[int] = []
    for task in graph.tasks:
        bits = 0
        for first in task.after:
            bits |= found[first] | 1 << first
        found.append(bits)
    return found


def _last(before: Sequence[int], tasks: Sequence[int]) -> list[int]:
    """Those of ``tasks`` that no other of them comes after: where these are done, all are."""
    return [task for task in tasks if not any(before[other] >> task & 1 for other in tasks)]


def _waits(streams: Sequence[str | None], task: int, needed: Sequence[int]) -> Waits:
    own = streams[task]
    elsewhere = tuple(first for first in needed if streams[first] != own)
    return Waits(on_host=elsewhere) if own is None else Waits(on_stream=elsewhere)
