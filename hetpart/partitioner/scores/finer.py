"""Sessions cut finer than needs be, so that what runs apart is done with what they made before they make more.

``cut`` makes few partitions: of a training step one session makes all gradients, which wait for its end before the
updates read them. Where that is more than a budget holds, the session is parted behind ops that let updates begin, into
pieces that hand over about as many bytes each. What runs apart comes before what else might run then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.problem import NO_OP, unique_pairs
from hetpart.partitioner.scores.cut import Cut
from hetpart.partitioner.scores.edge_sweeps import Sweeps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Placement, PlacementProblem

MOST_PIECES = 16
MOST_TRIED = 3
"""Numbers of pieces that are laid out for one placement."""


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
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    """The ends of the edges that lead to ops that run apart, those that lead to later ones behind."""

    @classmethod
    def of(cls, problem: PlacementProblem) -> Finer | None:
        """Nothing where no placement is cut finer."""
        if problem.apart is None or not may_be_cut_finer(problem):
            return None
        producers, users = _edges(problem)
        ending = problem.apart[users]
        sweeps = Sweeps.of(producers.astype(np.int32), users.astype(np.int32), problem.ops)
        return cls(problem, sweeps, producers[ending], users[ending])

    def cuts(self, placement: Placement, found: Cut, excess: int) -> Iterator[Cut]:
        """Finer ones than ``found``, those of fewest partitions first, that may need ``excess`` bytes less."""
        problem = self.problem
        there = (placement == ACCELERATOR) & problem.in_sessions
        order = np.flatnonzero(there)
        order = order[np.argsort(found.partition[order], kind="stable")]
        handed = self._handed_over(there, order)
        total, session = int(handed.sum()), int(problem.session_bytes[ACCELERATOR])
        before, tried = handed.cumsum() - handed, 0
        for pieces in range(2, MOST_PIECES + 1):
            if total - total // pieces < excess or tried == MOST_TRIED:
                if tried:
                    return
                continue
            piece = np.minimum(before * pieces // total, pieces - 1)
            most = int(np.bincount(piece, handed).max())
            if total - most >= excess + (len(np.unique(piece)) - 1) * session:
                tried += 1
                yield self._cut(placement, order, piece)

    def _handed_over(self, there: NDArray[np.bool_], order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Per op of ``order``: bytes of what is made there for ops apart that may run once it has."""
        problem = self.problem
        assert problem.apart is not None
        place = np.full(problem.ops, -1, np.int64)
        place[order] = np.arange(len(order))
        for maker, user in zip(self.before.tolist(), self.after.tolist(), strict=True):
            place[user] = max(place[user], place[maker])
        uses = problem.value_uses
        made = (problem.value_producer != NO_OP) & there[problem.value_producer]
        read = made[uses.rows] & problem.apart[uses.ops] & ~uses.on_host
        last = np.full(problem.values, -1, np.int64)
        np.maximum.at(last, uses.rows[read], place[uses.ops[read]])
        return np.bincount(last[last >= 0], problem.value_bytes[last >= 0], len(order)).astype(np.int64)

    def _cut(self, placement: Placement, order: NDArray[np.int64], piece: NDArray[np.int64]) -> Cut:
        """With the ops of ``order`` in pieces. Places are devices, those of what runs apart first, and pieces."""
        problem, devices = self.problem, len(self.problem.devices)
        places = placement.copy()
        places[problem.in_sessions] += np.int8(devices)
        places[order] += piece.astype(np.int8)
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
