"""A program halved until a placement is proven, and what its halves are nearest to made placements of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetpart.partitioner.scores.scoring import Scored, Scorer, fit_rank

if TYPE_CHECKING:
    from hetpart.partitioner.bounds.exact import Relaxation
    from hetpart.partitioner.bounds.moments import Moments
    from hetpart.partitioner.bounds.program import Program

MOST_HALVED = 1
"""Times a program is halved."""


@dataclass(frozen=True, slots=True, eq=False)
class Halves:
    """How placements are improved on the way."""

    scorer: Scorer
    promising: Callable[[list[Scored]], list[Scored]]
    """The best of several that are not nearly the same."""
    trimmed: Callable[[Scored], Scored]
    """Makes a placement fit that nearly does."""
    settled: Callable[[Scored], Scored]
    """The same, and as good as it gets step by step."""

    def proven(self, relaxation: Relaxation, stages: Callable[[Program], Moments] | None, best: Scored) -> Scored:
        """``best`` or better, after the bound is raised by halves; once more where a better one proves more."""
        for _ in range(MOST_HALVED if stages is not None else 0):
            assert stages is not None
            found = self._met(relaxation, stages, best)
            if found.cost >= best.cost or relaxation.proves(found):
                return found
            best = found
        return best

    def _met(self, relaxation: Relaxation, stages: Callable[[Program], Moments], best: Scored) -> Scored:
        met = {placement.tobytes(): placement for placement in relaxation.halve(stages, best)}
        near = self.promising([self.scorer.score(placement) for placement in met.values()])
        found = min([best, *map(self.trimmed, near)], key=fit_rank)
        return found if relaxation.proves(found) else min([found, *map(self.settled, near)], key=fit_rank)
