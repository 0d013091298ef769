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


def search_price(problem: PlacementProblem, network: CutNetwork) -> PriceSearch:
    """Maximise the lower bound over the price of a byte of accelerator memory."""
    budget = int(problem.budgets[ACCELERATOR])
    free = network.cut(0.0)
    over = _line(problem, free.smallest)
    if budget == NO_BUDGET or over.nbytes <= budget:
        return PriceSearch(free.value, 0.0, free.largest, free.smallest, (free.smallest, free.largest))
    return _between(problem, network, over, free, budget)


def _between(problem: PlacementProblem, network: CutNetwork, over: Line, free: PricedCut, budget: int) -> PriceSearch:
    under = _line(problem, forced_placement(problem))
    bound, best, met = free.value, 0.0, [free.smallest, free.largest]
    for _ in range(MOST_CUTS if under.nbytes <= budget else 0):
        price = (under.cost - over.cost) / (over.nbytes - under.nbytes)
        found = network.cut(price)
        if found.value - price * budget > bound:
            bound, best = found.value - price * budget, price
        lines = [_line(problem, placement) for placement in (found.smallest, found.largest)]
        met += [line.placement for line in lines]
        if min(line.at(price) for line in lines) >= over.at(price) * (1 - TOLERANCE):
            break
        over, under = _tightened(over, under, lines, budget, price)
    return PriceSearch(bound, best, over.placement, under.placement, tuple(met))


def _tightened(over: Line, under: Line, lines: list[Line], budget: int, price: float) -> tuple[Line, Line]:
    """The best line on either side of the budget at ``price``."""
    above = [line for line in (*lines, over) if line.nbytes > budget]
    within = [line for line in (*lines, under) if line.nbytes <= budget]
    return min(above, key=lambda line: line.at(price)), min(within, key=lambda line: line.at(price))


def _line(problem: PlacementProblem, placement: Placement) -> Line:
    return Line(problem.cost(placement), weight_bytes(problem, placement, ACCELERATOR), placement)
