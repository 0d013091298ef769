"""What no order of the tasks can be faster than."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from hetpart.partitioner.timeline.tasks import Tasks


def critical_path(tasks: Tasks) -> float:
    """Seconds of the longest chain of tasks that wait for each other."""
    return max([own + tail for own, tail in zip(tasks.seconds, tasks.tails, strict=True)], default=0.0)


def lane_seconds(tasks: Tasks) -> dict[int, float]:
    """How long every lane that has a task works."""
    found: dict[int, float] = {}
    for lane, seconds in zip(tasks.lanes, tasks.seconds, strict=True):
        found[lane] = found.get(lane, 0.0) + seconds
    return found


def lower_bound(tasks: Tasks) -> float:
    """No order takes less. It is at least the critical path and the busiest lane's seconds."""
    heads, tails = _heads(tasks), _heads(tasks.backwards())[::-1]
    chains = [head + own + tail for head, own, tail in zip(heads, tasks.seconds, tails, strict=True)]
    lanes: dict[int, list[int]] = {}
    for task, lane in enumerate(tasks.lanes):
        lanes.setdefault(lane, []).append(task)
    return max([*chains, *(_one_lane(tasks, mine, heads, tails) for mine in lanes.values())], default=0.0)


def _heads(tasks: Tasks) -> list[float]:
    """Seconds before which no task can start: what it waits for has to run, and on one lane one after another."""
    heads: list[float] = []
    for own in tasks.after:
        ends: dict[int, float] = {}
        for first in sorted(own, key=heads.__getitem__):
            lane = tasks.lanes[first]
            ends[lane] = max(ends.get(lane, 0.0), heads[first]) + tasks.seconds[first]
        heads.append(max(ends.values(), default=0.0))
    return heads


def _one_lane(tasks: Tasks, mine: list[int], heads: Sequence[float], tails: Sequence[float]) -> float:
    """The least end of one lane's tasks between their heads and tails, where each may be interrupted.

    Jackson's preemptive schedule: of the tasks whose heads have passed, the one with the longest tail runs. Carlier,
    "The one-machine sequencing problem" (1982).
    """
    coming = sorted(mine, key=heads.__getitem__, reverse=True)
    left = {task: tasks.seconds[task] for task in mine}
    waiting: list[tuple[float, int]] = []
    now = end = 0.0
    while coming or waiting:
        if not waiting:
            now = max(now, heads[coming[-1]])
        while coming and heads[coming[-1]] <= now:
            task = coming.pop()
            heappush(waiting, (-tails[task], task))
        task = waiting[0][1]
        until = min(now + left[task], heads[coming[-1]] if coming else float("inf"))
        left[task] -= until - now
        now = until
        if left[task] <= 0 or not coming or now < heads[coming[-1]]:
            heappop(waiting)
            end = max(end, now + tails[task])
    return end
