"""When everything of a run would happen if every lane worked at its own pace: predicted, and safe at any pace.

A lane does one task at a time, in the order they are listed. A task starts once those it names in ``after`` are done:
whoever keeps to that reads no value before it is there and writes over no byte that is still in use, however long each
task really takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

LEAST_GAIN = 200e-6
"""Seconds: what overlap must save by a plan's figures before a run hands its tasks to threads of their own. That takes
20 µs on cores that are awake, and took 100 to 300 on a virtual machine whose cores had to wake."""


class TaskKind(StrEnum):
    """What a task is."""

    PARTITION = "partition"
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class Task:
    """A partition that runs, or a copy that is made."""

    kind: TaskKind
    index: int
    """Place of it in ``Plan.partitions`` or ``Plan.transfers``."""
    lane: str
    """The device that computes, or the direction that is copied in, written ``cpu->cuda:0``."""
    start: float
    """Seconds from the start of the run."""
    end: float
    after: tuple[int, ...]
    """Places in ``Timeline.tasks``, each before this task's own: those that make what it reads, and those that are done
    then with the bytes it writes to."""

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class LaneUse:
    """How long a lane works in one run."""

    lane: str
    seconds: float
    tasks: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """A run whose lanes work at the same time, beside the same run with everything one after another."""

    seconds: float
    """Overlapped: the last task's end. Like ``Prediction.seconds`` it holds the overhead of every session."""
    serial_seconds: float
    """The same tasks one after another."""
    lower_bound: float
    """No order of these tasks takes less, whatever the memory."""
    finest_bound: float
    """However the ops are cut, on the devices that they are on, no run takes less."""
    critical_path: float
    """Seconds of the longest chain of tasks that wait for each other's values."""
    lanes: tuple[LaneUse, ...]
    """The lanes that have a task, compute before copies."""
    tasks: tuple[Task, ...]
    """By their starts."""

    @property
    def pays(self) -> bool:
        """Whether a run overlaps unless it is told not to."""
        return self.serial_seconds - self.seconds >= LEAST_GAIN

    @property
    def busiest_lane(self) -> LaneUse | None:
        """``None`` where there is nothing to do."""
        return max(self.lanes, key=lambda use: use.seconds, default=None)
