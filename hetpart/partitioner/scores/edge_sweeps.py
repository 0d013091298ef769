"""Sweeps along the edges between ops, from producers to users or back: the longest way to every op."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Placement

EDGES_PER_LEVEL = 10
"""From so many on, a level is cheaper as one array operation than edge by edge."""


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """Edges in an order in which all that lead to an op precede all that leave it."""

    before: NDArray[np.int32]
    after: NDArray[np.int32]
    levels: Levels | None
    """None where levels are narrow."""

    def changes(self, placement: Placement | NDArray[np.int64]) -> NDArray[np.int32]:
        """(N,) The most device changes on a path to each op; devices, or other places of more numbers."""
        change = placement[self.before] != placement[self.after]
        if self.levels is None:
            return _one_by_one(self.before, self.after, change, len(placement))
        return self.levels.longest(self.before, change, len(placement))


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Edges of a sweep in runs: no edge of a run leads to where another of the same run begins."""

    blocks: tuple[tuple[int, int, int, int], ...]
    """Per run: its edges, from and to, and its ends, from and to."""
    ends: NDArray[np.int32]
    """The ops that edges of a run lead to, each once per run."""
    starts: NDArray[np.int64]
    """Per end: its first edge, counted from the first of its run."""

    @classmethod
    def of(cls, after: NDArray[np.int32], level: NDArray[np.int32]) -> Levels:
        """Of edges sorted by level, then by where they lead. ``level`` is per edge."""
        fresh = np.ones(len(after), np.bool_)
        fresh[1:] = after[1:] != after[:-1]
        first = np.flatnonzero(fresh)
        edges = np.concatenate([[0], np.flatnonzero(np.diff(level)) + 1, [len(after)]])
        ends = np.searchsorted(first, edges)
        blocks = tuple(
            (*edge, *end) for edge, end in zip(pairwise(edges.tolist()), pairwise(ends.tolist()), strict=True)
        )
        return cls(blocks, after[first], first - np.repeat(edges[:-1], np.diff(ends)))

    def longest(self, before: NDArray[np.int32], length: NDArray[np.bool_], ops: int) -> NDArray[np.int32]:
        found = np.zeros(ops, np.int32)
        for first, last, begin, end in self.blocks:
            reached = found[before[first:last]] + length[first:last]
            found[self.ends[begin:end]] = np.maximum.reduceat(reached, self.starts[begin:end])
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Sweeps:
    """Both ways along the same edges."""

    forwards: Sweep
    backwards: Sweep

    @classmethod
    def of(cls, producers: NDArray[np.int32], users: NDArray[np.int32], ops: int) -> Sweeps:
        """Of edges sorted by user, ops being numbered in a topological order."""
        level = _one_by_one(producers, users, np.ones(len(users), np.bool_), ops)
        if len(users) < EDGES_PER_LEVEL * (int(level.max(initial=0)) + 1):
            return cls(Sweep(producers, users, None), Sweep(users[::-1], producers[::-1], None))
        return cls(_by_level(producers, users, level), _by_level(users, producers, level.max() - level))


def _by_level(before: NDArray[np.int32], after: NDArray[np.int32], level: NDArray[np.int32]) -> Sweep:
    order = np.lexsort((after, level[after]))
    before, after = before[order], after[order]
    return Sweep(before, after, Levels.of(after, level[after]))


def _one_by_one(
    before: NDArray[np.int32], after: NDArray[np.int32], length: NDArray[np.bool_], ops: int
) -> NDArray[np.int32]:
    found = [0] * ops
    ends: tuple[list[int], list[int], list[bool]] = before.tolist(), after.tolist(), length.tolist()
    for near, far, step in zip(*ends, strict=True):
        reached = found[near] + step
        if reached > found[far]:
            found[far] = reached
    return np.array(found, np.int32)
