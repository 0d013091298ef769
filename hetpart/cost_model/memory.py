"""Place values that are held at different times in one arena."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

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
    offsets = [0] * len(intervals)
    placed: list[int] = []
    for index in sorted(range(len(intervals)), key=lambda i: order(intervals[i])):
        offsets[index] = _lowest_gap(intervals, offsets, placed, index)
        placed.append(index)
    top = max((offset + aligned(item.nbytes) for offset, item in zip(offsets, intervals, strict=True)), default=0)
    return Packing(tuple(offsets), top)


def _lowest_gap(intervals: tuple[Interval, ...], offsets: list[int], placed: list[int], index: int) -> int:
    wanted = intervals[index]
    size = aligned(wanted.nbytes)
    taken = sorted(
        (offsets[other], offsets[other] + aligned(intervals[other].nbytes))
        for other in placed
        if intervals[other].first <= wanted.last and wanted.first <= intervals[other].last
    )
    position = 0
    for start, end in taken:
        if start - position >= size:
            break
        position = max(position, end)
    return position
