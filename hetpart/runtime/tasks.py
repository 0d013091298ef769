"""What one run has to do: tasks on lanes, what each waits for, and which values nobody needs after it."""

from __future__ import annotations

from dataclasses import dataclass, field

from hetpart.runtime.events import Action, Copied, Event, Finished, ReleaseBuffer, RunPartition, StartCopy


@dataclass(frozen=True, slots=True)
class Task:
    """A partition to run, or a copy to make."""

    is_copy: bool
    index: int
    """Place of it in ``Plan.partitions`` or ``Plan.transfers``."""
    lane: int
    after: tuple[int, ...] = ()
    """Tasks that end before it starts: those that make what it reads, and those that use the bytes it writes to."""
    reads: tuple[int, ...] = ()
    """Values, by number, that a reference holds in memory. Those that lie in an arena are none of them."""
    makes: tuple[int, ...] = ()
    staged: int = 0
    """Bytes of staging memory that it takes while it runs."""
    seconds: float = 0.0
    """Predicted."""
    rank: int = 0
    """Of the tasks that a lane could start, the lowest goes first."""


@dataclass(frozen=True, slots=True)
class TaskGraph:
    """The tasks of a run by number, each after those it waits for."""

    tasks: tuple[Task, ...]
    lanes: tuple[str, ...]
    kept: frozenset[int] = frozenset()
    """Values that the caller gets: they are not released."""
    fed: frozenset[int] = frozenset()
    """Values that the caller gives."""
    most_staged: int = 0
    """Bytes of staging memory. A copy that takes more goes alone."""
    followers: tuple[tuple[int, ...], ...] = field(init=False)
    """Per task: those that wait for it."""
    readers: tuple[int, ...] = field(init=False)
    """Per value: how many tasks read it."""
    starts: tuple[Action, ...] = field(init=False)
    """Per task, and per value: what is said of it in every run."""
    ends: tuple[Event, ...] = field(init=False)
    releases: tuple[Action, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "followers", _followers(self.tasks))
        object.__setattr__(self, "readers", _readers(self))
        starts = (StartCopy(t) if task.is_copy else RunPartition(t) for t, task in enumerate(self.tasks))
        object.__setattr__(self, "starts", tuple(starts))
        ends = (Copied(t) if task.is_copy else Finished(t) for t, task in enumerate(self.tasks))
        object.__setattr__(self, "ends", tuple(ends))
        object.__setattr__(self, "releases", tuple(map(ReleaseBuffer, range(len(self.readers)))))


def _followers(tasks: tuple[Task, ...]) -> tuple[tuple[int, ...], ...]:
    found: list[list[int]] = [[] for _ in tasks]
    for number, task in enumerate(tasks):
        for first in task.after:
            assert first < number, f"task {number} waits for task {first}, which comes later"
            found[first].append(number)
    return tuple(map(tuple, found))


def _readers(graph: TaskGraph) -> tuple[int, ...]:
    used = [value for task in graph.tasks for value in (*task.reads, *task.makes)]
    counts = [0] * (max((*used, *graph.kept, *graph.fed), default=-1) + 1)
    for task in graph.tasks:
        for value in task.reads:
            counts[value] += 1
    return tuple(counts)
