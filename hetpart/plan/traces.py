"""Runs that were written as traces, read back: when every partition and copy of a plan really ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from hetpart.errors import InvalidOptionError
from hetpart.plan.model import Plan
from hetpart.plan.timeline import TaskKind

MEASURED = 1
"""The process in a trace that holds what was measured."""
_HINT = "write one with `hetpart run BUNDLE --trace FILE`"
_MICROSECOND = 1e-6


@dataclass(frozen=True, slots=True)
class MeasuredTask:
    """A partition or a copy of one run."""

    name: str
    kind: TaskKind
    lane: str
    start: float
    """Seconds from the start of the run."""
    seconds: float

    @property
    def end(self) -> float:
        return self.start + self.seconds

    @property
    def is_copy(self) -> bool:
        return self.kind is TaskKind.COPY


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run of a plan, by the starts of its tasks."""

    tasks: tuple[MeasuredTask, ...]
    emulated: bool = False
    """Whether the CPU played the accelerators."""

    @property
    def seconds(self) -> float:
        return max((task.end for task in self.tasks), default=0.0)


class _Event(msgspec.Struct):
    ph: str
    pid: int = 0
    tid: int = 0
    name: str = ""
    cat: str = ""
    ts: float = 0.0
    dur: float = 0.0
    args: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


class _Facts(msgspec.Struct):
    emulated: bool = False


class _Trace(msgspec.Struct):
    events: list[_Event] = msgspec.field(name="traceEvents")
    facts: _Facts = msgspec.field(name="otherData", default_factory=_Facts)


def read_trace(path: Path, plan: Plan) -> MeasuredRun:
    """The run of ``plan`` in the trace at ``path``.

    Raises:
        InvalidOptionError: the file is not there, is no trace of ours, or one of another plan.
    """
    try:
        trace = msgspec.json.decode(path.read_bytes(), type=_Trace)
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror or error}") from error
    except msgspec.DecodeError as error:
        raise _refused(path, f"is no trace: {error}") from error
    tasks = tuple(sorted(_tasks(trace.events), key=lambda task: (task.start, task.lane)))
    _require_own(path, tasks, plan)
    return MeasuredRun(tasks, trace.facts.emulated)


def _tasks(events: Sequence[_Event]) -> Iterator[MeasuredTask]:
    lanes = _lanes(events)
    for event in events:
        known = event.ph == "X" and event.pid == MEASURED and event.cat in tuple(TaskKind) and event.tid in lanes
        if known and isfinite(event.ts) and isfinite(event.dur) and event.dur >= 0:
            start, seconds = event.ts * _MICROSECOND, event.dur * _MICROSECOND
            yield MeasuredTask(event.name, TaskKind(event.cat), lanes[event.tid], start, seconds)


def _lanes(events: Sequence[_Event]) -> Mapping[int, str]:
    named = (event for event in events if event.ph == "M" and event.name == "thread_name" and event.pid == MEASURED)
    return {event.tid: str(event.args.get("name", "")) for event in named}


def _require_own(path: Path, tasks: Sequence[MeasuredTask], plan: Plan) -> None:
    own = {f"partition {partition.id}": partition.device for partition in plan.partitions}
    ran = {task.name: task.lane for task in tasks if task.kind is TaskKind.PARTITION}
    if not ran:
        raise _refused(path, "holds no partition that ran")
    if ran != own:
        raise _refused(path, f"is of another plan: {len(ran):,} partitions ran, and {len(own):,} are planned")


def _refused(path: Path, why: str) -> InvalidOptionError:
    return InvalidOptionError(f"the trace {str(path)!r} {why}", hint=_HINT)
