"""From the cuts at a price to the best placement that truly fits: rounds of exploring, scoring and steering."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetpart.partitioner.explore import explore
from hetpart.partitioner.polish import excess, merged, squeezed
from hetpart.partitioner.pressure import Pressure, steered
from hetpart.partitioner.refine import Effort
from hetpart.partitioner.scoring import forced_placement
from hetpart.partitioner.wiring import Wiring

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetpart.partitioner.price import PriceSearch
    from hetpart.partitioner.scoring import Scored, Scorer

MOST_ROUNDS = 5
WORTHWHILE = 1e-3
"""Relative; a round that gains less is the last."""


def optimise(scorer: Scorer, search: PriceSearch, rivals: list[Scored], expired: Callable[[], bool]) -> Scored:
    """The best placement found. It breaks a budget only if nothing found does not.

    Args:
        scorer: Of the problem.
        search: Its bound and the cuts met on the way.
        rivals: Placements to beat, the best of which is a start.
        expired: Whether time is up; then the best so far is returned.
    """
    problem = scorer.problem
    known = [scorer.score(placement) for placement in (*search.met, forced_placement(problem))] + rivals
    best = _best(scorer, known)
    pressure = Pressure.of(problem, scorer.score(search.below))
    for _ in range(MOST_ROUNDS):
        if expired():
            return best
        view = steered(problem, pressure, search.price)
        found = [scorer.score(placement) for placement in explore(view, [best.placement], Effort())]
        improved = _best(scorer, [best, *found])
        settled = improved.fits and improved.total_seconds >= best.total_seconds * (1 - WORTHWHILE)
        best = improved
        if found[0].fits and settled:
            break
        fresh = Pressure.of(problem, found[0])
        pressure = fresh if found[0].fits else pressure.joined(fresh)
    return _finished(scorer, best)


def _best(scorer: Scorer, known: list[Scored]) -> Scored:
    """Least seconds of those that fit; else the one nearest to fitting."""
    return min(known, key=lambda found: (excess(scorer.problem, found), found.rank))


def _finished(scorer: Scorer, best: Scored) -> Scored:
    wiring = Wiring.of(scorer.problem)
    if not best.fits:
        best = squeezed(scorer, wiring, best)
    return merged(scorer, wiring, best) if best.fits else best
