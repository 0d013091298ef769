"""In which two parts a partition could run, and what that could save at most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.scores.cut import Cut
from hetpart.partitioner.timeline.schedule import NO_TASK, before_in_lane, critical_tasks

if TYPE_CHECKING:
    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.timeline.op_order import OpOrder
    from hetpart.partitioner.timeline.timed import Timed, Values

Ops = frozenset[int]
_URGENT = 6
"""Values that leave or enter a partition, at which splits of it are tried."""


@dataclass(frozen=True, slots=True)
class Split:
    """A partition in two parts."""

    partition: int
    first: Ops
    """The ops of the first part: none of them needs one of the second."""
    saving: float
    """Seconds; while all lanes keep their orders the run cannot get shorter by more."""

    def of(self, cut: Cut) -> Cut:
        """``cut`` with the second part in a partition of its own, right after the first."""
        first = np.zeros(len(cut.partition), np.bool_)
        first[list(self.first)] = True
        later = (cut.partition > self.partition) | ((cut.partition == self.partition) & ~first)
        devices = np.insert(cut.devices, self.partition, cut.devices[self.partition])
        return Cut((cut.partition + later).astype(np.int32), devices)


@dataclass(frozen=True, slots=True, eq=False)
class Parting:
    """Finds splits of the partitions of one placement."""

    problem: PlacementProblem
    placement: Placement
    order: OpOrder

    def splits(self, timed: Timed) -> list[Split]:
        """Of the partitions that the end of the run waits for: those that could save most first."""
        partition_of = {task: index for index, task in enumerate(timed.found.of_partition.tolist())}
        before = before_in_lane(timed.found.tasks, timed.schedule.order)
        found: dict[tuple[int, Ops], float] = {}
        for task in critical_tasks(timed.found.tasks, timed.schedule):
            if task not in partition_of:
                continue
            idle_from = timed.schedule.end[before[task]] if before[task] != NO_TASK else 0.0
            halves = _Halves(self, timed, partition_of[task], task)
            tried = [*halves.early_copies(), *halves.early_starts(idle_from)]
            for first, saving in tried:
                key = partition_of[task], first
                found[key] = max(found.get(key, 0.0), saving)
        ranked = sorted(found.items(), key=lambda item: (-item[1], item[0][0], sorted(item[0][1])))
        return [Split(*key, saving) for key, saving in ranked if saving > 0]


class _Halves:
    """First parts of one partition, each with what running it first could save."""

    def __init__(self, parting: Parting, timed: Timed, partition: int, task: int) -> None:
        problem, self._timed, self._task = parting.problem, timed, task
        ops = np.flatnonzero(timed.cut.partition == partition)
        self._problem = problem
        self._ops: Ops = frozenset(ops.tolist())
        self._order = parting.order.among(ops)
        spent: list[float] = problem.seconds[parting.placement[ops], ops].tolist()
        self._seconds = dict(zip(ops.tolist(), spent, strict=True))

    def early_copies(self) -> Iterator[tuple[Ops, float]]:
        """First what the values need that are waited for most urgently."""
        urgency = self._timed.urgency[self._task]
        makers = [int(self._problem.value_producer[value]) for value in _ranked(urgency)]
        for number in range(1, len(makers) + 1):
            first = self._order.up_to(makers[:number])
            if len(first) < len(self._ops):
                yield first, self._spent(self._ops - first)

    def early_starts(self, idle_from: float) -> Iterator[tuple[Ops, float]]:
        """First what needs none of the values that arrive last, from when its lane is idle."""
        arrivals = self._timed.arrivals[self._task]
        late: set[int] = set()
        for value in _ranked(arrivals):
            late |= self._order.since(self._readers(value))
            first = self._ops - late
            if not first:
                return
            there = max((when for other, when in arrivals.items() if first & self._readers(other)), default=0.0)
            waited = self._timed.schedule.start[self._task] - max(there, idle_from)
            yield first, min(self._spent(first), waited)

    def _spent(self, ops: Ops) -> float:
        return sum(self._seconds[op] for op in sorted(ops))

    def _readers(self, value: int) -> Ops:
        uses = self._problem.value_uses
        return self._ops.intersection(uses.ops[uses.offsets[value] : uses.offsets[value + 1]].tolist())


def _ranked(values: Values) -> list[int]:
    return sorted(values, key=lambda value: (-values[value], value))[:_URGENT]
