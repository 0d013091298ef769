"""A good order of the tasks: lists of priorities, forwards and backwards, then swaps on the critical chain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from hetpart.partitioner.timeline.bounds import lower_bound
from hetpart.partitioner.timeline.schedule import Schedule, by_priority, critical_chain, in_order
from hetpart.partitioner.timeline.tasks import Order, Tasks

EFFORT = 50_000
"""Tasks visited while orders are compared: what bounds the time, and does so alike on every machine."""
_CLOSE = 1e-9
"""Relative: what is this close to a bound has reached it."""


def listed(tasks: Tasks, known: Iterable[Order] = ()) -> Schedule:
    """The best of the orders that need no search: as the tasks are numbered, by urgency, and those ``known``."""
    urgency = [own + tail for own, tail in zip(tasks.seconds, tasks.tails, strict=True)]
    orders: list[Order] = [tuple(range(len(tasks))), by_priority(tasks, urgency), _from_the_end(tasks), *known]
    return min((in_order(tasks, order) for order in orders), key=lambda found: found.seconds)


def _from_the_end(tasks: Tasks) -> Order:
    """As lanes would take the tasks of the run played backwards."""
    backwards, last = tasks.backwards(), len(tasks) - 1
    urgency = [own + tail for own, tail in zip(backwards.seconds, backwards.tails, strict=True)]
    return tuple(last - task for task in reversed(by_priority(backwards, urgency)))


def best_schedule(tasks: Tasks, known: Iterable[Order] = (), effort: int = EFFORT) -> Schedule:
    """The best found, never worse than the tasks in the order of their numbers nor than those ``known``."""
    best, least = listed(tasks, known), lower_bound(tasks)
    visits = effort
    better: Schedule | None = best
    while better is not None and better.seconds > least * (1 + _CLOSE):
        best, better = better, None
        for order in _neighbours(tasks, best):
            visits -= len(tasks)
            if visits < 0:
                return best
            found = in_order(tasks, order)
            if found.seconds < best.seconds * (1 - _CLOSE):
                better = found
                break
    return better or best


def _neighbours(tasks: Tasks, schedule: Schedule) -> Iterator[Order]:
    """Orders in which two tasks of one lane that follow each other on the critical chain are swapped.

    No other swap of neighbours can shorten the run. Van Laarhoven, Aarts and Lenstra, "Job shop scheduling by
    simulated annealing" (1992).
    """
    place = {task: position for position, task in enumerate(schedule.order)}
    for first, then in pairwise(critical_chain(tasks, schedule)):
        if tasks.lanes[first] == tasks.lanes[then]:
            order = _swapped(tasks, schedule.order, place[first], place[then])
            if order is not None:
                yield order


def _swapped(tasks: Tasks, order: Order, first: int, then: int) -> Order | None:
    """``order`` with the task at ``then``, after all it waits for, before that at ``first``; not if it waits for it."""
    wanted = {order[then]}
    for task in reversed(order[first : then + 1]):
        if task in wanted:
            wanted.update(tasks.after[task])
    if order[first] in wanted:
        return None
    window = order[first : then + 1]
    early = tuple(task for task in window if task in wanted)
    late = tuple(task for task in window if task not in wanted)
    return (*order[:first], *early, *late, *order[then + 1 :])
