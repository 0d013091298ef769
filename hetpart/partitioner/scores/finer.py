"""Sessions cut finer than needs be, so that what runs apart is done with what they made before they make more.

``cut`` makes few partitions: of a training step one session makes all gradients, which wait for its end before the
updates read them, and has copies of all parameters that it reads until then. Where that is more than a budget holds,
the session is parted into as few pieces as hold what fits, each as long as that lets it be. What runs apart comes
before what else might run then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.problem import NO_OP
from hetpart.partitioner.scores.cut import Cut
from hetpart.partitioner.scores.edge_sweeps import Sweeps
from hetpart.partitioner.scores.liveness import buffers, crossing_values
from hetpart.partitioner.scores.spans import Spans
from hetpart.partitioner.uses import unique_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.scores.scoring import Scored

LEAST_PIECES, MOST_PIECES = 2, 16
MOST_TRIED = 3
"""Ways to part the sessions of one placement that are laid out."""


def may_be_cut_finer(problem: PlacementProblem) -> bool:
    """Whether ops that run apart keep states: what those read is gone then, and nothing has come of it."""
    if problem.apart is None or problem.states is None:
        return False
    keepers = problem.states.keeper
    return bool(problem.apart[keepers[keepers != NO_OP]].any())


@dataclass(frozen=True, slots=True, eq=False)
class Finer:
    """What finer cuts of a problem's placements are made from."""

    problem: PlacementProblem
    edges: Sweeps
    """Between ops, and to what keeps a state from those before it that read it: it writes over what they read."""

    @classmethod
    def of(cls, problem: PlacementProblem) -> Finer | None:
        """Nothing where no placement is cut finer."""
        if problem.apart is None or not may_be_cut_finer(problem):
            return None
        producers, users = _edges(problem)
        sweeps = Sweeps.of(producers.astype(np.int32), users.astype(np.int32), problem.ops)
        return cls(problem, sweeps)

    def scored(self, placement: Placement, found: Cut, score: Callable[[Cut], Scored]) -> Iterator[Scored]:
        """Finer cuts than ``found`` that may fit, those of fewest partitions first, each with what ``score`` says."""
        problem = self.problem
        there = np.flatnonzero((placement == ACCELERATOR) & problem.in_sessions)
        room = int(problem.budgets[ACCELERATOR] - problem.held_bytes(placement)[ACCELERATOR]) - problem.given_bytes
        session = int(problem.session_bytes[ACCELERATOR])
        if len(there) < LEAST_PIECES or room < LEAST_PIECES * session:
            return
        order, spans = self._spans(placement, there[np.argsort(found.partition[there], kind="stable")], found)
        pieces, tried, most = LEAST_PIECES, 0, room
        while pieces <= MOST_PIECES and tried < MOST_TRIED:
            parted = spans.parted(min(most, room - pieces * session))
            if parted is None:
                return
            if parted.pieces <= pieces:
                tried += 1
                made = score(self._cut(placement, order, parted.of_op))
                yield made
                most = parted.fullest - max(1, made.excess)
            pieces = max(pieces + 1, parted.pieces)

    def _spans(self, placement: Placement, ops: NDArray[np.int64], found: Cut) -> tuple[NDArray[np.int64], Spans]:
        """Ops in the order that they run in one by one, and what lies on the accelerator from one to another then."""
        problem = self.problem
        single = self._cut(placement, ops, np.arange(len(ops)))
        order = ops[np.argsort(single.partition[ops], kind="stable")]
        steps = single.partition[order]
        held = buffers(problem, placement, single, crossing_values(problem, single))
        here = held.device == ACCELERATOR
        first = np.searchsorted(steps, held.first[here], "left")
        last = np.searchsorted(steps, held.last[here], "right") - 1
        outside = crossing_values(problem, found)[held.value[here]]
        read = first <= last  # not only while others run
        return order, Spans(
            first[read], last[read], held.nbytes[here][read], outside[read], problem.scratch_bytes[order]
        )

    def _cut(self, placement: Placement, order: NDArray[np.int64], piece: NDArray[np.int64]) -> Cut:
        """With the ops of ``order`` in pieces. Places are devices, those of what runs apart first, and pieces."""
        problem, devices = self.problem, len(self.problem.devices)
        places = placement.astype(np.int64)
        places[problem.in_sessions] += devices
        places[order] += piece
        stages = self.edges.forwards.changes(places).astype(np.int64)
        keys, partition = np.unique(stages * (int(places.max()) + 1) + places, return_inverse=True)
        devices_of = np.zeros(len(keys), np.int8)
        devices_of[partition] = placement
        return Cut(partition.astype(np.int32), devices_of)


def _edges(problem: PlacementProblem) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(before, after) of ops, sorted by the latter."""
    assert problem.apart is not None
    assert problem.states is not None
    uses = problem.value_uses
    made = problem.made[uses.rows]
    keepers = problem.states.keeper[uses.rows]
    waits = (keepers != NO_OP) & problem.apart[keepers] & (uses.ops < keepers)
    before = np.concatenate([problem.value_producer[uses.rows][made], uses.ops[waits]]).astype(np.int64)
    after = np.concatenate([uses.ops[made], keepers[waits]]).astype(np.int64)
    users, producers = unique_pairs(after, before)
    return producers, users
