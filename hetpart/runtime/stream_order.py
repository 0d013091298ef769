"""Which task waits for which event, where a device is told its work ahead: pure, from the tasks and their streams.

A task on a stream has been asked for when it ends here, and is done later; tasks of one stream are done in the order
they were asked for. What of a task's predecessors on other streams is not done for certain, its stream waits for. The
host waits for none: what a task on a stream reads or makes on the host is read or made when the task ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hetpart.runtime.tasks import TaskGraph


@dataclass(frozen=True, slots=True)
class StreamOrder:
    """What waits for what on a device."""

    waits: tuple[tuple[int, ...], ...]
    """Per task: those whose events its stream waits for before it is asked for the task."""
    recorded: frozenset[int]
    """Tasks that there are events of."""


def stream_order(graph: TaskGraph, streams: Sequence[str | None], settled: frozenset[int]) -> StreamOrder:
    """The waits that keep every task of a stream behind those it needs, but for those that a predecessor implies.

    Args:
        graph: The tasks, each after those it waits for.
        streams: Per task: its stream; ``None`` for work of the host, which is done when it ends.
        settled: Tasks on streams that the host waits for itself before they end.
    """
    done = frozenset(task for task, stream in enumerate(streams) if stream is None) | settled
    before = _before(graph, streams, done)
    waits = tuple(
        tuple(first for first in _last(before, own.after) if first not in done and streams[first] != streams[task])
        if streams[task] is not None
        else ()
        for task, own in enumerate(graph.tasks)
    )
    return StreamOrder(waits, settled.union(*waits))


def _before(graph: TaskGraph, streams: Sequence[str | None], done: frozenset[int]) -> list[int]:
    """Per task: all that is done for certain before it starts, as bits."""
    found: list[int] = []
    asked: list[int] = []
    """Per task: all that was asked for before it is."""
    for task, own in enumerate(graph.tasks):
        stream, earlier = streams[task], _united(asked, own.after)
        asked.append(earlier)
        certain = [first for first in own.after if stream is not None or first in done]
        if stream is not None:
            certain += [first for first in range(task) if earlier >> first & 1 and streams[first] == stream]
        found.append(_united(found, certain))
    return found


def _united(bits: Sequence[int], tasks: Sequence[int]) -> int:
    """The bits of all ``tasks``, and of these themselves."""
    united = 0
    for task in tasks:
        united |= bits[task] | 1 << task
    return united


def _last(before: Sequence[int], tasks: Sequence[int]) -> list[int]:
    """Those of ``tasks`` that no other of them comes after: where these are done, all are."""
    return [task for task in tasks if not any(before[other] >> task & 1 for other in tasks)]
