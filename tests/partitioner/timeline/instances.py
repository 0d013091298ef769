"""Random tasks on lanes, and what trying every order says of them."""

from __future__ import annotations

import random

from hetpart.partitioner.timeline.tasks import Tasks

SECONDS = (0.0, 1.0, 2.0, 0.7, 3.3)


def random_tasks(seed: int, *, most: int = 8, lanes: int = 4) -> Tasks:
    """Few tasks or many, on few lanes or many, that wait for few others or many."""
    rng = random.Random(seed)
    count, used, density = rng.randint(1, most), rng.randint(1, lanes), rng.choice([0.1, 0.3, 0.6])
    return Tasks(
        tuple(rng.choice(SECONDS) for _ in range(count)),
        tuple(rng.randrange(used) for _ in range(count)),
        tuple(tuple(first for first in range(task) if rng.random() < density) for task in range(count)),
    )


def least_seconds(tasks: Tasks) -> float:
    """The shortest run over all orders in which no task comes before one that it waits for."""
    best = sum(tasks.seconds)

    def go_on(done: frozenset[int], free: dict[int, float], end: dict[int, float]) -> None:
        nonlocal best
        if len(done) == len(tasks):
            best = min(best, max(end.values(), default=0.0))
        for task in range(len(tasks)):
            if task not in done and done.issuperset(tasks.after[task]):
                lane = tasks.lanes[task]
                start = max([free.get(lane, 0.0), *(end[first] for first in tasks.after[task])])
                ended = start + tasks.seconds[task]
                if ended < best:
                    go_on(done | {task}, {**free, lane: ended}, {**end, task: ended})

    go_on(frozenset(), {}, {})
    return best
