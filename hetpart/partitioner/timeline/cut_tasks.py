"""The tasks of one run of a cut placement: every partition, and every copy of a value to a device that reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import HOST
from hetpart.partitioner.problem import NO_OP
from hetpart.partitioner.scores.liveness import Buffers, buffers, crossing_values
from hetpart.partitioner.timeline.schedule import NO_TASK
from hetpart.partitioner.timeline.tasks import Tasks
from hetpart.partitioner.uses import unique_pairs, use_devices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.scores.cut import Cut


@dataclass(frozen=True, slots=True, eq=False)
class CutTasks:
    """Tasks in the serial order of a plan: before each partition the copies that it waits for."""

    tasks: Tasks
    """Devices are the first lanes, in their order; lane ``D + D·s + t`` copies from device ``s`` to ``t``."""
    held: Buffers
    copies: NDArray[np.int64]
    """(C,) Rows of ``held`` that a copy fills, in serial order."""
    of_copy: NDArray[np.int64]
    """(C,) The task of each."""
    of_partition: NDArray[np.int64]
    """(P,) The task that runs each partition."""
    writer: tuple[int, ...]
    """Per row of ``held``: the task that writes it; ``NO_TASK`` for what the caller gives."""
    users: tuple[tuple[int, ...], ...]
    """Per row of ``held``: the tasks that write or read it, none twice."""

    @classmethod
    def of(cls, problem: PlacementProblem, placement: Placement, cut: Cut, held: Buffers | None = None) -> CutTasks:
        """The tasks of ``cut``; ``held`` are its buffers where they are known."""
        return _Tasking(problem, placement, cut, held).done()


class _Tasking:
    def __init__(self, problem: PlacementProblem, placement: Placement, cut: Cut, held: Buffers | None) -> None:
        self.problem, self.placement, self.cut = problem, placement, cut
        self.held = buffers(problem, placement, cut, crossing_values(problem, cut)) if held is None else held
        self.home = problem.home(placement)
        self.copies = self._copies()
        self.of_copy, self.of_partition = self._numbered()
        self.row_at = np.full((len(problem.devices), problem.values), -1, np.int64)
        self.row_at[self.held.device, self.held.value] = np.arange(len(self.held.value))
        self.task_of_row = self._task_of_row()

    def done(self) -> CutTasks:
        readers, read = self._reads()
        users, used = unique_pairs(
            np.concatenate([read, self._copied_from(), self._written()]),
            np.concatenate([readers, self.of_copy, self.task_of_row[self._written()]]),
        )
        makers = self.task_of_row
        made = makers[read] != NO_TASK
        source = makers[self._copied_from()]
        copied = source != NO_TASK
        then, first = unique_pairs(
            np.concatenate([readers[made], self.of_copy[copied]]),
            np.concatenate([makers[read[made]], source[copied]]),
        )
        count = len(self.of_copy) + len(self.of_partition)
        tasks = Tasks(*self._work(count), _rows(then, first, count))
        return CutTasks(
            tasks, self.held, self.copies, self.of_copy, self.of_partition,
            tuple(makers.tolist()), _rows(users, used, len(makers)),
        )  # fmt: skip

    def _copies(self) -> NDArray[np.int64]:
        held = self.held
        rows = np.flatnonzero(held.device != self.home[held.value])
        return rows[np.lexsort((held.device[rows] != HOST, held.first[rows]))]

    def _numbered(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The task of every copy and of every partition: a copy comes before the partition of its step."""
        copies = len(self.copies)
        steps = np.concatenate([self.held.first[self.copies], np.arange(self.cut.partitions)])
        order = np.argsort(steps, kind="stable")
        task = np.empty(len(order), np.int64)
        task[order] = np.arange(len(order))
        return task[:copies], task[copies:]

    def _task_of_row(self) -> NDArray[np.int64]:
        """Per row of ``held``: the copy that fills it, or the partition that makes the value."""
        producer = self.problem.value_producer[self.held.value]
        task = np.full(len(producer), NO_TASK, np.int64)
        made = producer != NO_OP
        task[made] = self.of_partition[self.cut.partition[producer[made]]]
        task[self.copies] = self.of_copy
        return task

    def _written(self) -> NDArray[np.int64]:
        return np.flatnonzero(self.task_of_row != NO_TASK)

    def _copied_from(self) -> NDArray[np.int64]:
        """Per copy: the row it reads."""
        value = self.held.value[self.copies]
        return self.row_at[self.home[value], value]

    def _reads(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(task, row of ``held``) for every read of a partition from outside."""
        uses, problem = self.problem.value_uses, self.problem
        partition, producer = self.cut.partition[uses.ops], problem.value_producer[uses.rows]
        outside = producer == NO_OP
        outside |= self.cut.partition[producer] != partition
        device = use_devices(uses, self.placement)
        return self.of_partition[partition[outside]], self.row_at[device[outside], uses.rows[outside]]

    def _work(self, count: int) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Seconds and lane of every task."""
        devices = len(self.problem.devices)
        seconds, lanes = np.zeros(count), np.zeros(count, np.int64)
        lanes[self.of_partition] = self.cut.devices
        seconds[self.of_partition] = self._partition_seconds()
        value, target = self.held.value[self.copies], self.held.device[self.copies]
        source = self.home[value].astype(np.int64)
        lanes[self.of_copy] = devices + devices * source + target
        seconds[self.of_copy] = self.problem.copy_seconds[source, target, value]
        return tuple(seconds.tolist()), tuple(lanes.tolist())

    def _partition_seconds(self) -> NDArray[np.float64]:
        """Its ops, its session's overhead, and the copies that its session makes for kernels of its own."""
        problem, cut = self.problem, self.cut
        spent = problem.seconds[self.placement, np.arange(problem.ops)]
        seconds = np.bincount(cut.partition, spent, cut.partitions) + problem.session_seconds[cut.devices]
        within = problem.copies(self.placement)
        within[self.held.device[self.copies], self.held.value[self.copies]] = False
        target, value = np.nonzero(within)
        maker = cut.partition[problem.value_producer[value]]
        return seconds + np.bincount(maker, problem.copy_seconds[self.home[value], target, value], cut.partitions)


def _rows(of: NDArray[np.int64], items: NDArray[np.int64], count: int) -> tuple[tuple[int, ...], ...]:
    """``items`` of every number below ``count`` that ``of``, which ascends, gives them to."""
    ends = np.searchsorted(of, np.arange(count + 1))
    flat: list[int] = items.tolist()
    return tuple(tuple(flat[a:b]) for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))


def lane_names(devices: tuple[str, ...]) -> tuple[str, ...]:
    """Of every lane: the device's, or both ends of the link."""
    return (*devices, *(f"{source}->{target}" for source in devices for target in devices))
