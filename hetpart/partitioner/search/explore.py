"""Placements worth a closer look: the cuts on both sides of the budget, stretches between them, each improved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.mincut import CutNetwork
from hetpart.partitioner.bounds.price import PriceSearch, search_price
from hetpart.partitioner.problem import NO_BUDGET, Placement, PlacementProblem
from hetpart.partitioner.scores.ledger import Ledger
from hetpart.partitioner.scores.scoring import forced_placement
from hetpart.partitioner.scores.wiring import Wiring
from hetpart.partitioner.search.refine import Effort, gaps, improve, stretches

if TYPE_CHECKING:
    from collections.abc import Iterable

UNLIMITED = 2**62
KEPT_STRETCHES = 2


@dataclass(frozen=True, slots=True, eq=False)
class Outlook:
    """A way to see the problem, and what the price search says of it."""

    problem: PlacementProblem
    """Only weights count against its budget."""
    wiring: Wiring
    search: PriceSearch

    @classmethod
    def of(cls, problem: PlacementProblem, wiring: Wiring) -> Outlook:
        return cls(problem, wiring, search_price(problem, CutNetwork.of(problem)))


def explore(outlook: Outlook, more: Iterable[Placement], effort: Effort) -> list[Placement]:
    """Improved placements, cheapest first, those that break the budget last.

    Args:
        outlook: What to place.
        more: Placements to start from beside those found here.
        effort: Per start.
    """
    problem, wiring, found = outlook.problem, outlook.wiring, outlook.search
    limit = limit_of(problem)
    starts = [found.below, found.above, *more]
    starts += _stretched(wiring, found.below, found.above, limit)
    starts += _stretched(wiring, forced_placement(problem), found.met[1], limit)
    ended: dict[bytes, tuple[bool, float, Placement]] = {}
    for start in {start.tobytes(): start for start in starts}.values():
        ledger = Ledger(wiring, start)
        improve(ledger, found.price, limit, effort)
        placement = ledger.placement()
        ended[placement.tobytes()] = (ledger.nbytes > limit, ledger.cost, placement)
    return [placement for _, _, placement in sorted(ended.values(), key=lambda end: end[:2])]


def limit_of(problem: PlacementProblem) -> int:
    """Bytes the accelerator may hold."""
    budget = int(problem.budgets[ACCELERATOR])
    return UNLIMITED if budget == NO_BUDGET else budget


def _stretched(wiring: Wiring, small: Placement, large: Placement, limit: int) -> list[Placement]:
    """``small`` with a stretch of what ``large`` has more, and ``large`` without one."""
    more = np.unique(wiring.groups.of_op[large > small]).tolist()
    return [
        *stretches(Ledger(wiring, small), more, limit, KEPT_STRETCHES),
        *gaps(Ledger(wiring, large), more, limit, KEPT_STRETCHES),
    ]
