"""Events of Chrome's trace format, which Perfetto opens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Event = dict[str, Any]


def named(processes: Mapping[int, str], threads: Mapping[str, int]) -> Iterator[Event]:
    """Names of processes, which stand in the order of their numbers, and of the lanes in each of them."""
    for process, name in processes.items():
        yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": process, "args": {"sort_index": process}}
        for lane, thread in threads.items():
            yield {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": lane}}


def slice_event(process: int, thread: int, name: str, begin: float, seconds: float, kind: str) -> Event:
    """A task from ``begin`` on, in seconds."""
    return {
        "ph": "X", "pid": process, "tid": thread, "name": name, "cat": kind, "ts": 1e6 * begin, "dur": 1e6 * seconds,
    }  # fmt: skip
