"""Lines for ``-v``: what every partition cost and where, and every call of PyTorch's; with ``-vv``, every op."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from hetpart.runtime.called import PYTORCH
from hetpart.runtime.profiles import nodes_of
from hetpart.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hetpart.runtime.record import TaskTimes

LOGGER = logging.getLogger("hetpart.run")


def log_run(tasks: Iterable[TaskTimes], nodes: Mapping[int, Sequence[dict[str, Any]]]) -> None:
    """A line of every task and of every call of PyTorch's at level INFO, of every node of ONNX Runtime's at DEBUG."""
    for task in tasks:
        times = f"{format_seconds(task.seconds)}, predicted {format_seconds(task.predicted)}"
        LOGGER.info("%s on %s: %s, %s", task.name, task.lane, _what(task), times)
        for event in nodes_of(task, nodes):
            name, told = event["name"].removesuffix("_kernel_time"), event["args"]
            level = logging.INFO if told.get("provider") == PYTORCH else logging.DEBUG
            where = told.get("op_name"), told.get("provider"), event["dur"]
            LOGGER.log(level, "  %s (%s) by %s costs %.0f us", name, *where)


def _what(task: TaskTimes) -> str:
    if task.is_copy:
        return format_bytes(task.details["bytes"])
    return f"{format_count(task.details['ops'], 'op')} from {task.details['first']!r} to {task.details['last']!r}"
