"""One stretch of ops on the accelerator, as long as truly fits: the starts that no estimate of the peak shuts out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.scores.scoring import Scorer, forced_placement

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Placement
    from hetpart.partitioner.scores.scoring import Scored
    from hetpart.partitioner.scores.wiring import Wiring

STARTS = 16
"""Places that a stretch may begin at."""
SCORED_OPS = 60_000
"""Ops scored, all together: large models get fewer starts."""
KEPT = 3
MOST_SHORTENED = 6


@dataclass(frozen=True, slots=True, eq=False)
class Along:
    """Groups in the order in which they first run, of which one stretch goes to the accelerator."""

    scorer: Scorer
    alive: Scorer
    """The same judged by what is alive alone, which is soon told."""
    wiring: Wiring
    base: Placement
    groups: NDArray[np.int64]

    @classmethod
    def of(cls, scorer: Scorer, wiring: Wiring, wanted: Placement) -> Along:
        """What ``wanted`` has on the accelerator and need not be there."""
        base = forced_placement(scorer.problem)
        groups = np.unique(wiring.groups.of_op[wanted > base])
        return cls(scorer, Scorer(scorer.problem, scorer.edges), wiring, base, groups)

    def placed(self, first: int, end: int) -> Placement:
        turned = np.zeros(len(self.wiring.groups), np.bool_)
        turned[self.groups[first:end]] = True
        return np.where(turned[self.wiring.groups.of_op], 1, self.base).astype(np.int8)

    def longest(self, first: int, hint: int) -> int:
        """The end of the longest stretch from ``first`` on that fits, looked for from ``hint`` on."""
        fitting, breaking, step = first, len(self.groups) + 1, 1
        end = max(hint, first + 1)
        while fitting + 1 < breaking:
            if self.alive.score(self.placed(first, end)).fits:
                fitting = end
                end = min(end + step, (fitting + breaking) // 2)
            else:
                breaking = end
                end = max(end - step, (fitting + breaking) // 2)
            step *= 2
        return fitting

    def packed(self, first: int, end: int) -> Scored:
        """The stretch to ``end``, or what is left of it when it fits in real memory too."""
        found = self.scorer.score(self.placed(first, end))
        for turn in range(MOST_SHORTENED):
            if found.fits or end <= first:
                break
            end -= 2**turn
            found = self.scorer.score(self.placed(first, max(first, end)))
        return found


def longest_stretches(scorer: Scorer, wiring: Wiring, wanted: Placement, expired: Callable[[], bool]) -> list[Scored]:
    """The fastest placements that fit with one stretch of what ``wanted`` has on the accelerator, all else on the host.

    From some places along the model on, each as long as its true peak allows.
    """
    along = Along.of(scorer, wiring, wanted)
    groups = len(along.groups)
    starts = max(1, min(STARTS, SCORED_OPS // (6 * max(1, scorer.problem.ops))))
    found: list[Scored] = []
    end = 0
    for first in range(0, groups, max(1, -(-groups // starts))):
        if expired() or end == groups:
            break
        end = along.longest(first, end)
        found.append(along.packed(first, end))
    return sorted(found, key=lambda one: one.fit_rank)[:KEPT]
