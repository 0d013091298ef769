"""Long partitions, cut short where that costs least, so that none of them holds too much of what crosses its border.

Every partition takes a session's bytes, and what is copied for a partition lies in buffers while it runs. So of layers
that each bring something to copy, few partitions hold much of that and many take many sessions: with session bytes S
and bytes C that cross in all, n partitions take n S + C / n, which is least where each holds √(S C). Cheap places to
cut are those that the cheapest cut without sessions leaves on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.chain import Ways, heaviest_chain
from hetpart.partitioner.bounds.mincut import CutNetwork, Path, stretches
from hetpart.partitioner.bounds.price import search_price
from hetpart.partitioner.scores.ledger import Ledger
from hetpart.partitioner.scores.sessions import is_session
from hetpart.partitioner.scores.wiring import Wiring, rows_of
from hetpart.partitioner.search.fill import Pieces, filled
from hetpart.partitioner.search.parts import Parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.bounds.price import PriceSearch
    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.scores.scoring import Scored, Scorer

MOST_PATHS = 3
"""Along which sessions are counted."""
PARTS = (0.5, 0.7, 1.0, 1.4, 2.0)
"""Of √(S C), what a partition may hold."""
WORTH = 0.9
"""Of the price: at the price itself all that a cut may take or leave is worth just its bytes."""
MOST_ROUNDS = 6
ENOUGH = 1e-3
"""Share of the budget that may stay empty."""


def paced(scorer: Scorer, within: PlacementProblem, price: float, expired: Callable[[], bool]) -> list[Scored]:
    """Placements whose partitions share out what crosses; none where nothing does.

    Args:
        scorer: Of the problem.
        within: The problem with what can fit nowhere shut out.
        price: Of a byte on the accelerator.
        expired: Whether time is up.
    """
    chain = heaviest_chain(within)
    if not len(chain) or price <= 0.0:
        return []
    pacer = _Pacer.of(scorer, within, price, chain)
    budget = int(within.budgets[ACCELERATOR])
    _, sizes = pacer.cut_short(pacer.whole(budget), 0.0)
    most = sqrt(float(within.session_bytes[ACCELERATOR]) * float(sizes.sum()))
    if most <= 0.0:
        return []
    return [pacer.fitted(budget, part * most) for part in PARTS if not expired()]


@dataclass(frozen=True, slots=True, eq=False)
class _Pacer:
    scorer: Scorer
    within: PlacementProblem
    price: float
    search: PriceSearch
    network: CutNetwork
    wiring: Wiring
    parts: Parts

    @classmethod
    def of(cls, scorer: Scorer, within: PlacementProblem, price: float, chain: NDArray[np.int64]) -> _Pacer:
        network, search = _counted(within, chain)
        wiring = Wiring.of(within)
        return cls(scorer, within, price, search, network, wiring, Parts.of(scorer, wiring, price))

    def fitted(self, budget: int, most: float) -> Scored:
        """The best whose partitions hold ``most`` bytes of what crosses, with weights as far as there is room."""
        weights, best = budget, None
        for _ in range(MOST_ROUNDS):
            found = self.scorer.score(self.cut_short(self.whole(weights), most)[0])
            best = found if best is None else min(best, found, key=lambda one: one.fit_rank)
            excess = int(found.usage.peak[ACCELERATOR]) - budget
            if -ENOUGH * budget < excess <= 0:
                break
            weights = max(0, weights - excess)
        assert best is not None
        return best

    def whole(self, weights: int) -> Placement:
        """The cheapest with so many bytes of weights, without partitions that are not worth their bytes."""
        budgets = self.within.budgets.copy()
        budgets[ACCELERATOR] = weights
        search = search_price(replace(self.within, budgets=budgets), self.network, self.search.cuts)
        return self._pruned(filled(self.within, search.below, np.maximum(search.above, search.below), weights))

    def _pruned(self, placement: Placement) -> Placement:
        """Partitions leave the accelerator that save fewer seconds than their bytes are worth."""
        wiring, ledger = self.wiring, Ledger(self.wiring, placement)
        found = self.scorer.score(placement).cut
        session, movable = int(self.within.session_bytes[ACCELERATOR]), set(wiring.movable)
        members = np.stack([found.partition.astype(np.int64), wiring.groups.of_op], axis=1)
        counted = is_session(self.within, found) & (found.devices == ACCELERATOR)
        for there, groups in zip(counted.tolist(), rows_of(members, found.partitions), strict=True):
            if there and movable.issuperset(groups):
                seconds, nbytes = ledger.cost, ledger.nbytes
                ledger.flip_all(groups)
                if ledger.cost - seconds > WORTH * self.price * (nbytes - ledger.nbytes + session):
                    ledger.flip_all(groups)
        return ledger.placement()

    def cut_short(self, whole: Placement, most: float) -> tuple[Placement, NDArray[np.int64]]:
        """``whole`` with as few pieces on the host as keep what crosses within ``most`` bytes between two of them.

        Also the bytes that every piece brings.
        """
        split = whole & self.parts.cheap
        pieces = Pieces.of(self.within, split, whole)
        sizes = self.parts.crossing(pieces, whole)
        return self.parts.joined(split, pieces, sizes, most), sizes


def _counted(within: PlacementProblem, chain: NDArray[np.int64]) -> tuple[CutNetwork, PriceSearch]:
    """A price search that counts sessions along paths, the heaviest and those that what it finds enters most often."""
    ways, paths = Ways.of(within), [chain]
    while True:
        each = float(within.session_bytes[ACCELERATOR]) / len(paths)
        network = CutNetwork.of(within, *(Path(path, each) for path in paths))
        search = search_price(within, network)
        often = ways.most_often(search.below)
        most = max(stretches(path, search.below) for path in paths)
        if len(paths) == MOST_PATHS or stretches(often, search.below) <= most:
            return network, search
        paths.append(often)
