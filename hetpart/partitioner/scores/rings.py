"""Cuts for streamed weights: partitions so small that what streams through them fits in little memory.

While a partition runs, its streamed weights lie on the accelerator, and those of the next are copied there. So the
finer the cut, the less is held, and the more sessions there are. Where a partition that streams nothing lies between
two that stream, what the two bring is never there together.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.scores.cut import Cut
from hetpart.partitioner.scores.sessions import sessions_on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hetpart.partitioner.problem import PlacementProblem

PIECES = (*range(2, 17), 18, 20, 22, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128)
"""In how many pieces what is streamed comes: what is tried, one after another."""
HALVINGS = 8
"""Of what the largest piece is looked for between."""

STEPS = (4, 2, 1)
"""Places to cut at, of which every so many is: where sessions cost nothing, what is inside of them takes no room."""


@dataclass(frozen=True, slots=True, eq=False)
class RingCut:
    """A cut, and what streamed weights and sessions take on the accelerator at least."""

    cut: Cut
    least_bytes: int


def ring_cuts(problem: PlacementProblem, found: Cut) -> Iterator[RingCut]:
    """``found``, and what it becomes with the accelerator's partitions in smaller and smaller pieces.

    First of so many bytes at most, one behind another or with what streams nothing between them; then of so many ops.
    """
    if problem.streamed is None or not problem.streamed.any():
        yield RingCut(found, 0)
        return
    order = np.argsort(found.partition, kind="stable")
    brought = _brought(problem, found)
    yield RingCut(found, _least_bytes(problem, found, brought))
    ends = _ends(problem, found, order)
    stretches = _Stretches.of(brought[order], ends, _crossing(problem, order))
    pieces = [
        *(stretches.pieced(firsts, apart=apart) for firsts in stretches.shared() for apart in (False, True)),
        *(_every(ends, step, problem.ops) for step in STEPS),
    ]
    cuts = {finer.partitions: finer for finer in (_numbered(found, order, piece) for piece in reversed(pieces))}
    for partitions in sorted(cuts):
        if partitions > found.partitions:
            yield RingCut(cuts[partitions], _least_bytes(problem, cuts[partitions], brought))


def _least_bytes(problem: PlacementProblem, found: Cut, brought: NDArray[np.int64]) -> int:
    """Every session's bytes, and what is brought to two partitions that follow each other."""
    here = found.devices == ACCELERATOR
    each = np.zeros(found.partitions, np.int64)
    np.add.at(each, found.partition, brought)
    each = each[here]
    pairs = each[1:] + each[:-1] if len(each) > 1 else each
    sessions = int(sessions_on(problem, found)[ACCELERATOR])
    return int(pairs.max(initial=0)) + sessions * int(problem.session_bytes[ACCELERATOR])


def _brought(problem: PlacementProblem, found: Cut) -> NDArray[np.int64]:
    """(N,) Bytes of the streamed weights that each op on the accelerator is the first of its partition to use."""
    assert problem.streamed is not None
    uses = problem.value_uses
    there = problem.streamed[uses.rows] & ~uses.on_host & (found.devices[found.partition[uses.ops]] == ACCELERATOR)
    values, ops = uses.rows[there], uses.ops[there].astype(np.int64)
    # Of the uses of a weight in a partition the first op's comes first.
    order = np.lexsort((ops, found.partition[ops], values))
    values, ops = values[order], ops[order]
    partition = found.partition[ops]
    first = np.ones(len(ops), np.bool_)
    first[1:] = (values[1:] != values[:-1]) | (partition[1:] != partition[:-1])
    brought = np.zeros(problem.ops, np.int64)
    np.add.at(brought, ops[first], problem.value_bytes[values[first]])
    return brought


