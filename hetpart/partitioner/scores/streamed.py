"""What a placement of three states costs and holds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.problem import NO_BUDGET
from hetpart.partitioner.scores.cut import Cut, cut
from hetpart.partitioner.scores.liveness import usage
from hetpart.partitioner.scores.rings import ring_cuts
from hetpart.partitioner.scores.scoring import Scored, Scorer, excess, weight_bytes
from hetpart.partitioner.scores.streaming import ThreeStates, with_streamed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.scores.liveness import Packed
    from hetpart.partitioner.scores.scoring import Packing


@dataclass(frozen=True, slots=True, eq=False)
class RingScorer(Scorer):
    """Scores placements of one problem, some of whose values are streamed weights."""

    def _score(self, placement: Placement) -> Scored:
        """The coarsest cut that fits, or the one that comes nearest to it."""
        found: list[Scored] = []
        for finer in self._promising(placement):
            found.append(self._cut_so(placement, finer))
            if found[-1].fits:
                return found[-1]
        return min(found, key=lambda one: one.fit_rank)

    def _promising(self, placement: Placement) -> list[Cut]:
        """Those that may fit, the coarsest first; the one that is least far from it, where none may."""
        known = list(ring_cuts(self.problem, cut(self.problem, placement, self.edges)))
        budget = int(self.problem.budgets[ACCELERATOR])
        room = budget - weight_bytes(self.problem, placement, ACCELERATOR)
        fitting = [one.cut for one in known if budget == NO_BUDGET or one.least_bytes <= room]
        return fitting or [min(known, key=lambda one: one.least_bytes).cut]

    def _cut_so(self, placement: Placement, finer: Cut) -> Scored:
        problem = self.problem
        used = usage(problem, placement, finer)
        if self.packing is not None and used.fits(problem):
            used = used.packed(self.packing(placement, finer, None), finer, problem.budgets != NO_BUDGET)
        cost = problem.cost(placement)
        sessions = float(problem.session_seconds[finer.devices].sum())
        return Scored(placement, finer, used, cost, cost + sessions, excess(problem, used))


@dataclass(frozen=True, slots=True, eq=False)
class StreamScored(Scored):
    """A placement of ``ThreeStates``: ``placement`` and ``cut`` are of its problem, all figures of the true one."""

    own: Scored
    """The same in the problem in question: where ops run, and its cut."""
    streamed: NDArray[np.bool_]
    """(W,) Weights that the accelerator uses and does not hold."""


@dataclass(frozen=True, slots=True, eq=False)
class StreamScorer(Scorer):
    """Scores placements of ``states.problem``."""

    states: ThreeStates = field(kw_only=True)
    plain: Scorer = field(kw_only=True)
    """Of the problem in question, for placements that stream nothing."""

    @classmethod
    def over(cls, problem: PlacementProblem, packing: Packing | None = None) -> StreamScorer:
        """Of a problem whose weights may be streamed."""
        states = ThreeStates.of(problem)
        plain = Scorer.of(replace(problem, streaming=None), packing)
        return cls(states.problem, plain.edges, packing, states=states, plain=plain)

    def score(self, placement: Placement) -> Scored:
        """As every scorer does; weights that the accelerator does not use are held on the host, and cost nothing."""
        return Scorer.score(self, self.states.together(*self.states.apart(placement)))

    def unpacked(self) -> StreamScorer:
        """The same where memory takes no more than what is alive in it."""
        return replace(self, packing=None, known={}, plain=replace(self.plain, packing=None, known={}))

    def _score(self, placement: Placement) -> Scored:
        ops, streamed = self.states.apart(placement)
        own = self._streaming(streamed).score(ops) if streamed.any() else self.plain.score(ops)
        found = Cut(self._partition(own.cut), own.cut.devices)
        return StreamScored(
            placement, found, own.usage, own.cost, own.total_seconds, own.excess, own=own, streamed=streamed
        )

    def _streaming(self, streamed: NDArray[np.bool_]) -> Scorer:
        packing = self.packing

        def packed(placement: Placement, finer: Cut, _: NDArray[np.bool_] | None) -> Packed:
            assert packing is not None
            return packing(placement, finer, streamed)

        problem = with_streamed(self.states.own, streamed)
        return RingScorer(problem, self.plain.edges, None if packing is None else packed)

    def _partition(self, own: Cut) -> NDArray[np.int32]:
        """A holder goes with the op after it, which uses its weight."""
        states = self.states
        partition = np.zeros(states.problem.ops, np.int32)
        partition[states.ops] = own.partition
        following = np.searchsorted(states.ops, states.holders)
        partition[states.holders] = own.partition[following]
        return partition
