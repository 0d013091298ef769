"""A bound on placements that stream, by how many partitions they have on the accelerator and by their level.

In n partitions, those of two that follow each other are there at once: with n even, of n/2 pairs one streams 2/n of all
bytes that are streamed at least; with n odd, of (n + 1)/2. So few partitions hold much of what streams, and many hold
their sessions' bytes. Numbers from p to q hold at least p sessions and what q would stream at once: that is a price
search. So are levels from one to another, whose weights leave room for the lower. Where the bound of a range of numbers
and levels is the least and too low, the range is halved.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import isqrt
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.levels import Levels
from hetpart.partitioner.bounds.mincut import CutNetwork
from hetpart.partitioner.bounds.price import search_price
from hetpart.partitioner.scores.streaming import LEAST_PARTITIONS, ROUNDING, ring

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hetpart.partitioner.problem import PlacementProblem
    from hetpart.partitioner.scores.streaming import ThreeStates

SEARCHED_OPS = 200_000
"""Ops that ranges are searched on, all together."""
MOST_RANGES = 64


def bound_by_partitions(
    states: ThreeStates, within: PlacementProblem, enough: float, expired: Callable[[], bool]
) -> float:
    """A bound on what streams something and fits, raised until it is ``enough`` or the ranges are many.

    Args:
        states: Of the problem.
        within: Its placements, with what can fit nowhere shut out.
        enough: More is not looked for.
        expired: Whether time is up.
    """
    session, budget = int(within.session_bytes[ACCELERATOR]), int(within.budgets[ACCELERATOR])
    most = int(within.legal()[ACCELERATOR].sum())
    most = min(most, budget // session) if session else most
    ranges = _Ranges(states, within, Levels.of(states))
    left = [_Range(-np.inf, LEAST_PARTITIONS, most, 0, len(ranges.levels) - 1)]
    for _ in range(min(MOST_RANGES, SEARCHED_OPS // max(1, within.ops))):
        least = left[0]
        if most < LEAST_PARTITIONS or least.bound >= enough or least.single or expired():
            break
        heappop(left)
        for part in least.halves() if least.bound > -np.inf else (least,):
            heappush(left, replace(part, bound=max(part.bound, ranges.bound(part))))
    return left[0].bound


@dataclass(frozen=True, slots=True, order=True)
class _Range:
    """Some placements: both ends are inclusive."""

    bound: float
    fewest: int
    """Partitions on the accelerator."""
    most: int
    lowest: int
    """Which level."""
    highest: int

    @property
    def single(self) -> bool:
        return self.bound > -np.inf and self.fewest == self.most and self.lowest == self.highest

    def halves(self) -> tuple[_Range, _Range]:
        """By level as long as there are several, then by number of partitions."""
        if self.lowest < self.highest:
            middle = (self.lowest + self.highest) // 2
            return replace(self, highest=middle), replace(self, lowest=middle + 1)
        middle = min(self.most - 1, isqrt(self.fewest * self.most))
        return replace(self, most=middle), replace(self, fewest=middle + 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Ranges:
    states: ThreeStates
    within: PlacementProblem
    of: Levels
    levels: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", self.of.known())

    def bound(self, part: _Range) -> float:
        """Of its placements: by what streams at once, and by what the neediest needs, whichever says more."""
        low, high = int(self.levels[part.lowest]), int(self.levels[part.highest])
        sessions = part.fewest * int(self.within.session_bytes[ACCELERATOR])
        share = float(ring(np.array([part.most]))[0]) * (1 - ROUNDING)
        by_share = self._searched(sessions, high, share)
        return max(by_share, self._searched(sessions + low, high, 0.0)) if low else by_share

    def _searched(self, reserved: int, high: int, share: float) -> float:
        found = self.of.within(self.within, reserved, high)
        if found is None:
            return np.inf
        left = self.states.with_share(found, share)
        return search_price(left, CutNetwork.of(left)).bound
