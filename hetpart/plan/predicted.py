"""A run as a plan predicts it: every task with its times, what it reads and what it makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hetpart.devices import HOST
from hetpart.plan.model import Partition, Plan
from hetpart.plan.timeline import TaskKind

Place = tuple[str, str]
"""A value and the device it lies on."""
_Step = tuple[TaskKind, int, float, float]
"""Kind, place in the plan, start and end of a task."""


@dataclass(frozen=True, slots=True)
class PredictedTask:
    """A partition that runs, or a copy that is made."""

    kind: TaskKind
    index: int
    """Place of it in ``Plan.partitions`` or ``Plan.transfers``."""
    name: str
    lane: str
    """The device that computes, or the direction that is copied in, written ``cpu->cuda:0``."""
    start: float
    """Seconds from the start of the run."""
    end: float
    reads: tuple[Place, ...]
    makes: tuple[Place, ...]

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def is_copy(self) -> bool:
        return self.kind is TaskKind.COPY


@dataclass(frozen=True, slots=True)
class PredictedRun:
    """All tasks of one run."""

    overlapped: bool
    """Whether lanes work at the same time."""
    seconds: float
    lanes: tuple[str, ...]
    """Those with a task: devices in the plan's order, then directions of copies."""
    tasks: tuple[PredictedTask, ...]
    """By their starts."""


def predicted_run(plan: Plan, *, overlapped: bool | None = None) -> PredictedRun:
    """What a run of ``plan`` does and when; overlapped, or one task after another, or by default as a run would be.

    A plan of revision 0, which has no timeline, runs one task after another.
    """
    timeline = plan.timeline
    if timeline is None or not (timeline.pays if overlapped is None else overlapped):
        return _run(plan, list(_one_by_one(plan)), overlapped=False)
    steps = [(task.kind, task.index, task.start, task.end) for task in timeline.tasks]
    return _run(plan, steps, overlapped=True)


def _run(plan: Plan, steps: list[_Step], *, overlapped: bool) -> PredictedRun:
    tasks = tuple(_task(plan, *step) for step in steps)
    present = {task.lane for task in tasks}
    devices = [use.device for use in plan.devices if use.device in present]
    lanes = (*devices, *sorted(present.difference(devices)))
    return PredictedRun(overlapped, max((task.end for task in tasks), default=0.0), lanes, tasks)


def _one_by_one(plan: Plan) -> Iterator[_Step]:
    """Partitions in their order, each after the copies that are done before it."""
    seconds, clock = _seconds(plan), 0.0
    copies = sorted(enumerate(plan.transfers), key=lambda row: row[1].step)  # stable: copies to the host stay first
    waiting = [index for index, _ in reversed(copies)]
    for step in range(len(plan.partitions) + 1):
        ready: list[tuple[TaskKind, int]] = []
        while waiting and plan.transfers[waiting[-1]].step <= step:
            ready.append((TaskKind.COPY, waiting.pop()))
        if step < len(plan.partitions):
            ready.append((TaskKind.PARTITION, step))
        for kind, index in ready:
            end = clock + seconds[kind, index]
            yield kind, index, clock, end
            clock = end


def _seconds(plan: Plan) -> dict[tuple[TaskKind, int], float]:
    """How long each task takes, its session's overhead with it."""
    if plan.timeline is not None:
        return {(task.kind, task.index): task.seconds for task in plan.timeline.tasks}
    overhead = plan.prediction.session_seconds / len(plan.partitions) if plan.partitions else 0.0
    found = {(TaskKind.PARTITION, index): part.seconds + overhead for index, part in enumerate(plan.partitions)}
    return found | {(TaskKind.COPY, index): copy.seconds for index, copy in enumerate(plan.transfers)}


def _task(plan: Plan, kind: TaskKind, index: int, start: float, end: float) -> PredictedTask:
    makes, reads = touched(plan, kind, index)
    if kind is TaskKind.COPY:
        copy = plan.transfers[index]
        name, lane = f"copy {copy.value}", f"{copy.source}->{copy.target}"
    else:
        part = plan.partitions[index]
        name, lane = f"partition {part.id}", part.device
    return PredictedTask(kind, index, name, lane, start, end, reads, makes)


def touched(plan: Plan, kind: TaskKind, index: int) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
    """Places that a task writes, and places that it reads."""
    if kind is TaskKind.COPY:
        copy = plan.transfers[index]
        return ((copy.value, copy.target),), ((copy.value, copy.source),)
    partition, host = plan.partitions[index], plan.devices[HOST].device
    return (
        _places(partition, partition.outputs, partition.host_outputs, host),
        _places(partition, partition.inputs, partition.host_inputs, host),
    )


def _places(partition: Partition, names: tuple[str, ...], on_host: tuple[str, ...], host: str) -> tuple[Place, ...]:
    there = frozenset(on_host)
    return tuple((name, host if name in there else partition.device) for name in names)
