"""A program halved until a placement is proven, and what its halves are nearest to made placements of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.scores.scoring import Scored, fit_rank

if TYPE_CHECKING:
    from hetpart.partitioner.bounds.exact import Relaxation
    from hetpart.partitioner.bounds.moments import Moments
    from hetpart.partitioner.bounds.program import Program
    from hetpart.partitioner.problem import Placement
    from hetpart.partitioner.search.candidates import Candidates


MOST_SETTLED = 3
"""On the way."""
NEARLY = 0.01
"""Of the budget, what a placement may take beyond it that is made to fit at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Halves:
    """How placements are improved on the way."""

    run: Candidates
    score: Callable[[Placement], Scored]
    """Of what the program places."""

    @property
    def budget(self) -> int:
        return int(self.run.scorer.problem.budgets[ACCELERATOR])

    def proven(
        self, relaxation: Relaxation, best: Scored, stages: Callable[[Program], Moments] | None = None
    ) -> tuple[Scored, list[Scored]]:
        """``best`` or better, after the bound is raised by halves, and what was met on the way."""
        looked = _Looked(self, best)
        relaxation.halve(best, looked.at, stages)
        best, met = looked.best, [*looked.met.values()]
        if not relaxation.proves(best):
            best = min([best, *map(self.run.settled, self.run.promising(met))], key=fit_rank)
        return best, met


@dataclass(slots=True, eq=False)
class _Looked:
    halves: Halves
    best: Scored
    met: dict[bytes, Scored] = field(default_factory=dict[bytes, Scored])
    settled: int = 0
    promised: float = np.inf
    """Seconds, by the best of those that were settled."""

    def at(self, placement: Placement) -> Scored:
        """The best so far, with this one made to fit if it nearly does and costs less."""
        key = placement.tobytes()
        if key not in self.met:
            found = self.met[key] = self.halves.score(placement)
            self.best = min([self.best, *self._improved(found)], key=fit_rank)
        return self.best

    def _improved(self, found: Scored) -> Iterator[Scored]:
        run = self.halves.run
        if found.cost < self.best.cost and found.excess <= NEARLY * self.halves.budget:
            yield run.trimmed(found)
        seconds = run.promise(found)[0]
        if seconds < min(self.promised, self.best.cost) and self.settled < MOST_SETTLED:
            self.promised = seconds
            self.settled += 1
            yield run.settled(found)
