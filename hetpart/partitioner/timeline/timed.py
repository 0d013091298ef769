"""A cut with what a run of it does and when, and which values every task hands on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.scores.cut import Cut
from hetpart.partitioner.timeline.cut_tasks import CutTasks
from hetpart.partitioner.timeline.schedule import NO_TASK
from hetpart.partitioner.timeline.search import listed

if TYPE_CHECKING:
    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.timeline.schedule import Schedule

Values = dict[int, float]


@dataclass(frozen=True, slots=True, eq=False)
class Timed:
    """A cut and its run, were every value to have bytes of its own."""

    cut: Cut
    found: CutTasks
    schedule: Schedule
    urgency: tuple[Values, ...]
    """Per task: the values that it hands on to other lanes, and the longest chain of tasks that waits for each."""
    arrivals: tuple[Values, ...]
    """Per task: the values that it waits for, and when each is there."""

    @classmethod
    def of(cls, problem: PlacementProblem, placement: Placement, cut: Cut) -> Timed:
        """The run of ``cut`` in the best order that needs no search."""
        found = CutTasks.of(problem, placement, cut)
        schedule = listed(found.tasks)
        return cls(cut, found, schedule, *_handed_on(found, schedule))

    def in_order(self) -> Cut:
        """The cut with its partitions numbered as they begin: one after another, too, what is made is soon used."""
        number = {task: index for index, task in enumerate(self.found.of_partition.tolist())}
        order = np.array([number[task] for task in self.schedule.order if task in number])
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return Cut(place[self.cut.partition].astype(np.int32), self.cut.devices[order])

    @property
    def seconds(self) -> float:
        return self.schedule.seconds


def _handed_on(found: CutTasks, schedule: Schedule) -> tuple[tuple[Values, ...], tuple[Values, ...]]:
    tasks = found.tasks
    urgency: tuple[Values, ...] = tuple({} for _ in range(len(tasks)))
    arrivals: tuple[Values, ...] = tuple({} for _ in range(len(tasks)))
    for value, writer, users in zip(found.held.value.tolist(), found.writer, found.users, strict=True):
        for user in (user for user in users if NO_TASK != writer != user):
            chain = tasks.seconds[user] + tasks.tails[user]
            if tasks.lanes[user] != tasks.lanes[writer]:  # its own lane would wait for the rest of it all the same
                urgency[writer][value] = max(urgency[writer].get(value, 0.0), chain)
            arrivals[user][value] = schedule.end[writer]
    return urgency, arrivals
