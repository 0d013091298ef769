# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""What lies between two nested cuts, added to the smaller until the budget is full.

All of it is worth its bytes at about the same price, so what counts is to fill the budget. What shares nothing is added
or left as a whole; what is too large for the room gives one stretch of the model, cut where the copies are cheapest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR, HOST
from hetpart.partitioner.problem import NO_OP, Placement, PlacementProblem
from hetpart.partitioner.scores.scoring import weight_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORTHWHILE = 1e-4
"""Share of the budget; less room is left empty rather than filled with a stretch."""
MOST_STRETCHED = 8
"""Pieces that give a stretch."""
NEARBY = 4096
"""Positions that a stretch may end early to be cut off where that is cheaper."""


def filled(problem: PlacementProblem, below: Placement, above: Placement, budget: int) -> Placement:
    """``below`` with as much of what ``above`` has more as keeps its weights within ``budget`` bytes."""
    placement, stretched = below.copy(), 0
    room = budget - weight_bytes(problem, below, ACCELERATOR)
    pieces = Pieces.of(problem, below, above)
    for piece in np.argsort(-pieces.nbytes, kind="stable").tolist():
        nbytes = int(pieces.nbytes[piece])
        if nbytes <= room:
            placement[pieces.ops(piece)] = ACCELERATOR
            room -= nbytes
        elif room > budget * WORTHWHILE and len(pieces.ops(piece)) > 1 and stretched < MOST_STRETCHED:
            stretched += 1
            placement = _with_stretch(problem, placement, pieces.ops(piece), room)
            room = budget - weight_bytes(problem, placement, ACCELERATOR)
    return placement


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Ops that one placement has more than another, in parts that share no value, weight or group."""

    order: NDArray[np.int64]
    """The ops by piece, ascending within each."""
    ends: NDArray[np.int64]
    nbytes: NDArray[np.int64]
    """Per piece: bytes of the weights it brings."""

    @classmethod
    def of(cls, problem: PlacementProblem, below: Placement, above: Placement) -> Pieces:
        more = above > below
        piece, count = _connected(problem, more)
        order = np.flatnonzero(more)
        order = order[np.argsort(piece[order], kind="stable")]
        uses = problem.weight_uses
        fresh = more[uses.ops] & ~uses.on_host & ~problem.held(below)[ACCELERATOR][uses.rows]
        owner = np.full(len(problem.weight_bytes), -1, np.int64)
        owner[uses.rows[fresh]] = piece[uses.ops[fresh]]
        brought = np.flatnonzero(owner >= 0)
        nbytes = np.zeros(count, np.int64)
        np.add.at(nbytes, owner[brought], problem.weight_bytes[brought])
        return cls(order, np.searchsorted(piece[order], np.arange(count + 1)), nbytes)

    def ops(self, piece: int) -> NDArray[np.int64]:
        return self.order[self.ends[piece] : self.ends[piece + 1]]


def _connected(problem: PlacementProblem, among: NDArray[np.bool_]) -> tuple[NDArray[np.int64], int]:
    """(N,) Piece of every op of ``among``, −1 for the others, and the number of pieces."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    made = np.flatnonzero(problem.value_producer != NO_OP)
    links = (
        (problem.groups, np.arange(problem.ops)),
        (problem.value_uses.rows, problem.value_uses.ops),
        (made, problem.value_producer[made]),
        (problem.weight_uses.rows, problem.weight_uses.ops),
    )
    sizes = (int(problem.groups.max(initial=-1)) + 1, problem.values, problem.values, len(problem.weight_bytes))
    firsts = problem.ops + np.array([0, sizes[0], sizes[0], sizes[0] + problem.values])
    hubs = np.concatenate([first + hub for first, (hub, _) in zip(firsts, links, strict=True)])
    ops = np.concatenate([op for _, op in links])
    kept = among[ops]
    nodes = problem.ops + sizes[0] + problem.values + sizes[3]
    edges = coo_array((np.ones(int(kept.sum()), np.int8), (hubs[kept], ops[kept])), shape=(nodes, nodes))
    _, labels = connected_components(edges, directed=False)
    piece = np.full(problem.ops, -1, np.int64)
    names, piece[among] = np.unique(labels[: problem.ops][among], return_inverse=True)
    return piece, len(names)


