"""Place values that are held at different times in one arena."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALIGNMENT = 256
"""Bytes. What CUDA's allocators align to; enough for every vector instruction of a CPU."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Bytes held from one step to another, both inclusive."""

    first: int
    last: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Scratch:
    """What a kernel takes while it runs, beside what it reads and makes."""

    blocks: tuple[Interval, ...] = ()
    """In the order it takes them, by its own moments."""
    made_at: int = 0
    """The moment at which it takes what it makes: behind its body where only that tells how much it is."""

    def moments(self) -> list[int]:
        """When something is taken, given back or made, in order."""
        return sorted({self.made_at, *(m for block in self.blocks for m in (block.first, block.last))})


NO_SCRATCH = Scratch()


@dataclass(frozen=True, slots=True)
class Packing:
    """Offset of every interval, in their order, and the arena's size."""

    offsets: tuple[int, ...]
    nbytes: int


def aligned(nbytes: int) -> int:
    """``nbytes`` rounded up to ``ALIGNMENT``."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


_ORDERS: tuple[Callable[[Interval], tuple[int, ...]], ...] = (
    lambda held: (-held.nbytes, held.first),
    lambda held: (-(held.last - held.first), -held.nbytes, held.first),
    lambda held: (-held.nbytes * (held.last - held.first + 1), held.first),
    lambda held: (held.first, -held.nbytes),
)
"""By what intervals are laid out: size, time, both, and the order they begin in."""


def pack(intervals: tuple[Interval, ...]) -> Packing:
    """Lay intervals out so that those alive together never overlap.

    Greedy by size, each into the lowest gap that holds it: the strategy that Pisarchyk and Lee, "Efficient Memory
    Management for Deep Neural Net Inference" (2020), found near-optimal. Where that takes more than the most bytes
    alive at once, other orders are tried too.
    """
    least = most_alive(intervals)
    best = _packed(intervals, _ORDERS[0])
    for order in _ORDERS[1:]:
        if best.nbytes == least:
            break
        best = min(best, _packed(intervals, order), key=lambda packing: packing.nbytes)
    return best


def most_alive(intervals: tuple[Interval, ...]) -> int:
    """Most bytes alive at one step: no packing is smaller."""
    change: dict[int, int] = {}
    for held in intervals:
        change[held.first] = change.get(held.first, 0) + aligned(held.nbytes)
        change[held.last + 1] = change.get(held.last + 1, 0) - aligned(held.nbytes)
    return max(accumulate(change[step] for step in sorted(change)), default=0)


def _packed(intervals: tuple[Interval, ...], order: Callable[[Interval], tuple[int, ...]]) -> Packing:
    turns = sorted(range(len(intervals)), key=lambda i: order(intervals[i]))
    placed = _Placed.of([intervals[index] for index in turns])
    starts = [placed.place(turn) for turn in range(len(turns))]
    offsets = [start for _, start in sorted(zip(turns, starts, strict=True))]
    return Packing(tuple(offsets), int(placed.ends.max(initial=0)))


@dataclass(frozen=True, slots=True, eq=False)
class _Placed:
    """Intervals in the order they are laid out in, and where those lie that were."""

    firsts: NDArray[np.int64]
    lasts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, intervals: list[Interval]) -> _Placed:
        rows = [(held.first, held.last, aligned(held.nbytes), 0, 0) for held in intervals]
        return cls(*np.array(rows, np.int64).reshape(-1, 5).T.copy())

    def place(self, turn: int) -> int:
        """Into the lowest gap that holds it, beside those before it that are alive with it."""
        met = np.flatnonzero((self.firsts[:turn] <= self.lasts[turn]) & (self.firsts[turn] <= self.lasts[:turn]))
        position, size = 0, int(self.sizes[turn])
        for start, end in sorted(zip(self.starts[met].tolist(), self.ends[met].tolist(), strict=True)):
            if start - position >= size:
                break
            position = max(position, end)
        self.starts[turn], self.ends[turn] = position, position + size
        return position
