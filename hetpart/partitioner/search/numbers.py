"""Placements of several partitions on the accelerator, number by number: what each costs at least, and what is met."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.bounds.branches import branch_between, branch_of
from hetpart.partitioner.bounds.by_borders import SEVERAL, bounds_by_number
from hetpart.partitioner.bounds.clock import Clock
from hetpart.partitioner.bounds.coarse import coarsened
from hetpart.partitioner.bounds.exact import AIM_WITH_MOMENTS, Relaxation
from hetpart.partitioner.bounds.whichever import needy
from hetpart.partitioner.scores.scoring import fit_rank
from hetpart.partitioner.search.halves import Halves

if TYPE_CHECKING:
    from hetpart.partitioner.bounds.branches import Branch
    from hetpart.partitioner.bounds.price import PriceSearch
    from hetpart.partitioner.bounds.ranges import Range
    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.scores.scoring import Scored
    from hetpart.partitioner.search.candidates import Candidates
    from hetpart.partitioner.search.windows import Windows

TELLING = 3e-3
"""Relative; where a program says less than that more than its number of partitions did, the next are left out."""
SOON_SOLVED, SOON_STAGED = 128, 250
"""Groups, and ops times partitions, up to which programs of what may be cut finer are solved whatever they say with
parts allowed: whole groups, and values that lie beside one session or another, tell much more."""
MOST_STAGED = 2500
"""Ops times partitions up to which programs of so many partitions are written down."""
SHUT_OUT = 0.05
"""Of the nodes, what such a program gets whose halves say too little."""
TREE = 0.7
"""Of the time that is left, for that: there may be further numbers."""
LOST = 3e-4
"""Relative; what a bound may lose for a smaller program."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """What is looked at."""

    run: Candidates
    """How placements are made to fit, and parted."""
    search: PriceSearch
    clock: Clock
    windows: Windows

    @property
    def within(self) -> PlacementProblem:
        """With what can fit nowhere shut out."""
        return self.run.wiring.problem

    @property
    def may_be_cut_finer(self) -> bool:
        return self.run.scorer.finer is not None

    def proven(self, best: Scored) -> tuple[Scored, float, bool]:
        """``best`` or better, a bound on what has two partitions or more, and whether no other is to be looked for."""
        bounds, tells = list[float](), True
        parts = bounds_by_number(self.within, self.search.met, _aim(best), self.clock.expired)
        if self._needy:
            best, parts = self._all_counted(parts, best)
        for part in parts:
            bound = part.bound
            one = tells and part.fewest == part.most and self._coarse_ops * part.most <= MOST_STAGED
            if bound < _aim(best) and not (one and self._needy):
                # A bound of all is the least of all: others are not shut out where one is left open.
                closed = min(bounds, default=np.inf) >= _aim(best)
                best, bound = self._by_sessions(part, best, shut=closed)
            if one and bound < _aim(best):
                best, by_stages = self._staged(part.most, best)
                tells, bound = by_stages > part.bound * (1 + TELLING), max(bound, by_stages)
            bounds.append(bound)
        bound = min(bounds, default=-np.inf)
        return best, bound, bound >= _aim(best)

    def _all_counted(self, parts: tuple[Range, ...], best: Scored) -> tuple[Scored, tuple[Range, ...]]:
        """``best`` or better, and every part with what is soon told of it, before trees take the time that there is."""
        told: list[Range] = []
        for part in parts:
            bound = part.bound
            if bound < _aim(best):
                best, bound = self._counted(part, best, shut=False)
            told.append(replace(part, bound=bound))
        return best, tuple(told)

    @cached_property
    def _coarse_ops(self) -> int:
        return coarsened(self.within, self.search.bound * LOST).problem.ops

    @cached_property
    def _needy(self) -> bool:
        """Whether programs of so many partitions tell so much that theirs are the trees that are searched."""
        return not self.may_be_cut_finer and self._coarse_ops * SEVERAL <= MOST_STAGED and needy(self.within)

    def _counted(self, part: Range, best: Scored, *, shut: bool) -> tuple[Scored, float]:
        """``best`` or better, and the bound of ``part`` by rows that count sessions; ``shut``, as far as it matters."""
        branch = branch_between(self.within, part.fewest, part.most)
        if branch is None:
            return best, np.inf
        relaxation = Relaxation.of(branch.problem, self.search.price, part.bound, self.clock, branch.rows)
        if relaxation is None:
            return best, part.bound
        met = [*map(self.run.scorer.score, relaxation.relaxed())]
        tells = shut and relaxation.bound > part.bound * (1 + TELLING)
        if tells or (self.may_be_cut_finer and relaxation.program.groups <= SOON_SOLVED):
            met = relaxation.shut_out(best, self.run.scorer.score) or met
        return min([best, *map(self.run.trimmed, met)], key=fit_rank), relaxation.bound

    def _by_sessions(self, part: Range, best: Scored, *, shut: bool) -> tuple[Scored, float]:
        """As ``_counted``, and by halves where it is of one number: whole pieces beside sessions are soon told."""
        best, bound = self._counted(part, best, shut=shut)
        if bound >= _aim(best) or part.fewest < part.most:
            return best, bound
        found = self._halved(branch_between(self.within, part.most, part.most), best)
        return found.best, max(bound, found.bound)

    def _halved(self, branch: Branch | None, best: Scored) -> _Halved:
        """``best`` or better, and a bound of ``branch``, of fewer ops, by halves of its program."""
        if branch is None:
            return _Halved(best, np.inf, [])
        coarse = coarsened(branch.problem, best.cost * LOST)
        relaxation = Relaxation.of(coarse.problem, self.search.price, -np.inf, self.clock, branch.rows)
        if relaxation is None:
            return _Halved(best, -np.inf, [])

        def score(placement: Placement) -> Scored:
            return self.run.scorer.score(coarse.placed(placement))

        if self._needy:
            relaxation.refute(best)
        best, met = Halves(self.run, score).proven(relaxation, best)
        stages = sum(map(len, relaxation.moments.stages)) // 2
        if self._needy:
            relaxation.clock = Clock.of(self.clock.left * TREE)
            met = relaxation.shut_out(best, score, SHUT_OUT) or met
        elif self.may_be_cut_finer and 0 < stages <= SOON_STAGED:
            met = relaxation.shut_out(best, score) or met
        return _Halved(best, relaxation.bound, met)

    def _staged(self, partitions: int, best: Scored) -> tuple[Scored, float]:
        """``best`` or better, and the bound of so many partitions."""
        assert self.run.parts is not None
        if self._needy:
            best = min([best, *map(self.run.settled, self.windows.chosen(partitions)[:1])], key=fit_rank)
        found = self._halved(branch_of(self.within, partitions), best)
        parted = [
            self.run.scorer.score(one) for first in found.met[:1] for one in self.run.parts.parted(first.placement)
        ]
        return min([found.best, *map(self.run.trimmed, parted)], key=fit_rank), found.bound


@dataclass(frozen=True, slots=True, eq=False)
class _Halved:
    best: Scored
    bound: float
    met: list[Scored]
    """The first is what the whole program is nearest to."""


def _aim(best: Scored) -> float:
    return best.cost * (1 - AIM_WITH_MOMENTS)