def _ends(problem: PlacementProblem, found: Cut, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions in ``order`` before which a partition may be cut: no group of a partition lies on both sides.

    The last is behind all ops.
    """
    count = len(order)
    span = int(problem.groups.max(initial=0)) + 1
    _, group = np.unique(found.partition[order].astype(np.int64) * span + problem.groups[order], return_inverse=True)
    first = np.full(count, count, np.int64)
    last = np.full(count, -1, np.int64)
    np.minimum.at(first, group, np.arange(count))
    np.maximum.at(last, group, np.arange(count))
    inside = np.zeros(count + 2, np.int64)
    here = last >= 0
    np.add.at(inside, first[here] + 1, 1)
    np.subtract.at(inside, last[here] + 1, 1)
    return np.flatnonzero(inside.cumsum()[: count + 1] == 0)[1:]


@dataclass(frozen=True, slots=True, eq=False)
class _Stretches:
    """Ops, in the order they run, that no cut parts and that bring something to their partition."""

    left: NDArray[np.int64]
    """Per stretch but the first: the position to end a piece at that ends before it, where least crosses."""
    begins: NDArray[np.int64]
    """Per stretch but the first: the position to begin a piece at that begins with it; behind ``left`` if it can be."""
    sums: list[int]
    """Bytes of all before each, and of all."""
    largest: int
    ops: int

    @classmethod
    def of(cls, brought: NDArray[np.int64], ends: NDArray[np.int64], crossing: NDArray[np.int64]) -> _Stretches:
        starts = np.concatenate([[0], ends[:-1]])
        nbytes = np.add.reduceat(brought, starts) if len(ends) else brought
        bringing = np.flatnonzero(nbytes)
        sums = np.concatenate([[0], nbytes[bringing].cumsum()]).tolist()
        first, last = bringing[:-1] + 1, bringing[1:]
        left = _least(crossing[starts], first, np.maximum(first, last - 1))
        begins = _least(crossing[starts], np.minimum(left + 1, last), last)
        return cls(starts[left], starts[begins], sums, int(nbytes.max(initial=0)), len(brought))

    def shared(self) -> Iterator[list[int]]:
        """The first stretch of every piece, for more and more pieces, the largest of which is as small as can be."""
        finest = len(self._within(self.largest))
        for count in PIECES:
            yield self._shared_by(count)
            if count >= finest:  # more pieces have no smaller largest one
                return

    def _shared_by(self, count: int) -> list[int]:
        """``count`` pieces or fewer."""
        least = max(self.largest, -(-self.sums[-1] // count))
        found = self._within(least)
        if len(found) <= count:
            return found
        most = least + self.largest
        found = self._within(most)
        for _ in range(HALVINGS):
            middle = (least + most) // 2
            shared = self._within(middle)
            least, most, found = (least, middle, shared) if len(shared) <= count else (middle, most, found)
        return found

    def _within(self, most: int) -> list[int]:
        """The first of every piece, where each takes as many as bring ``most`` bytes."""
        firsts, first = list[int](), 0
        while first < len(self.sums) - 1:
            firsts.append(first)
            first = bisect_right(self.sums, self.sums[first] + most, first + 1) - 1
        return firsts

    def pieced(self, firsts: list[int], *, apart: bool) -> NDArray[np.int64]:
        """Per position: a number that rises where a piece begins; ``apart``, also where the one before it ends."""
        fresh, later = np.zeros(self.ops + 1, np.int64), np.array(firsts[1:], np.int64) - 1
        if apart:
            fresh[self.begins[later]] = 1
        fresh[self.left[later]] = 1
        return fresh[:-1].cumsum()


def _least(figures: NDArray[np.int64], first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.int64]:
    """Per range, both ends inclusive: where the least of the figures is, the first of equals."""
    if not len(first):
        return first
    keyed = np.append(figures * len(figures) + np.arange(len(figures)), np.iinfo(np.int64).max)
    return np.minimum.reduceat(keyed, np.stack([first, last + 1], axis=1).ravel())[::2] % len(figures)


def _crossing(problem: PlacementProblem, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Per position: bytes of what ops before it make and ops from it on read."""
    uses, made = problem.value_uses, np.flatnonzero(problem.made)
    position = np.empty(problem.ops, np.int64)
    position[order] = np.arange(problem.ops)
    last = np.zeros(problem.values, np.int64)
    np.maximum.at(last, uses.rows, position[uses.ops])
    first = position[problem.value_producer[made]] + 1
    change = np.zeros(problem.ops + 2, np.int64)
    np.add.at(change, first, problem.value_bytes[made])
    np.subtract.at(change, np.maximum(last[made] + 1, first), problem.value_bytes[made])
    return change.cumsum()


def _every(ends: NDArray[np.int64], step: int, count: int) -> NDArray[np.int64]:
    """Per position: a number that rises at every so many of ``ends``."""
    fresh = np.zeros(count, np.int64)
    fresh[ends[step - 1 : -1 : step]] = 1
    return fresh.cumsum()


def _numbered(found: Cut, order: NDArray[np.int64], piece: NDArray[np.int64]) -> Cut:
    """Partitions in the order they ran, each in its pieces."""
    partition = found.partition[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = partition[1:] != partition[:-1]
    fresh[1:] |= (piece[1:] != piece[:-1]) & (found.devices[partition[1:]] == ACCELERATOR)
    number = np.empty(len(order), np.int32)
    number[order] = fresh.cumsum() - 1
    return Cut(number, found.devices[partition[fresh]])
