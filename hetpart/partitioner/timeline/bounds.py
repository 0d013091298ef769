"""What no order of the tasks can be faster than."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from hetpart.partitioner.timeline.tasks import Tasks


def critical_path(tasks: Tasks) -> float:
    """Seconds of the longest chain of tasks that wait for each other."""
    return max((head + own + tail for head, own, tail in zip(tasks.heads, tasks.seconds, tasks.tails, strict=True)),
               default=0.0)  # fmt: skip


def lane_seconds(tasks: Tasks) -> dict[int, float]:
    """How long every lane that has a task works."""
    found: dict[int, float] = {}
    for lane, seconds in zip(tasks.lanes, tasks.seconds, strict=True):
        found[lane] = found.get(lane, 0.0) + seconds
    return found


def lower_bound(tasks: Tasks) -> float:
    """No order takes less: the longest chain, and what every lane alone would need between its heads and tails."""
    lanes = (_lane_bound(tasks, lane) for lane in sorted(set(tasks.lanes)))
    return max([critical_path(tasks), *lanes], default=0.0)


def _lane_bound(tasks: Tasks, lane: int) -> float:
    """The least end of one lane's tasks where each may be interrupted.

    Jackson's preemptive schedule: of the tasks whose heads have passed the one with the longest tail runs. It is at
    least the lane's work, after its shortest head and before its shortest tail. Carlier, "The one-machine sequencing
    problem" (1982).
    """
    mine = sorted((task for task, own in enumerate(tasks.lanes) if own == lane), key=tasks.heads.__getitem__)
    left = {task: tasks.seconds[task] for task in mine}
    waiting: list[tuple[float, int]] = []
    heapify(waiting)
    now = end = 0.0
    arrived = 0
    while arrived < len(mine) or waiting:
        if not waiting:
            now = max(now, tasks.heads[mine[arrived]])
        while arrived < len(mine) and tasks.heads[mine[arrived]] <= now:
            heappush(waiting, (-tasks.tails[mine[arrived]], mine[arrived]))
            arrived += 1
        task = waiting[0][1]
        until = tasks.heads[mine[arrived]] if arrived < len(mine) else float("inf")
        if now + left[task] <= until:
            now += left[task]
            heappop(waiting)
            end = max(end, now + tasks.tails[task])
        else:
            left[task] -= until - now
            now = until
    return end
