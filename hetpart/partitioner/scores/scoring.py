"""What a placement costs and holds, everything counted: the figures every candidate is compared by."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.problem import NO_BUDGET
from hetpart.partitioner.scores.cut import Cut, cut, dependencies
from hetpart.partitioner.scores.finer import Finer
from hetpart.partitioner.scores.liveness import Usage, usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.scores.edge_sweeps import Sweeps
    from hetpart.partitioner.scores.liveness import Packed

    Packing = Callable[[Placement, Cut, NDArray[np.bool_] | None], Packed]
    """Lays out what a placement, cut so, holds in real memory; (W,) of its weights some may be streamed."""


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """A placement with its cut, its peak and its seconds."""

    placement: Placement
    cut: Cut
    usage: Usage
    cost: float
    """Serial seconds that the bound speaks of: session overheads left out."""
    total_seconds: float
    """``cost`` and the overhead of every session."""
    excess: int
    """Bytes over the budgets, all devices together."""

    @property
    def fits(self) -> bool:
        return self.excess == 0

    @property
    def rank(self) -> tuple[float, int, bytes]:
        """Least first; ties go to fewer partitions, then to the lower bytes, so that equal inputs choose alike."""
        return (self.total_seconds, self.cut.partitions, self.placement.tobytes())

    @property
    def fit_rank(self) -> tuple[int, tuple[float, int, bytes]]:
        """Least first: those that fit by rank, then the rest by what they exceed."""
        return (self.excess, self.rank)


def fit_rank(found: Scored) -> tuple[int, tuple[float, int, bytes]]:
    """To sort by."""
    return found.fit_rank


@dataclass(frozen=True, slots=True, eq=False)
class Scorer:
    """Scores placements of one problem, each once."""

    problem: PlacementProblem
    edges: Sweeps
    packing: Packing | None = None
    """Asked of every placement that would fit if memory took no more than what is alive in it."""
    finer: Finer | None = None
    """Of problems whose placements are cut finer where they do not fit otherwise."""
    known: dict[bytes, Scored] = field(default_factory=dict[bytes, Scored])

    @classmethod
    def of(cls, problem: PlacementProblem, packing: Packing | None = None) -> Scorer:
        return cls(problem, dependencies(problem), packing, Finer.of(problem))

    def unpacked(self) -> Scorer:
        """The same where memory takes no more than what is alive in it, which is soon told."""
        return replace(self, packing=None, known={})

    def score(self, placement: Placement) -> Scored:
        key = placement.tobytes()
        if key not in self.known:
            self.known[key] = self._score(placement)
        return self.known[key]

    def _score(self, placement: Placement) -> Scored:
        found = best = self._scored(placement, cut(self.problem, placement, self.edges))
        if best.fits or self.finer is None:
            return best
        for tried in self.finer.scored(placement, found.cut, partial(self._scored, placement)):
            best = min(best, tried, key=lambda scored: scored.fit_rank)
            if best.fits:
                break
        return best

    def _scored(self, placement: Placement, found: Cut) -> Scored:
        used = usage(self.problem, placement, found)
        if self.packing is not None and used.fits(self.problem):
            limited = self.problem.budgets != NO_BUDGET
            used = used.packed(self.packing(placement, found, None), found, limited)
        cost = self.problem.cost(placement)
        sessions = float(self.problem.session_seconds[found.devices].sum())
        return Scored(placement, found, used, cost, cost + sessions, excess(self.problem, used))


def excess(problem: PlacementProblem, used: Usage) -> int:
    """Bytes over the budgets, all devices together."""
    limited = problem.budgets != NO_BUDGET
    return int(np.maximum(used.peak[limited] - problem.budgets[limited], 0).sum())


def weight_bytes(problem: PlacementProblem, placement: Placement, device: int) -> int:
    """Bytes of the weights that ``device`` holds, and of what the caller holds there as long."""
    weights = int(problem.held_bytes(placement)[device])
    if problem.value_kept is None:
        return weights
    return weights + int(problem.value_bytes[problem.given_there & (problem.kept == device)].sum())


def forced_placement(problem: PlacementProblem) -> Placement:
    """Everything on the host that may be there: no legal placement has less on an accelerator."""
    legal = problem.legal()
    return np.argmax(legal, axis=0).astype(np.int8)
