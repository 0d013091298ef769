"""Search of the price of a byte: the best lower bound, the shadow price, and the placements met on the way.

For every price λ ≥ 0 the value of the cut less λ × budget is below the cost of every placement whose weights fit, hence
of every one whose peak fits. As a function of λ it is concave and piecewise linear: each placement is a line with slope
(weight bytes − budget). The search intersects the two best lines met so far, from below and above the budget, until no
cut lies under their intersection.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.mincut import CutNetwork, PricedCut
from hetpart.partitioner.bounds.sample import sampled
from hetpart.partitioner.problem import NO_BUDGET, Placement, PlacementProblem
from hetpart.partitioner.scores.scoring import forced_placement

MOST_CUTS = 24
TOLERANCE = 1e-9
"""Relative; a cut this close to the intersection of two known lines adds nothing."""
LARGE_VERTICES, LARGE_TOLERANCE = 100_000, 1e-6
"""Relative; for networks of that many vertices a bound that can rise by less is good enough."""
SAMPLED_OPS = 16_384
"""Problems of four times as many ops and more are opened near the price that so many of their ops come to."""
NEAR = 0.03
"""Relative; how near."""
NESTED_VERTICES = 4000
"""Networks from this size on are cut between the cuts already known. What rounding may hide there adds up, a little."""


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A placement as a function of the price: cost + price × nbytes."""

    cost: float
    nbytes: int
    placement: Placement

    def at(self, price: float) -> float:
        return self.cost + price * self.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class KnownCut:
    """A cut with the lines of its placements."""

    cut: PricedCut
    fewest: Line
    """Of its smallest placement."""
    most: Line
    """Of its largest."""

    @classmethod
    def of(cls, problem: PlacementProblem, network: CutNetwork, cut: PricedCut) -> KnownCut:
        fewest = _line(problem, network, cut.smallest)
        same = np.array_equal(cut.smallest, cut.largest)
        return cls(cut, fewest, fewest if same else _line(problem, network, cut.largest))

    @property
    def price(self) -> float:
        return self.cut.price

    @property
    def lines(self) -> tuple[Line, Line]:
        return self.fewest, self.most


@dataclass(frozen=True, slots=True, eq=False)
class PriceSearch:
    """What the search found. ``bound`` is below the cost of every placement that fits the budget."""

    bound: float
    price: float
    """Price at the best bound; 0 where the budget does not bind."""
    above: Placement
    """Cheapest placement met that the price alone leaves over the budget, or the optimum where nothing binds."""
    below: Placement
    """Cheapest placement met whose weights fit."""
    met: tuple[Placement, ...]
    """Every placement met, in the order met."""
    cuts: tuple[KnownCut, ...] = ()
    """Every cut made, for a search with another budget to go on from."""
    network: CutNetwork | None = None
    """Of the cuts."""


