"""Lines for ``-v``: what every partition, kernel of the host and call of PyTorch's cost; with ``-vv``, every kernel."""

from __future__ import annotations

import logging
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from hetpart.devices import HOST, Provider
from hetpart.runtime.called import PYTORCH
from hetpart.runtime.profiles import nodes_of
from hetpart.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hetpart.runtime.record import TaskTimes
    from hetpart.runtime.recorded import RecordedSession

LOGGER = logging.getLogger("hetpart.run")
_FUSED = re.compile(r"(?:fused )?(.+?)(?:/\w*Fusion\w*/*)*(?:_token_\d+)?")
"""What ONNX Runtime makes of a node's name where it makes one kernel of several."""
_BLOCKED = re.compile(r"(.+)_nchwc(?:_token_\d+)?")
"""What it makes of the name of a result where the kernel keeps that in blocks of channels."""


def log_run(session: RecordedSession, nodes: Mapping[int, Sequence[dict[str, Any]]]) -> None:
    """A line of every task of the last run, and of every kernel of the host's, at level INFO; of others at DEBUG.

    Args:
        session: It notes what its runs do.
        nodes: Events of kernels by partition, of its last run or an earlier one.
    """
    host, names = session.plan.devices[HOST].device, _Names(session)
    for task in session.times():
        times = f"{format_seconds(task.seconds)}, predicted {format_seconds(task.predicted)}"
        LOGGER.info("%s on %s: %s, %s", task.name, task.lane, _what(task), times)
        for event in nodes_of(task, nodes):
            provider = event["args"].get("provider")
            of_host = task.lane == host or (provider == Provider.CPU and not session.emulate)
            level = logging.INFO if of_host or provider == PYTORCH else logging.DEBUG
            told = names.told(task.index, event["name"].removesuffix("_kernel_time"), event["args"].get("op_name"))
            LOGGER.log(level, "  %s by %s costs %.0f us", told, provider, event["dur"])


def _what(task: TaskTimes) -> str:
    if task.is_copy:
        return format_bytes(task.details["bytes"])
    return f"{format_count(task.details['ops'], 'op')} from {task.details['first']!r} to {task.details['last']!r}"


class _Names:
    """Of kernels: the plan's."""

    def __init__(self, session: RecordedSession) -> None:
        self._decisions = {decision.op: decision for decision in session.plan.decisions}
        self._makers = cache(session.makers)

    def told(self, partition: int, name: str, kernel: str) -> str:
        """The op, its kernel, and the module that it is of; ONNX Runtime's name of a kernel that is its own."""
        decision = self._decisions.get(name) or self._decisions.get(self._op(partition, name))
        if decision is None:
            return f"{name} ({kernel})"
        scope = f" in {decision.scope}" if decision.scope and decision.scope not in decision.op else ""
        return f"{decision.op} ({kernel}{scope})"

    def _op(self, partition: int, name: str) -> str:
        """The op that a kernel of several, or one that computes in blocks, is named after."""
        blocked, fused = _BLOCKED.fullmatch(name), _FUSED.fullmatch(name)
        if blocked:
            return self._makers(partition).get(blocked[1], "")
        return fused[1] if fused else ""
