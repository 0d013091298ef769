"""Tasks on lanes, as a timeline draws them: what could not be told apart is one stretch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol


class Timed(Protocol):
    """A task, planned or measured. Times are seconds from the start of the run."""

    @property
    def name(self) -> str: ...

    @property
    def lane(self) -> str: ...

    @property
    def is_copy(self) -> bool: ...

    @property
    def start(self) -> float: ...

    @property
    def end(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Stretch:
    """A lane at work without a break that could be seen."""

    start: float
    end: float
    tasks: int
    name: str
    """Of the first task."""


@dataclass(frozen=True, slots=True)
class Lane:
    """What one lane does in a run."""

    name: str
    is_copy: bool
    busy: float
    """Seconds."""
    stretches: tuple[Stretch, ...]

    @property
    def tasks(self) -> int:
        return sum(stretch.tasks for stretch in self.stretches)


def lanes(tasks: Iterable[Timed], apart: float) -> list[Lane]:
    """Every lane, compute before copies. Tasks and breaks of less than ``apart`` seconds are not told apart."""
    by_lane: dict[tuple[bool, str], list[Timed]] = {}
    for task in sorted(tasks, key=lambda task: task.start):
        by_lane.setdefault((task.is_copy, task.lane), []).append(task)
    return [
        Lane(name, is_copy, sum(task.end - task.start for task in own), tuple(_stretches(own, apart)))
        for (is_copy, name), own in sorted(by_lane.items())
    ]


def _stretches(tasks: Sequence[Timed], apart: float) -> Iterator[Stretch]:
    held: list[Timed] = []
    for task in tasks:
        if held and not _blurs(held[-1], task, apart):
            yield _stretch(held)
            held = []
        held.append(task)
    if held:
        yield _stretch(held)


def _blurs(before: Timed, task: Timed, apart: float) -> bool:
    """Whether both tasks and the break between them are too short to be seen."""
    return max(before.end - before.start, task.start - before.end, task.end - task.start) < apart


def _stretch(tasks: Sequence[Timed]) -> Stretch:
    return Stretch(tasks[0].start, max(task.end for task in tasks), len(tasks), tasks[0].name)