def search_price(
    problem: PlacementProblem,
    network: CutNetwork,
    cuts: tuple[KnownCut, ...] = (),
) -> PriceSearch:
    """Maximise the lower bound over the price of a byte of accelerator memory.

    Args:
        problem: What to place.
        network: Of ``problem``, or of one that differs in its budgets alone.
        cuts: Of ``network``, made before.
    """
    return _Search(problem, network, int(problem.budgets[ACCELERATOR])).run(list(cuts))


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    problem: PlacementProblem
    network: CutNetwork
    budget: int

    def run(self, cuts: list[KnownCut]) -> PriceSearch:
        if not cuts and self.budget != NO_BUDGET and self.problem.ops >= SAMPLED_OPS * 4:
            self._open_near(_guess(self.problem), cuts)
        free = min(cuts, key=lambda known: known.price, default=None)
        if free is None or (free.price > 0.0 and (self.budget == NO_BUDGET or free.fewest.nbytes <= self.budget)):
            cuts.append(free := self._cut(0.0, cuts))
        if self.budget == NO_BUDGET or free.fewest.nbytes <= self.budget:
            least, most = free.cut.smallest, free.cut.largest
            return PriceSearch(free.cut.value, 0.0, most, least, (least, most), (free,), self.network)
        over, under = self._narrowed(*self._nearest(cuts), cuts)
        best = max(cuts, key=self._bound)
        met = tuple(line.placement for known in cuts for line in known.lines)
        return PriceSearch(
            self._bound(best), best.price, over.placement, under.placement, met, tuple(cuts), self.network
        )

    def _open_near(self, price: float, cuts: list[KnownCut]) -> None:
        """Cuts on both sides of a price, if it is any, from the lower on: they leave little open between them."""
        for side in (1 - NEAR, 1 + NEAR) if price > 0.0 else ():
            cuts.append(self._cut(price * side, cuts))
            if cuts[0].fewest.nbytes <= self.budget:
                break

    def _nearest(self, cuts: list[KnownCut]) -> tuple[Line, Line]:
        """The lines whose bytes are next to the budget on either side. Lines of cuts are the dearer the fewer bytes."""
        lines = [line for known in cuts for line in known.lines]
        over = min((line for line in lines if line.nbytes > self.budget), key=lambda line: (line.nbytes, line.cost))
        within = [line for line in lines if line.nbytes <= self.budget]
        under = max(within, key=lambda line: (line.nbytes, -line.cost), default=None)
        return over, under or _line(self.problem, self.network, forced_placement(self.problem))

    def _narrowed(self, over: Line, under: Line, cuts: list[KnownCut]) -> tuple[Line, Line]:
        """The best lines on either side of the budget. ``cuts`` grows by those made on the way."""
        bound = max(map(self._bound, cuts))
        for _ in range(MOST_CUTS if under.nbytes <= self.budget else 0):
            price = (under.cost - over.cost) / (over.nbytes - under.nbytes)
            if over.at(price) - price * self.budget <= bound * (1 + self._tolerance):
                break
            found = self._cut(price, cuts)
            cuts.append(found)
            bound = max(bound, self._bound(found))
            if min(line.at(price) for line in found.lines) >= over.at(price) * (1 - TOLERANCE):
                break
            over, under = self._tightened(over, under, found, price)
        return over, under

    @property
    def _tolerance(self) -> float:
        return TOLERANCE if len(self.network.host_seconds) < LARGE_VERTICES else LARGE_TOLERANCE

    def _bound(self, known: KnownCut) -> float:
        return known.cut.value - known.price * self.budget

    def _cut(self, price: float, cuts: list[KnownCut]) -> KnownCut:
        """A cut between the known ones at the nearest lower and the nearest higher price."""
        nested = cuts if self.network.nests and len(self.network.host_seconds) >= NESTED_VERTICES else []
        cheaper = max((known for known in nested if known.price < price), key=lambda known: known.price, default=None)
        dearer = min((known for known in nested if known.price > price), key=lambda known: known.price, default=None)
        return KnownCut.of(
            self.problem, self.network, self.network.cut(price, cheaper and cheaper.cut, dearer and dearer.cut)
        )

    def _tightened(self, over: Line, under: Line, found: KnownCut, price: float) -> tuple[Line, Line]:
        """The best line on either side of the budget at ``price``."""
        above = [line for line in (*found.lines, over) if line.nbytes > self.budget]
        within = [line for line in (*found.lines, under) if line.nbytes <= self.budget]
        return min(above, key=lambda line: line.at(price)), min(within, key=lambda line: line.at(price))


def _guess(problem: PlacementProblem) -> float:
    """The price that a part of the problem comes to."""
    part = sampled(problem, SAMPLED_OPS)
    return search_price(part, CutNetwork.of(part)).price


def _line(problem: PlacementProblem, network: CutNetwork, placement: Placement) -> Line:
    return Line(problem.cost(placement), network.weight(problem, placement), placement)
