"""A bound on placements of a narrow problem, by the most that lies between partitions and the most inside any.

Both leave the rest of the budget to weights. Placements are told apart by ranges of the two: no step takes more than
the ends of a range, and weights have what its beginnings leave. Weights have a price; the cheapest passage at a price
bounds a range, and ranges are halved where the bound is least. What is left open in a small one is followed placement
by placement; where the cheapest does not fit, for a reason that this knows nothing of, each of those that are cheaper
than what is asked for is tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.certain import Sweep
from hetpart.partitioner.bounds.constrained import cheapest, listed
from hetpart.partitioner.bounds.in_order import InOrder
from hetpart.partitioner.bounds.one_session import one_session
from hetpart.partitioner.bounds.passage import Layers, Room
from hetpart.partitioner.problem import NO_BUDGET, NO_OP
from hetpart.partitioner.scores.finer import may_be_cut_finer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Placement, PlacementProblem

MOST_OPS = 2000
"""Of problems that are looked at."""
MOST_MADE = 8
"""Values that one of their ops makes: each may be copied or not, so that there are as many steps as sets of them."""
WAISTS = 0.5
"""Of their ops, at least: of others too little is certain."""
STEPS = 400_000_000
"""Priced, all together."""
FOLLOWED, LABEL = 40, 15
"""Steps that could be priced in the time that it takes to follow a range, for each step, and for each label."""
AT_ONCE = 32
"""Ranges."""
FAR, FEW, MANY = 0.02, 2000, 4000
"""How far what is asked for is from a bound, relative, where few placements of a range are followed at once, and how
many are then, and nearer by: what is far is not proven, but shows what is nearer."""
MANY_PIECES = 40_000
"""The same where buffers count as weights do, so that little else tells placements apart."""
PRICES = 5
"""Tried for a range at once."""
REACHES, NEARER = (4.0, 1.5, 0.6), (0.6,)
"""How far they lie from the first guess, and then from the best so far; and from that of a range that is halved: powers
of e."""
SMALL, LEAST = 0.02, 0.001
"""Of the budget, to which a range is halved before it is followed, and to which it is halved at all."""
BESIDE = (-0.6, -0.2, 0.0, 0.2, 0.6)
"""Prices, as powers of e times that of the range, at which what is to come is bounded."""


LISTED_SOON, LISTED, TRIED = 2000, 20_000, 15_000
"""Placements listed at once, and steps that could be priced in the time that it takes to try one."""
NEARLY, MOST_FITTED = 0.05, 6
"""Of the budget: what exceeds it by more is not looked for with less room; how often that is done."""


@dataclass(frozen=True, slots=True)
class Told:
    """What is known once a placement was looked at."""

    enough: float
    """Seconds; a bound that is no longer asked to be raised."""
    excess: int
    """Bytes that it takes too much."""


@dataclass(frozen=True, slots=True, eq=False)
class Met:
    """What is told of placements that are met, which need not fit."""

    fitted: Callable[[Placement], Told]
    """Of the cheapest of a range: one is made of it that fits."""
    tried: Callable[[Placement], Told]
    """Of any: only whether it fits is asked."""


def is_passable(problem: PlacementProblem) -> bool:
    """Whether ops hold more than weights, and nothing is kept on an accelerator, streams or runs apart."""
    if not problem.value_bytes.any() and not problem.scratch_bytes.any():
        return False
    plain = problem.streamed is None and problem.stands_for_weight is None and problem.apart is None
    stateless = problem.states is None or bool((problem.states.keeper == NO_OP).all())
    theirs = bool((problem.kept != 0).any())
    limited = problem.budgets[ACCELERATOR] != NO_BUDGET and problem.ops <= MOST_OPS
    narrow = np.bincount(problem.value_producer[problem.made], minlength=1).max() <= MOST_MADE
    return bool(narrow and plain and stateless and not theirs and limited and not may_be_cut_finer(problem))


def by_passage(problem: PlacementProblem) -> tuple[ByPassage, ...]:
    """Of each sweep that may number partitions, or of both where they are told apart by nothing; else none."""
    if not is_passable(problem) or sum(InOrder.of(problem).waist) < WAISTS * problem.ops:
        return ()
    along = ByPassage.of(problem, Sweep.ALONG)
    if along is None or InOrder.of(problem, Sweep.ALONG).linked == InOrder.of(problem, Sweep.AGAINST).linked:
        return () if along is None else (along,)
    against = ByPassage.of(problem, Sweep.AGAINST)
    return () if against is None else (along, against)


def by_one_session(problem: PlacementProblem) -> tuple[ByPassage, ...]:
    """Of placements that have one session at most, whose bytes are off the budget; none where they are too wide."""
    layers = one_session(problem) if is_passable(problem) else None
    if layers is None:
        return ()
    return (ByPassage(layers, int(problem.budgets[ACCELERATOR]), layers.levels(), exact=False, most=MANY_PIECES),)


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """Some placements. Both ends are inclusive."""

    bound: float
    between: tuple[float, float]
    """The least and the most bytes."""
    inside: tuple[float, float]
    price: float
    """Of a byte, at which the bound is found, as a power of e."""
    exact: bool = False
    """Whether no more is to be said of it."""

    @property
    def widths(self) -> tuple[float, float]:
        return self.between[1] - self.between[0], self.inside[1] - self.inside[0]


@dataclass(slots=True, eq=False)
class ByPassage:
    """What is halved."""

    layers: Layers
    budget: int
    levels: tuple[NDArray[np.float64], NDArray[np.float64]]
    exact: bool
    """Whether it knows all that placements hold: programs tell no more."""
    left: int = STEPS
    most: int = MANY
    tries: int = MOST_FITTED

    @classmethod
    def of(cls, problem: PlacementProblem, sweep: Sweep = Sweep.EITHER) -> ByPassage | None:
        """Of placements whose partitions ``sweep`` numbers. None of what is too wide, or not passable."""
        layers = Layers.of(problem, sweep) if is_passable(problem) else None
        if layers is None:
            return None
        return cls(layers, int(problem.budgets[ACCELERATOR]), layers.levels(), all(InOrder.of(problem).waist))

    @property
    def steps(self) -> int:
        return sum(len(layer.before) for layer in self.layers.each)

    def raised(self, price: float, enough: float, met: Met, expired: Callable[[], bool]) -> float:
        """The bound on all placements, raised until it is enough or much has been priced.

        Args:
            price: A guess, of a byte.
            enough: Seconds.
            met: Told of the placements that are met on the way.
            expired: Whether time is up.
        """
        between, inside = self.levels
        whole = Range(-np.inf, (0.0, float(between[-1])), (0.0, float(inside[-1])), float(np.log(price)))
        open_, least = self._bounded([whole], REACHES), enough
        while open_ and open_[0].bound < least and self.left > 0 and not expired():
            halves = list[Range]()
            while open_ and open_[0].bound < least and len(halves) < AT_ONCE and self.left > 0:
                part, least = self._told(heappop(open_), least, met)
                if part.exact:
                    least = min(least, part.bound)
                else:
                    halves += self._halves(part)
            for part in self._bounded(halves, NEARER) if halves else ():
                heappush(open_, part)
        return min([least, *(one.bound for one in open_[:1])])

    def _told(self, part: Range, enough: float, met: Met) -> tuple[Range, float]:
        """``part`` with what following its placements tells of it, and what is enough then."""
        followed, found = self._followed(part, enough, 0)
        if found is None:
            return followed, enough
        told = self._fitted(part, found, met)
        enough = min(enough, told.enough)
        return self._listed(followed, enough, met) if told.excess else (followed, enough)

    def _fitted(self, part: Range, found: Placement, met: Met) -> Told:
        """What is told of a placement, and enough once those were met that have as much less room as it exceeds."""
        told, less = met.fitted(found), 0
        within = told
        while self.tries and 0 < within.excess <= NEARLY * self.budget:
            self.tries, less = self.tries - 1, less + max(within.excess, int(LEAST * self.budget))
            _, smaller = self._followed(part, within.enough, less)
            if smaller is None:
                break
            within = met.fitted(smaller)
        return replace(told, enough=min(told.enough, within.enough))

    def _listed(self, part: Range, enough: float, met: Met) -> tuple[Range, float]:
        """As ``_told``, by each of a range's placements; as it was where those are too many."""
        most = LISTED if part.exact else LISTED_SOON
        found = listed(self.layers, self._prices(part), self._rooms(part, 0), enough, most)
        self.left -= FOLLOWED * self.steps
        if found is None:
            return part, enough
        self.left -= LABEL * found.labels
        bound = enough
        for placement, cost in zip(found.placements, found.costs.tolist(), strict=True):
            if cost >= bound:
                break
            self.left -= TRIED
            told = met.tried(placement)
            enough = min(enough, told.enough)
            bound = bound if told.excess else cost
        return replace(part, bound=max(part.bound, bound), exact=True), enough

    def _followed(self, part: Range, enough: float, less: int) -> tuple[Range, Placement | None]:
        """``part`` with a higher bound, as its placements are followed one by one, and the cheapest that was met.

        With ``less`` bytes the bound is of nothing.
        """
        width = max(part.widths) / max(1, self.budget)
        if width > SMALL:
            return part, None
        most = FEW if less or part.bound < enough * (1 - FAR) else self.most
        found = cheapest(self.layers, self._prices(part), self._rooms(part, less), enough, most)
        self.left -= FOLLOWED * self.steps + LABEL * found.labels
        part = replace(part, bound=max(part.bound, found.bound))
        settled = width <= LEAST or (found.whole and found.placement is None)
        return replace(part, exact=settled), found.placement

    def _prices(self, part: Range) -> NDArray[np.float64]:
        return np.exp(part.price + np.array(BESIDE))

    def _rooms(self, part: Range, less: int) -> Room:
        most = self._most_between(part)
        return Room(*(np.array([one]) for one in (most, part.inside[1], self._room(part) - less)))

    def _most_between(self, part: Range) -> float:
        """Bytes up to which a placement that is followed is of ``part``: levels are of what is held, rounded down."""
        above = int(np.searchsorted(self.levels[0], part.between[1], side="right"))
        return float(self.levels[0][above]) - 1.0 if above < len(self.levels[0]) else np.inf

    def _room(self, part: Range) -> float:
        return self.budget - part.between[0] - part.inside[0]

    def _halves(self, part: Range) -> list[Range]:
        """By the wider of the two."""
        between, inside = part.widths
        by_between = between >= inside
        low, high = part.between if by_between else part.inside
        levels = self.levels[0 if by_between else 1]
        middle = int(np.searchsorted(levels, (low + high) / 2, side="right"))
        ends = (low, float(levels[middle - 1])), (float(levels[middle]), high)
        halves = [replace(part, between=end) if by_between else replace(part, inside=end) for end in ends]
        return [half for half in halves if self._room(half) >= 0.0]

    def _bounded(self, parts: list[Range], reaches: tuple[float, ...]) -> list[Range]:
        """With bounds of their own, by prices as far as ``reaches`` from those they have, and from the best then."""
        weights = np.array([self._room(part) for part in parts])
        most = np.array([(part.between[1], part.inside[1]) for part in parts])
        price, bound = np.array([part.price for part in parts]), np.array([part.bound for part in parts])
        if len(parts) == 1:
            bound = np.maximum(bound, self._least(np.zeros((1, 1)), most, weights)[:, 0])
        for reach in reaches:
            tried = price[:, None] + np.linspace(-reach, reach, PRICES)
            found = self._least(np.exp(tried), most, weights)
            best, highest = found.argmax(axis=1), found.max(axis=1)
            price = np.where(highest > bound, tried[np.arange(len(parts)), best], price)
            bound = np.maximum(bound, highest)
        return [
            replace(part, bound=float(one), price=float(two))
            for part, one, two in zip(parts, bound, price, strict=True)
        ]

    def _least(
        self, prices: NDArray[np.float64], most: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """(parts, prices) Bounds."""
        count = prices.shape[1]
        room = Room(*(np.repeat(one, count) for one in (most[:, 0], most[:, 1], weights)))
        self.left -= prices.size * self.steps
        found = self.layers.least(prices.ravel(), room).reshape(prices.shape)
        return found - prices * weights[:, None]
