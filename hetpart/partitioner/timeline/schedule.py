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
    followers: list[list[int]] = [[] for _ in range(len(tasks))]
    for task, own in enumerate(tasks.after):
        for first in own:
            followers[first].append(task)
    missing = [len(own) for own in tasks.after]
    ready: list[list[tuple[float, int]]] = [[] for _ in range(max(tasks.lanes, default=0) + 1)]
    for task in (task for task, number in enumerate(missing) if not number):
        heappush(ready[tasks.lanes[task]], (-priority[task], task))
    running: list[tuple[float, int]] = []
    busy = [False] * len(ready)
    order: list[int] = []
    now = 0.0
    while len(order) < len(tasks):
        for lane, waiting in enumerate(ready):
            if waiting and not busy[lane]:
                task = heappop(waiting)[1]
                order.append(task)
                busy[lane] = True
                heappush(running, (now + tasks.seconds[task], task))
        now, done = heappop(running)
        for task in _ended(running, now, done):
            busy[tasks.lanes[task]] = False
            for then in followers[task]:
                missing[then] -= 1
                if not missing[then]:
                    heappush(ready[tasks.lanes[then]], (-priority[then], then))
    return tuple(order)


def _ended(running: list[tuple[float, int]], now: float, done: int) -> list[int]:
    """``done`` and every other running task that ends ``now``."""
    ended = [done]
    while running and running[0][0] == now:
        ended.append(heappop(running)[1])
    return ended


def critical_tasks(tasks: Tasks, schedule: Schedule) -> list[int]:
    """A chain of tasks without a pause from the start to the end, each waiting for its lane or for another task."""
    if not len(tasks):
        return []
    before = before_in_lane(tasks, schedule.order)
    chain = [max(range(len(tasks)), key=lambda task: (schedule.end[task], -task))]
    while schedule.start[chain[-1]] > 0:
        task = chain[-1]
        ended = (*tasks.after[task], *(before[task : task + 1] if before[task] != NO_TASK else ()))
        chain.append(next(first for first in ended if schedule.end[first] == schedule.start[task]))
    return chain[::-1]


def before_in_lane(tasks: Tasks, order: Sequence[int]) -> list[int]:
    last: dict[int, int] = {}
    before = [NO_TASK] * len(tasks)
    for task in order:
        before[task] = last.get(tasks.lanes[task], NO_TASK)
        last[tasks.lanes[task]] = task
    return before
