"""Search of the price of a byte: the best lower bound, the shadow price, and the placements met on the way.

For every price λ ≥ 0 the value of the cut less λ × budget is below the cost of every placement whose weights fit, hence
of every one whose peak fits. As a function of λ it is concave and piecewise linear: each placement is a line with slope
(weight bytes − budget). The search intersects the two best lines met so far, from below and above the budget, until no
cut lies under their intersection.
"""

from __future__ import annotations

from dataclasses import dataclass

from hetpart.partitioner.mincut import ACCELERATOR, CutNetwork, PricedCut
from hetpart.partitioner.problem import NO_BUDGET, Placement, PlacementProblem
from hetpart.partitioner.scoring import forced_placement, weight_bytes

MOST_CUTS = 24
TOLERANCE = 1e-9
"""Relative; a cut this close to the intersection of two known lines adds nothing."""
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
    cuts: tuple[PricedCut, ...] = ()
    """Every cut made, for a search with another budget to go on from."""
    network: CutNetwork | None = None
    """Of the cuts."""


def search_price(
    problem: PlacementProblem,
    network: CutNetwork,
    cuts: tuple[PricedCut, ...] = (),
    tolerance: float = TOLERANCE,
) -> PriceSearch:
    """Maximise the lower bound over the price of a byte of accelerator memory.

    Args:
        problem: What to place.
        network: Of ``problem``, or of one that differs in its budgets alone.
        cuts: Of ``network``, made before.
        tolerance: Relative; a bound that can rise by less is good enough.
    """
    return _Search(problem, network, int(problem.budgets[ACCELERATOR]), tolerance).run(list(cuts))


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    problem: PlacementProblem
    network: CutNetwork
    budget: int
    tolerance: float

    def run(self, cuts: list[PricedCut]) -> PriceSearch:
        if not cuts:
            cuts.append(self.network.cut(0.0))
        free = min(cuts, key=lambda cut: cut.price)
        over = self._line(free.smallest)
        if self.budget == NO_BUDGET or over.nbytes <= self.budget:
            return PriceSearch(
                free.value, 0.0, free.largest, free.smallest, (free.smallest, free.largest), (free,), self.network
            )
        over, under = self._narrowed(*self._nearest(cuts), cuts)
        best = max(cuts, key=self._bound)
        met = tuple(placement for cut in cuts for placement in (cut.smallest, cut.largest))
        return PriceSearch(
            self._bound(best), best.price, over.placement, under.placement, met, tuple(cuts), self.network
        )

    def _nearest(self, cuts: list[PricedCut]) -> tuple[Line, Line]:
        """The lines whose bytes are next to the budget on either side. Lines of cuts are the dearer the fewer bytes."""
        lines = [line for cut in cuts for line in self._lines(cut)]
        over = min((line for line in lines if line.nbytes > self.budget), key=lambda line: (line.nbytes, line.cost))
        within = [line for line in lines if line.nbytes <= self.budget]
        under = max(within, key=lambda line: (line.nbytes, -line.cost), default=None)
        return over, under or self._line(forced_placement(self.problem))

    def _narrowed(self, over: Line, under: Line, cuts: list[PricedCut]) -> tuple[Line, Line]:
        """The best lines on either side of the budget. ``cuts`` grows by those made on the way."""
        bound = max(map(self._bound, cuts))
        for _ in range(MOST_CUTS if under.nbytes <= self.budget else 0):
            price = (under.cost - over.cost) / (over.nbytes - under.nbytes)
            if over.at(price) - price * self.budget <= bound * (1 + self.tolerance):
                break
            found = self.network.cut(price, *self._neighbours(cuts, price))
            cuts.append(found)
            bound = max(bound, self._bound(found))
            lines = self._lines(found)
            if min(line.at(price) for line in lines) >= over.at(price) * (1 - TOLERANCE):
                break
            over, under = self._tightened(over, under, lines, price)
        return over, under

    def _bound(self, cut: PricedCut) -> float:
        return cut.value - cut.price * self.budget

    def _neighbours(self, cuts: list[PricedCut], price: float) -> tuple[PricedCut | None, PricedCut | None]:
        """The known cuts at the nearest lower and the nearest higher price."""
        if len(self.network.host_seconds) < NESTED_VERTICES:
            return None, None
        cheaper = max((cut for cut in cuts if cut.price < price), key=lambda cut: cut.price, default=None)
        dearer = min((cut for cut in cuts if cut.price > price), key=lambda cut: cut.price, default=None)
        return cheaper, dearer

    def _tightened(self, over: Line, under: Line, lines: list[Line], price: float) -> tuple[Line, Line]:
        """The best line on either side of the budget at ``price``."""
        above = [line for line in (*lines, over) if line.nbytes > self.budget]
        within = [line for line in (*lines, under) if line.nbytes <= self.budget]
        return (
            min(above, key=lambda line: line.at(price)),
            min(within, key=lambda line: line.at(price)) if within else under,
        )

    def _lines(self, cut: PricedCut) -> list[Line]:
        return [self._line(placement) for placement in (cut.smallest, cut.largest)]

    def _line(self, placement: Placement) -> Line:
        return Line(self.problem.cost(placement), weight_bytes(self.problem, placement, ACCELERATOR), placement)
