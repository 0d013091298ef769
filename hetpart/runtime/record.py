"""What a run did and when: every task with the thread's time at its begin and end."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hetpart.runtime.frame import Frame, Layout, Place
    from hetpart.runtime.tasks import TaskGraph


@dataclass(frozen=True, slots=True)
class Done:
    """A task of a run, by its number in the task graph. Seconds of ``perf_counter``."""

    task: int
    begin: float
    end: float


@dataclass(slots=True)
class RunRecord:
    """The last run."""

    begin: float = 0.0
    end: float = 0.0
    done: list[Done] = field(default_factory=list[Done])

    def start(self) -> None:
        """Forget the run before."""
        self.done = []
        self.begin = perf_counter()

    def watched(self, do: Callable[[int], None], frame: Frame) -> Callable[[int], None]:
        """``do``, which makes the task of a number in ``frame``, and notes when. Several threads may call it."""
        del frame

        def noted(task: int) -> None:
            begin = perf_counter()
            do(task)
            self.done.append(Done(task, begin, perf_counter()))

        return noted


@dataclass(frozen=True, slots=True)
class TaskTimes:
    """A task of the plan with its times."""

    name: str
    lane: str
    is_copy: bool
    index: int
    """Place of it in ``Plan.partitions`` or ``Plan.transfers``."""
    begin: float
    end: float
    predicted: float
    """Seconds that it was to take."""
    predicted_begin: float
    """Seconds from the start of the run, at the pace that was predicted."""
    reads: tuple[Place, ...]
    makes: tuple[Place, ...]
    details: dict[str, Any]

    @property
    def seconds(self) -> float:
        return self.end - self.begin


def told(layout: Layout, graph: TaskGraph, begins: Sequence[float], record: RunRecord) -> list[TaskTimes]:
    """The tasks of ``record`` by their begins; ``begins`` are the predicted ones of all in ``graph``."""
    found = (_told(layout, graph, begins[done.task], done) for done in record.done)
    return sorted(found, key=lambda task: task.begin)


def _told(layout: Layout, graph: TaskGraph, predicted_begin: float, done: Done) -> TaskTimes:
    plan, task = layout.plan, graph.tasks[done.task]
    if task.is_copy:
        copy = plan.transfers[task.index]
        places = ((copy.value, copy.source),), ((copy.value, copy.target),)
        details: dict[str, Any] = {"value": copy.value, "bytes": copy.nbytes}
        name, record = f"copy {copy.value}", copy
    else:
        part = plan.partitions[task.index]
        reads = tuple(layout.place(part, value) for value in part.inputs)
        places = reads, tuple(layout.place(part, value) for value in part.outputs)
        details = {"ops": len(part.ops), "first": part.ops[0], "last": part.ops[-1]}
        name, record = f"partition {part.id}", part
    return TaskTimes(
        name,
        graph.lanes[task.lane],
        task.is_copy,
        task.index,
        done.begin,
        done.end,
        layout.seconds(record),
        predicted_begin,
        *places,
        details,
    )
