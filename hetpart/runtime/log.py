"""Lines for ``-v``: which partition ran where and what it cost, and with ``-vv`` every op."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from hetpart.runtime.profiles import nodes_of
from hetpart.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hetpart.runtime.record import TaskTimes

LOGGER = logging.getLogger("hetpart.run")


def log_run(tasks: Iterable[TaskTimes], nodes: Mapping[int, Sequence[dict[str, Any]]]) -> None:
    """A line of every task at level INFO, one of every node that ONNX Runtime timed in it at DEBUG."""
    for task in tasks:
        times = f"{format_seconds(task.seconds)}, predicted {format_seconds(task.predicted)}"
        LOGGER.info("%s on %s: %s, %s", task.name, task.lane, _what(task), times)
        for event in nodes_of(task, nodes):
            name, told = event["name"].removesuffix("_kernel_time"), event["args"]
            seconds = format_seconds(event["dur"] / 1e6)
            LOGGER.debug("  %s (%s) on %s: %s", name, told.get("op_name"), told.get("provider"), seconds)


def _what(task: TaskTimes) -> str:
    if task.is_copy:
        return format_bytes(task.details["bytes"])
    return f"{format_count(task.details['ops'], 'op')} from {task.details['first']!r} to {task.details['last']!r}"