def _with_stretch(problem: PlacementProblem, base: Placement, ops: NDArray[np.int64], room: int) -> Placement:
    """``base`` with the stretch of ``ops`` on the accelerator that costs least among those that fill ``room``."""
    line = Line.of(problem, base, ops)
    stretches = [base, *(line.flipped(first, last) for first, last in line.stretches(room))]
    held = weight_bytes(problem, base, ACCELERATOR) + room
    fitting = [found for found in stretches if weight_bytes(problem, found, ACCELERATOR) <= held]
    return min(fitting, key=problem.cost)


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """Ops that are to move to the accelerator in a line, groups whole, each at the place of its first op."""

    problem: PlacementProblem
    base: Placement
    place: NDArray[np.int64]
    """(N,) Position in the line; −1 for ops that stay."""
    length: int

    @classmethod
    def of(cls, problem: PlacementProblem, base: Placement, ops: NDArray[np.int64]) -> Line:
        _, first, group = np.unique(problem.groups[ops], return_index=True, return_inverse=True)
        rank = np.empty(len(first), np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        place = np.full(problem.ops, -1, np.int64)
        place[ops] = rank[group]
        return cls(problem, base, place, len(first))

    def flipped(self, first: int, last: int) -> Placement:
        """Positions from ``first`` up to ``last``, exclusive, on the accelerator."""
        found = self.base.copy()
        found[(self.place >= first) & (self.place < last)] = ACCELERATOR
        return found

    def stretches(self, room: int) -> list[tuple[int, int]]:
        """The cheapest stretch that fits, and the cheapest at either end of the line."""
        from scipy.ndimage import minimum_filter1d

        to_end, from_start = self.costs()
        nbytes = self._bytes_until()
        furthest = np.searchsorted(nbytes, nbytes + room, side="right") - 1
        # What a stretch costs is known from its two ends where nothing reaches across all of it.
        near = min(NEARBY, self.length)
        cheapest = minimum_filter1d(to_end, near, origin=(near - 1) // 2, mode="nearest")
        cost = from_start + cheapest[furthest]
        starts = (0, int(cost.argmin()), int(np.argmax(furthest == self.length)))
        return [(start, self._end(to_end, start, int(furthest[start]), near)) for start in starts]

    def _end(self, to_end: NDArray[np.float64], start: int, furthest: int, near: int) -> int:
        nearest = max(start, furthest - near + 1)
        return nearest + int(to_end[nearest : furthest + 1].argmin())

    def costs(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(length + 1,) each: seconds that moving all positions before each adds, and all from each on."""
        mirrored = np.where(self.place >= 0, self.length - 1 - self.place, -1)
        return self._until(self.place), self._until(mirrored)[::-1]

    def _bytes_until(self) -> NDArray[np.int64]:
        """(length + 1,) Bytes of weights that all positions before each bring."""
        uses = self.problem.weight_uses
        brought = (self.place[uses.ops] >= 0) & ~uses.on_host
        first = np.full(len(self.problem.weight_bytes), self.length, np.int64)
        np.minimum.at(first, uses.rows[brought], self.place[uses.ops[brought]])
        first[self.problem.held(self.base)[ACCELERATOR]] = self.length
        total = np.zeros(self.length + 1, np.int64)
        np.add.at(total, first, self.problem.weight_bytes)
        return np.concatenate([[0], total[:-1].cumsum()])

    def _until(self, place: NDArray[np.int64]) -> NDArray[np.float64]:
        """(length + 1,) Seconds that moving all positions before each adds: ops, copies down and copies up."""
        problem, length = self.problem, self.length
        moving = np.flatnonzero(place >= 0)
        swing = problem.seconds[ACCELERATOR, moving] - problem.seconds[HOST, moving]
        change = np.zeros(length + 2)
        np.add.at(change, place[moving] + 1, swing)
        made, on_host, on_accelerator = self._turns(place)
        _paid_between(change, made, on_host, problem.copy_seconds[ACCELERATOR, HOST])
        _paid_between(change, on_accelerator, made, problem.copy_seconds[HOST, ACCELERATOR])
        total = change.cumsum()[: length + 1]
        return total - total[0]

    def _turns(self, place: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """(V,) How many positions have moved when, for each value, three things end.

        That it is made on the host, that the host reads it, and that the accelerator does not read it: −1 for what
        never is, the whole length for what always is.
        """
        problem, length = self.problem, self.length
        still = np.where(self.base == ACCELERATOR, -1, length)
        turn = np.where(place >= 0, place, still)
        made = np.full(problem.values, length, np.int64)
        by = problem.placed_by
        made[by != NO_OP] = turn[by[by != NO_OP]]
        made[problem.given_there] = -1
        uses = problem.value_uses
        rows, readers = uses.rows[~uses.on_host], turn[uses.ops[~uses.on_host]]
        on_host = np.where(problem.wanted_on_host, length, -1)
        on_host[uses.rows[uses.on_host]] = length
        np.maximum.at(on_host, rows, readers)
        on_accelerator = np.full(problem.values, length, np.int64)
        np.minimum.at(on_accelerator, rows, readers)
        on_accelerator[problem.wanted_there] = -1
        return made, on_host, on_accelerator


def _paid_between(
    change: NDArray[np.float64], after: NDArray[np.int64], until: NDArray[np.int64], seconds: NDArray[np.float64]
) -> None:
    """Add what is paid while more than ``after`` and at most ``until`` positions have moved."""
    paid = until > after
    np.add.at(change, after[paid] + 1, seconds[paid])
    np.subtract.at(change, until[paid] + 1, seconds[paid])
