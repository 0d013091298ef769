"""Several stretches of ops on the accelerator, chosen together: each is a session, and weights share what is left.

Stretches end where little would be copied. Each is scored alone; of those that need no more than so much beside their
weights, as many as asked for are taken that save most: a program over places in the model and bytes of weights (Bellman
1957). What they need together is then told by the true peak.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR, HOST
from hetpart.partitioner.problem import NO_OP
from hetpart.partitioner.scores.scoring import fit_rank
from hetpart.partitioner.search.stretch import Along

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Placement
    from hetpart.partitioner.scores.scoring import Scored, Scorer
    from hetpart.partitioner.scores.wiring import Wiring

PLACES = 96
"""Where stretches begin and end."""
UNITS = 64
"""Of the room that is left, in which weights are counted."""
NEEDS = 10
"""Limits that are tried on what a stretch needs beside weights."""
NEAR = 8
"""Steps up to twice which every place is an end."""
KEPT = 3


@dataclass(frozen=True, slots=True)
class _Window:
    first: int
    end: int
    """Places."""
    saved: float
    weights: int
    beside: int
    """Bytes of buffers and of what is inside."""


@dataclass(frozen=True, eq=False)
class Windows:
    """Stretches that fit alone, of one model: looked for when they are asked for."""

    along: Along
    expired: Callable[[], bool]

    @classmethod
    def of(cls, scorer: Scorer, wiring: Wiring, wanted: Placement, expired: Callable[[], bool]) -> Windows:
        """Of what ``wanted`` has on the accelerator."""
        return cls(Along.of(scorer, wiring, wanted), expired)

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Where they begin and end: the first is before the first group, the last behind the last."""
        return _places(self.along)

    @cached_property
    def each(self) -> tuple[_Window, ...]:
        return tuple(_each(self.along, self.places, self.expired))

    def chosen(self, sessions: int) -> list[Scored]:
        """The best placements met with so many stretches."""
        problem = self.along.scorer.problem
        room = int(problem.budgets[ACCELERATOR]) - sessions * int(problem.session_bytes[ACCELERATOR])
        needed = sorted({window.beside for window in self.each if window.beside < room})
        limits = needed[:: max(1, len(needed) // NEEDS)] + needed[-1:]
        met = {placed.tobytes(): placed for placed in (self._within(sessions, room, limit) for limit in limits)}
        return sorted(map(self.along.scorer.score, met.values()), key=fit_rank)[:KEPT]

    def _within(self, sessions: int, room: int, limit: int) -> Placement:
        """The best of windows that need no more than ``limit`` beside weights."""
        fit = [window for window in self.each if window.beside <= limit]
        return self._placed(_most(fit, sessions, len(self.places), room - limit))

    def _placed(self, windows: list[_Window]) -> Placement:
        found = self.along.base.copy()
        for window in windows:
            found |= self.along.placed(int(self.places[window.first]), int(self.places[window.end]))
        return found


def _places(along: Along) -> NDArray[np.int64]:
    """Of every share of the groups the place where least is copied, and both ends."""
    problem, groups = along.scorer.problem, len(along.groups)
    position = np.full(len(along.wiring.groups), -1, np.int64)
    position[along.groups] = np.arange(groups)
    of_op = position[along.wiring.groups.of_op]
    seconds = problem.copy_seconds[HOST, ACCELERATOR] + problem.copy_seconds[ACCELERATOR, HOST]
    begin, end = np.full(problem.values, groups), np.full(problem.values, -1)
    rows, makers = problem.value_uses.rows, problem.value_producer
    np.minimum.at(begin, rows, of_op[problem.value_uses.ops])
    np.maximum.at(end, rows, of_op[problem.value_uses.ops])
    made = np.flatnonzero(makers != NO_OP)
    begin[made] = np.minimum(begin[made], of_op[makers[made]])
    across = np.zeros(groups + 2)
    crossed = (begin >= 0) & (end > begin)
    np.add.at(across, begin[crossed] + 1, seconds[crossed])
    np.subtract.at(across, end[crossed] + 1, seconds[crossed])
    across = across.cumsum()
    ends = np.unique(np.linspace(1, groups, PLACES - 1).astype(np.int64))
    found = [int(low + across[low:high].argmin()) for low, high in pairwise(ends.tolist())]
    return np.unique([0, *found, groups])


def _each(along: Along, places: NDArray[np.int64], expired: Callable[[], bool]) -> Iterator[_Window]:
    """Windows that fit alone and save something: once one is too large, longer ones are."""
    base = along.alive.score(along.base)
    for first in range(len(places) - 1):
        for end in _ends(first, len(places)):
            if expired():
                return
            found = along.alive.score(along.placed(int(places[first]), int(places[end])))
            if not found.fits:
                break
            saved, used = base.cost - found.cost, found.usage
            if saved > 0:
                beside = int(used.buffers[ACCELERATOR] + used.inside[ACCELERATOR])
                yield _Window(first, end, saved, int(used.weights[ACCELERATOR]), beside)


def _ends(first: int, places: int) -> Iterator[int]:
    """Every place up to some steps away, then fewer and fewer."""
    step = 1
    while first + step < places:
        yield first + step
        step += max(1, step // NEAR)


def _most(windows: list[_Window], count: int, places: int, room: int) -> list[_Window]:
    """Up to ``count`` windows that follow each other, whose weights take no more than ``room`` and save most."""
    unit = max(1, -(-room // UNITS))
    saved = np.full((count + 1, places, UNITS + 1), 0.0)
    last = np.full((count + 1, places, UNITS + 1), -1, np.int64)
    by_end = [[at for at, window in enumerate(windows) if window.end == end] for end in range(places)]
    for number in range(1, count + 1):
        for end in range(1, places):
            saved[number, end], last[number, end] = saved[number, end - 1], last[number, end - 1]
            for at in by_end[end]:
                units = -(-windows[at].weights // unit)
                if units * unit <= room:
                    more = np.full(UNITS + 1, -np.inf)
                    more[units:] = saved[number - 1, windows[at].first, : UNITS + 1 - units] + windows[at].saved
                    better = more > saved[number, end]
                    saved[number, end][better], last[number, end][better] = more[better], at
    found, end, left = list[_Window](), places - 1, room // unit
    for number in range(count, 0, -1):
        at = int(last[number, end, left])
        if at >= 0:
            found.append(windows[at])
            end, left = windows[at].first, left - -(-windows[at].weights // unit)
    return found
