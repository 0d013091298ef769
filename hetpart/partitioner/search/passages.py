"""Placements met in bounding a narrow problem op by op, made to fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.by_passage import NEARLY, Met, Told
from hetpart.partitioner.bounds.exact import AIM_WITH_MOMENTS
from hetpart.partitioner.scores.scoring import Scored, Scorer

if TYPE_CHECKING:
    from hetpart.partitioner.bounds.by_passage import ByPassage
    from hetpart.partitioner.bounds.price import PriceSearch
    from hetpart.partitioner.problem import Placement

BEHIND = 0.99
"""Of a passage's bound: what programs close of one that they begin lower."""


@dataclass(slots=True, eq=False)
class Passages:
    """How placements are improved on the way."""

    scorer: Scorer
    made_fit: Callable[[Scored], Scored]
    """What comes of a placement that nearly fits."""
    best: Scored
    """So far."""
    settled: bool = False
    """Whether no program would tell more."""
    tells: float = -np.inf
    """Seconds; a program that says less with parts of groups allowed is not worth its time."""

    def bounded(self, found: tuple[ByPassage, ...], search: PriceSearch, expired: Callable[[], bool]) -> float:
        """A bound on what fits, of all ``found`` together: that of ``search`` where there are none."""
        price = search.price or self.best.cost / max(1, int(self.scorer.problem.budgets[ACCELERATOR]))
        least = np.inf if found else search.bound
        for each in found:
            least = min(least, each.raised(price, min(least, self.enough), Met(self._met, self._tried), expired))
        self.tells = least * BEHIND if found else -np.inf
        self.settled = bool(found) and (least >= self.enough or any(each.exact for each in found))
        return max(search.bound, least)

    @property
    def enough(self) -> float:
        """A bound that is no longer asked to be raised."""
        return self.best.cost * (1 - AIM_WITH_MOMENTS)

    def _met(self, placement: Placement) -> Told:
        found = self.scorer.score(placement)
        if found.cost < self.best.cost and found.excess <= NEARLY * self.scorer.problem.budgets[ACCELERATOR]:
            self.best = min(self.best, self.made_fit(found), key=lambda one: one.fit_rank)
        return Told(self.enough, found.excess)

    def _tried(self, placement: Placement) -> Told:
        found = self.scorer.score(placement)
        self.best = min(self.best, found, key=lambda one: one.fit_rank)
        return Told(self.enough, found.excess)
