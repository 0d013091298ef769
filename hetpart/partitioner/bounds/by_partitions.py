"""A bound on placements that stream, by how many partitions they have on the accelerator and by their level.

In n partitions, those of two that follow each other are there at once: with n even, of n/2 pairs one streams 2/n of all
bytes that are streamed at least; with n odd, of (n + 1)/2. So few partitions hold much of what streams, and of what
crosses their borders, and many hold their sessions' bytes. Numbers from p to q hold at least p sessions and what q
would stream at once: that is a price search. So are levels from one to another, whose weights leave room for the lower.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.inside import Insides
from hetpart.partitioner.bounds.levels import Levels
from hetpart.partitioner.bounds.mincut import CutNetwork
from hetpart.partitioner.bounds.price import search_price
from hetpart.partitioner.bounds.ranges import Range, raised
from hetpart.partitioner.scores.sessions import most_others
from hetpart.partitioner.scores.streaming import ROUNDING, least_partitions, least_sessions, ring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from hetpart.partitioner.bounds.inside import Stretches
    from hetpart.partitioner.problem import PlacementProblem
    from hetpart.partitioner.scores.streaming import ThreeStates

SEARCHED_OPS = 200_000
"""Ops that ranges are searched on, all together, in either order."""
MOST_RANGES = 64
"""In either order."""
CROSSING_OF, MIXED = 6, (0.0, 0.5)
"""Partitions up to which what crosses is counted, and how much of what streams at once counts beside it."""


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
    most = min(most, budget // session + most_others(within)) if session else most
    count = min(MOST_RANGES, SEARCHED_OPS // max(1, within.ops))
    least = least_partitions(within)
    if most < least or not count or expired():
        return -np.inf
    levels = Levels.of(states)
    ranges = _Ranges(states, within, levels, Insides.of(within, levels.of_op), enough)
    whole = ranges.bounded(Range(-np.inf, least, most, 0, len(ranges.levels) - 1))
    bound = whole.bound
    # Where sessions take nothing, the upper half of numbers is no dearer than all of them.
    for by_level in (False, True) if session else (True,):
        left = iter(range(count - 1))
        goes_on = _while(left, enough, expired)
        bound = max(bound, raised(whole, ranges.bounded, by_level, goes_on))
    return bound


def _while(left: Iterator[int], enough: float, expired: Callable[[], bool]) -> Callable[[float], bool]:
    """Whether a bound is to be raised further, asked as often as ``left`` lasts."""
    return lambda bound: bound < enough and not expired() and next(left, None) is not None


@dataclass(frozen=True, slots=True, eq=False)
class _Ranges:
    states: ThreeStates
    within: PlacementProblem
    of: Levels
    insides: Insides
    enough: float
    levels: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", self.of.known())

    def bounded(self, part: Range) -> Range:
        """With a bound of its own: by what streams at once, and by what the neediest needs, whichever says more."""
        low, high = int(self.levels[part.lowest]), int(self.levels[part.highest])
        sessions = least_sessions(self.within, part.fewest) * int(self.within.session_bytes[ACCELERATOR])
        share = float(ring(np.array([part.most]))[0]) * (1 - ROUNDING)
        bound = max(part.bound, self._searched(sessions, high, share))
        bound = max(bound, self._searched(sessions + low, high, 0.0)) if low else bound
        bound = max(bound, self._beside(part, sessions, high, share, bound))
        stretches = self.insides.among(part.most)
        if stretches is not None and bound < self.enough:
            # What lies inside a partition comes on top of what streams at once.
            inside = self._searched(sessions + stretches.nbytes, high, share)
            if inside > bound:
                bound = max(bound, min(inside, self._with_few(stretches, part.most, sessions, high, share, bound)))
        return replace(part, bound=bound)

    def _beside(self, part: Range, sessions: int, high: int, share: float, bound: float) -> float:
        """By what lies beside one of few partitions, an equal part of what streams and of what crosses.

        Of n partitions one has 1/n of both together, since each piece lies beside some; and one has ``share`` of what
        streams. What holds for each holds for any mixture of the two.
        """
        for mixed in MIXED if part.most <= CROSSING_OF else ():
            if bound >= self.enough:
                break
            each = (1.0 - mixed) / part.most * (1 - ROUNDING)
            bound = max(bound, self._searched(sessions, high, mixed * share + each, crossing=each))
        return bound

    def _with_few(
        self, stretches: Stretches, partitions: int, sessions: int, high: int, share: float, bound: float
    ) -> float:
        """Of placements with so few ends of stretches on the accelerator that none needs to be in one partition.

        Each end there beyond those costs something: twice what would do if all were there.
        """
        few = stretches.most_on(partitions)
        each = 2 * (self.enough - bound) / (stretches.ends.size - few)
        seconds = self.within.seconds.copy()
        np.add.at(seconds[ACCELERATOR], stretches.ends, each)
        return self._searched(sessions, high, share, replace(self.within, seconds=seconds)) - each * few

    def _searched(
        self, reserved: int, high: int, share: float, within: PlacementProblem | None = None, crossing: float = 0.0
    ) -> float:
        found = self.of.within(within or self.within, reserved, high)
        if found is None:
            return np.inf
        left = self.states.with_share(found, share)
        return search_price(left, CutNetwork.of(left, share=crossing)).bound
