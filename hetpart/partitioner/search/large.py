"""Placements of large problems, by flows and array operations alone: no step looks at ops one by one.

Where there are many ops each weighs little, so the cuts on both sides of the budget nearly meet it. The smaller is
filled up, and what it truly holds at its peak beside its weights is taken off the budget of the next search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.mincut import CutNetwork
from hetpart.partitioner.bounds.price import PriceSearch, search_price
from hetpart.partitioner.problem import NO_BUDGET, PlacementProblem
from hetpart.partitioner.search.fill import filled
from hetpart.partitioner.search.pace import paced
from hetpart.partitioner.search.pressure import Pressure, steered

if TYPE_CHECKING:
    from hetpart.partitioner.scores.scoring import Scored, Scorer

TRIED_OPS = 1000
"""Ops from which on this is tried first. Where it nearly meets the bound nothing else is."""
LARGE_OPS = 20_000
"""Ops from which on this is the search."""
CHEAPER = (0.95, 0.8, 0.5)
"""Parts of the price at which room that is left is filled."""
MOST_TRIED = 3
"""Times less and less of that room is filled."""
MOST_ROUNDS = 6
HASTE = 8
"""After so many rounds each takes twice the excess off the budget: peaks move when ops do."""


def placed(scorer: Scorer, within: PlacementProblem, search: PriceSearch, expired: Callable[[], bool]) -> Scored:
    """The best placement found of a large problem. It breaks a budget only if nothing found does not.

    Args:
        scorer: Of the problem.
        within: The problem with what can fit nowhere shut out, which ``search`` is of.
        search: Its bound and its cuts.
        expired: Whether time is up; then session overheads, which the bound leaves out, are left out here too.
    """
    best = _Rounds(scorer, within, search).run()
    if not _has_sessions(within) or expired():
        return best
    seen = steered(within, Pressure.none(within), search.price)
    network = CutNetwork.of(seen)
    rivals = [best, _Rounds(scorer, seen, search_price(seen, network)).run()]
    if within.stands_for_weight is None and within.ops < LARGE_OPS:
        rivals += paced(scorer, within, search.price, expired)
    return _topped(scorer, seen, network, search.price, min(rivals, key=lambda found: found.fit_rank))


def _topped(scorer: Scorer, seen: PlacementProblem, network: CutNetwork, price: float, best: Scored) -> Scored:
    """``best`` with what room it leaves filled by what is worth a little less than the price."""
    for part in CHEAPER if best.fits and price > 0.0 else ():
        more = np.maximum(network.cut(price * part).largest, best.placement)
        room = int(seen.budgets[ACCELERATOR] - best.usage.peak[ACCELERATOR])
        held = int(best.usage.weights[ACCELERATOR])
        for _ in range(MOST_TRIED):
            found = scorer.score(filled(seen, best.placement, more, held + room))
            if found.fits:
                best = min(best, found, key=lambda one: one.fit_rank)
                break
            room -= found.excess
            if room <= 0:
                break
    return best


def _has_sessions(problem: PlacementProblem) -> bool:
    return bool(problem.session_seconds.any() or problem.session_bytes[ACCELERATOR])


@dataclass(frozen=True, slots=True, eq=False)
class _Rounds:
    scorer: Scorer
    seen: PlacementProblem
    search: PriceSearch

    def run(self) -> Scored:
        """Placements for less and less budget, until one truly fits."""
        budget, search = int(self.seen.budgets[ACCELERATOR]), self.search
        best = found = self._filled(search, budget)
        for turn in range(MOST_ROUNDS):
            excess = self._excess(found)
            if excess <= 0 or budget == NO_BUDGET:
                break
            weights = int(found.usage.weights[ACCELERATOR])
            budget = max(0, min(budget, weights) - int(excess * (1 + turn / HASTE)))
            search = self._searched(search, budget)
            found = self._filled(search, budget)
            best = min(best, found, key=lambda known: known.fit_rank)
        return best

    def _excess(self, found: Scored) -> int:
        return int(found.usage.peak[ACCELERATOR] - self.scorer.problem.budgets[ACCELERATOR])

    def _searched(self, search: PriceSearch, budget: int) -> PriceSearch:
        budgets = self.seen.budgets.copy()
        budgets[ACCELERATOR] = budget
        network = search.network or CutNetwork.of(self.seen)
        return search_price(replace(self.seen, budgets=budgets), network, search.cuts)

    def _filled(self, search: PriceSearch, budget: int) -> Scored:
        if budget == NO_BUDGET or search.price == 0.0:
            return self.scorer.score(search.below)
        return self.scorer.score(filled(self.seen, search.below, np.maximum(search.above, search.below), budget))
