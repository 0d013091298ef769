"""When each value between partitions is held in a run whose lanes work at the same time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.timeline.schedule import NO_TASK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.timeline.cut_tasks import CutTasks
    from hetpart.partitioner.timeline.schedule import Schedule


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Per row of the liveness of a run, in serial order and on the timeline."""

    devices: frozenset[int]
    """Those with room for the timeline too."""
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    """Steps of the serial order, both inclusive."""
    begin: NDArray[np.float64]
    end: NDArray[np.float64]
    """Seconds."""
    begin_place: NDArray[np.int64]
    end_place: NDArray[np.int64]
    """Places among the tasks by their starts: of the one that writes the value and of the last to use it."""

    @classmethod
    def of(cls, devices: frozenset[int], found: CutTasks, schedule: Schedule) -> Spans:
        """Of every row of ``found.held`` when tasks run as in ``schedule``."""
        place = {task: position for position, task in enumerate(schedule.order)}
        place[NO_TASK] = NO_TASK
        start = {task: schedule.start[task] for task in schedule.order} | {NO_TASK: 0.0}
        return cls(
            devices,
            found.held.first,
            found.held.last,
            np.array([start[writer] for writer in found.writer], np.float64),
            np.array([max((schedule.end[user] for user in users), default=0.0) for users in found.users], np.float64),
            np.array([place[writer] for writer in found.writer], np.int64),
            np.array([max((place[user] for user in users), default=NO_TASK) for users in found.users], np.int64),
        )

    def met(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(R, R) Pairs of ``rows`` that may be held at once in one of the two, or that change places between them."""
        before = self.last[rows][:, None] < self.first[rows][None, :]
        before &= self.end[rows][:, None] <= self.begin[rows][None, :]
        before &= self.end_place[rows][:, None] < self.begin_place[rows][None, :]
        return ~(before | before.T)
