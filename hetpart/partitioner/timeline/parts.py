"""In which two parts a partition could run, and what that could save at most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.scores.cut import Cut
from hetpart.partitioner.timeline.passed_on import PassedOn
from hetpart.partitioner.timeline.schedule import NO_TASK, before_in_lane, critical_tasks

if TYPE_CHECKING:
    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.timeline.op_order import OpOrder
    from hetpart.partitioner.timeline.timed import Timed, Values

Ops = frozenset[int]
_URGENT = 6
"""Values that leave or enter a partition, at which splits of it are tried."""
LEAST_SHARE = 1e-3
"""Of the latency, that a split must save whatever it costs."""


@dataclass(frozen=True, slots=True)
class Split:
    """Partitions in two parts each."""

    firsts: tuple[tuple[int, Ops], ...]
    """Partitions, ascending, each with the ops of its first part: none of them needs one of the second."""
    saving: float
    """Seconds; while all lanes keep their orders the run cannot get shorter by more."""

    def of(self, cut: Cut) -> Cut:
        """``cut`` with every second part in a partition of its own, right after the first."""
        for partition, ops in reversed(self.firsts):
            cut = _parted(cut, partition, ops)
        return cut


def _parted(cut: Cut, partition: int, ops: Ops) -> Cut:
    first = np.zeros(len(cut.partition), np.bool_)
    first[list(ops)] = True
    later = (cut.partition > partition) | ((cut.partition == partition) & ~first)
    devices = np.insert(cut.devices, partition, cut.devices[partition])
    return Cut((cut.partition + later).astype(np.int32), devices)


@dataclass(frozen=True, slots=True, eq=False)
class Parting:
    """Finds splits of the partitions of one placement."""

    problem: PlacementProblem
    placement: Placement
    order: OpOrder

    @property
    def passed_on(self) -> PassedOn:
        return PassedOn(self.problem, self.order)

    def splits(self, timed: Timed) -> list[Split]:
        """Of the partitions that the end of the run waits for: those that could save most first."""
        partition_of = {task: index for index, task in enumerate(timed.found.of_partition.tolist())}
        before = before_in_lane(timed.found.tasks, timed.schedule.order)
        found: dict[tuple[tuple[int, Ops], ...], float] = {}
        for task in critical_tasks(timed.found.tasks, timed.schedule):
            if task not in partition_of:
                continue
            idle_from = timed.schedule.end[before[task]] if before[task] != NO_TASK else 0.0
            own = partition_of[task]
            halves = _Halves(self, timed, own, task)
            early = [(((own, first),), saving) for first, saving in halves.early_copies()]
            early += [(self.passed_on.followed(timed.cut, own, first), saving) for ((_, first),), saving in early]
            early += [(((own, first),), saving) for first, saving in halves.early_starts(idle_from)]
            for firsts, saving in early:
                found[firsts] = max(found.get(firsts, 0.0), saving)
        ranked = sorted(found.items(), key=lambda item: (-item[1], [(one, sorted(ops)) for one, ops in item[0]]))
        return [Split(*item) for item in ranked if item[1] > 0]


class _Halves:
    """First parts of one partition, each with what running it first could save."""

    def __init__(self, parting: Parting, timed: Timed, partition: int, task: int) -> None:
        problem, self._timed, self._task = parting.problem, timed, task
        ops = np.flatnonzero(timed.cut.partition == partition)
        self._problem = problem
        self._little = LEAST_SHARE * timed.seconds
        self._urgency = parting.passed_on.urgency(timed, partition)
        self._ops: Ops = frozenset(ops.tolist())
        self._order = parting.order.among(ops)
        spent: list[float] = problem.seconds[parting.placement[ops], ops].tolist()
        self._seconds = dict(zip(ops.tolist(), spent, strict=True))

    def early_copies(self) -> Iterator[tuple[Ops, float]]:
        """First what the values need that are waited for most urgently."""
        makers = [int(self._problem.value_producer[value]) for value in _ranked(self._urgency)[:_URGENT]]
        for number in range(1, len(makers) + 1):
            first = self._joined(self._order.up_to(makers[:number]), self._urgency)
            if len(first) < len(self._ops):
                yield first, self._spent(self._ops - first)

    def _joined(self, first: Ops, handed: Values) -> Ops:
        """``first``, and what of ``handed`` is made of it in next to no time: who waits for that waits for no more."""
        left = self._little
        for value in _ranked(handed):
            more = self._order.up_to([int(self._problem.value_producer[value])]) - first
            if (spent := self._spent(more)) <= left:
                first, left = first | more, left - spent
        return first

    def early_starts(self, idle_from: float) -> Iterator[tuple[Ops, float]]:
        """First what needs none of the values that arrive last, from when its lane is idle: the best of all moments."""
        found = sorted(self._starts(idle_from), key=lambda start: -start[1])
        yield from found[:_URGENT]

    def _starts(self, idle_from: float) -> Iterator[tuple[Ops, float]]:
        arrivals = self._timed.arrivals[self._task]
        first, begin = self._ops, self._timed.schedule.start[self._task]
        for _, together in groupby(_ranked(arrivals), key=arrivals.__getitem__):
            late = [self._readers(value) for value in together]
            first -= self._order.since(frozenset[int]().union(*late))
            there = max((when for other, when in arrivals.items() if first & self._readers(other)), default=0.0)
            if not first or begin <= idle_from:
                return
            yield first, min(self._spent(first), begin - max(there, idle_from))

    def _spent(self, ops: Ops) -> float:
        return sum(self._seconds[op] for op in sorted(ops))

    def _readers(self, value: int) -> Ops:
        uses = self._problem.value_uses
        return self._ops.intersection(uses.ops[uses.offsets[value] : uses.offsets[value + 1]].tolist())


def _ranked(values: Values) -> list[int]:
    return sorted(values, key=lambda value: (-values[value], value))
