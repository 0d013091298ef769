"""When every task starts: lanes that take tasks in a given order, and the orders that lists of priorities give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from hetpart.partitioner.timeline.tasks import Order, Tasks

NO_TASK = -1


@dataclass(frozen=True, slots=True)
class Schedule:
    """Tasks in order of their starts, and when each runs."""

    order: Order
    start: tuple[float, ...]
    end: tuple[float, ...]

    @property
    def seconds(self) -> float:
        return max(self.end, default=0.0)


def in_order(tasks: Tasks, order: Sequence[int]) -> Schedule:
    """Every lane takes its tasks in ``order``, each as soon as the lane and all that it waits for are done."""
    start, end = [0.0] * len(tasks), [0.0] * len(tasks)
    free = [0.0] * (max(tasks.lanes, default=0) + 1)
    for task in order:
        begin = free[tasks.lanes[task]]
        for first in tasks.after[task]:
            begin = max(begin, end[first])
        start[task] = begin
        end[task] = free[tasks.lanes[task]] = begin + tasks.seconds[task]
    place = {task: position for position, task in enumerate(order)}
    by_start = sorted(range(len(tasks)), key=lambda task: (start[task], place[task]))
    return Schedule(tuple(by_start), tuple(start), tuple(end))


def one_by_one(tasks: Tasks) -> float:
    """Seconds where nothing overlaps."""
    return sum(tasks.seconds)


def by_priority(tasks: Tasks, priority: Sequence[float]) -> Order:
    """The order in which lanes that never wait take the tasks that are ready, those of the highest priority first."""
    lanes = _Lanes(tasks, priority)
    while len(lanes.order) < len(tasks):
        lanes.take()
        lanes.end()
    return tuple(lanes.order)


class _Lanes:
    """Lanes at work: what is ready for each, what runs, and what has been taken so far."""

    def __init__(self, tasks: Tasks, priority: Sequence[float]) -> None:
        self.order: list[int] = []
        self._tasks, self._priority = tasks, priority
        self._missing = [len(own) for own in tasks.after]
        self._then: list[list[int]] = [[] for _ in range(len(tasks))]
        for task, own in enumerate(tasks.after):
            for first in own:
                self._then[first].append(task)
        lanes = max(tasks.lanes, default=0) + 1
        self._ready: list[list[tuple[float, int]]] = [[] for _ in range(lanes)]
        self._busy = [False] * lanes
        self._running: list[tuple[float, int]] = []
        self._now = 0.0
        for task, number in enumerate(self._missing):
            if not number:
                self._offer(task)

    def take(self) -> None:
        """Every idle lane takes the first of what is ready for it."""
        for lane, ready in enumerate(self._ready):
            if ready and not self._busy[lane]:
                task = heappop(ready)[1]
                self.order.append(task)
                self._busy[lane] = True
                heappush(self._running, (self._now + self._tasks.seconds[task], task))

    def end(self) -> None:
        """Go on to when the next running task ends; it and all that end then free their lanes."""
        self._now = self._running[0][0]
        while self._running and self._running[0][0] == self._now:
            task = heappop(self._running)[1]
            self._busy[self._tasks.lanes[task]] = False
            for then in self._then[task]:
                self._missing[then] -= 1
                if not self._missing[then]:
                    self._offer(then)

    def _offer(self, task: int) -> None:
        heappush(self._ready[self._tasks.lanes[task]], (-self._priority[task], task))


def critical_chain(tasks: Tasks, schedule: Schedule) -> list[int]:
    """Tasks without a pause from the start to the end, each waiting for its lane or for the one before it."""
    before = before_in_lane(tasks, schedule.order)
    chain = _last(schedule)[:1]
    while chain and schedule.start[chain[-1]] > 0:
        chain.append(_awaited(tasks, schedule, before, chain[-1])[0])
    return chain[::-1]


def critical_tasks(tasks: Tasks, schedule: Schedule) -> list[int]:
    """The tasks of all such chains, the last first."""
    before = before_in_lane(tasks, schedule.order)
    found = dict.fromkeys(_last(schedule))
    waiting = list(found)
    while waiting:
        more = [task for task in _awaited(tasks, schedule, before, waiting.pop()) if task not in found]
        found.update(dict.fromkeys(more))
        waiting += more
    return list(found)


def _last(schedule: Schedule) -> list[int]:
    return [task for task, end in enumerate(schedule.end) if end == schedule.seconds]


def _awaited(tasks: Tasks, schedule: Schedule, before: list[int], task: int) -> list[int]:
    """What ``task`` has waited for to the end: others, or the one before it in its lane."""
    if not schedule.start[task]:
        return []
    ended = {*tasks.after[task], before[task]} - {NO_TASK}
    return sorted(first for first in ended if schedule.end[first] == schedule.start[task])


def before_in_lane(tasks: Tasks, order: Sequence[int]) -> list[int]:
    """Per task: the one that its lane does before it in ``order``, or ``NO_TASK``."""
    last: dict[int, int] = {}
    before = [NO_TASK] * len(tasks)
    for task in order:
        before[task] = last.get(tasks.lanes[task], NO_TASK)
        last[tasks.lanes[task]] = task
    return before
