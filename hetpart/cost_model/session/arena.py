"""How ONNX Runtime's arena hands out memory: best fit with coalescing, whole chunks where little would be left over.

The rules are those of its ``BFCArena`` and ``MemPatternPlanner``; ``docs/memory.md`` says how they were checked.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

from hetpart.cost_model.memory import ALIGNMENT, aligned

FIRST_REGION = 1 << 20
"""Bytes the arena asks the system for at first; every further region is twice as large."""
MOST_DEAD = 128 << 20
"""Bytes a chunk may waste at most, however large it is, unless the arena is told another figure."""
SPLIT = 2
"""A chunk is split where it is so many times what is asked for."""


@dataclass(frozen=True, slots=True, order=True)
class Chunk:
    """Bytes of a region, ordered as the arena searches: the smallest first, then the lowest address."""

    nbytes: int
    region: int
    """Negative, the newest the lowest: the system places new regions below the old ones."""
    offset: int

    @property
    def end(self) -> int:
        return self.offset + self.nbytes


class Arena:
    """One session's arena.

    Args:
        doubling: Whether it grows by regions that double, as the CPU provider's does, or by what is asked for.
        exact: Whether it splits every chunk that is larger than what is asked for.
    """

    def __init__(self, *, doubling: bool = True, exact: bool = False) -> None:
        self.in_use = 0
        self.peak = 0
        """Most bytes in use so far."""
        self.held = 0
        """Bytes asked of the system; nothing goes back."""
        self._doubling = doubling
        self._most_dead = ALIGNMENT if exact else MOST_DEAD
        self._next_region = FIRST_REGION
        self._regions = 0
        self._free: list[Chunk] = []
        self._starts: dict[tuple[int, int], Chunk] = {}
        self._ends: dict[tuple[int, int], Chunk] = {}

    def allocate(self, nbytes: int) -> Chunk:
        """The chunk that ``nbytes`` get, which may be larger."""
        wanted = aligned(max(nbytes, 1))
        if not self._free or self._free[-1].nbytes < wanted:
            self._extend(wanted)
        found = self._free[bisect_left(self._free, wanted, key=lambda chunk: chunk.nbytes)]
        self._take(found)
        if found.nbytes >= SPLIT * wanted or found.nbytes - wanted >= self._most_dead:
            self._offer(Chunk(found.nbytes - wanted, found.region, found.offset + wanted))
            found = Chunk(wanted, found.region, found.offset)
        self.in_use += found.nbytes
        self.peak = max(self.peak, self.in_use)
        return found

    def release(self, chunk: Chunk) -> None:
        """Give ``chunk`` back; it grows together with what is free beside it."""
        self.in_use -= chunk.nbytes
        before = self._ends.get((chunk.region, chunk.offset))
        if before is not None:
            self._take(before)
            chunk = Chunk(before.nbytes + chunk.nbytes, chunk.region, before.offset)
        after = self._starts.get((chunk.region, chunk.end))
        if after is not None:
            self._take(after)
            chunk = Chunk(chunk.nbytes + after.nbytes, chunk.region, chunk.offset)
        self._offer(chunk)

    def _extend(self, wanted: int) -> None:
        nbytes = wanted
        if self._doubling:
            grown = self._next_region
            while grown < wanted:
                grown *= 2
            nbytes = grown
            self._next_region = grown if grown > self._next_region else 2 * grown
        self._regions += 1
        self.held += nbytes
        self._offer(Chunk(nbytes, -self._regions, 0))

    def _take(self, chunk: Chunk) -> None:
        del self._free[bisect_left(self._free, chunk)]
        del self._starts[chunk.region, chunk.offset]
        del self._ends[chunk.region, chunk.end]

    def _offer(self, chunk: Chunk) -> None:
        insort(self._free, chunk)
        self._starts[chunk.region, chunk.offset] = chunk
        self._ends[chunk.region, chunk.end] = chunk


class Pattern:
    """The one block that later runs take instead of single buffers: the same allocations, laid out ahead."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._blocks: list[tuple[int, int]] = []
        """Offset and end of what is alive, by offset."""

    def allocate(self, nbytes: int) -> tuple[int, int]:
        """Offset and end for ``nbytes``: in the gap that they fill best, else behind all that is alive."""
        wanted = aligned(nbytes)
        end = 0
        gaps: list[tuple[int, int]] = []
        for start, stop in self._blocks:
            if start - end >= wanted:
                gaps.append((start - end, end))
            end = stop
        offset = min(gaps, default=(0, end))[1]
        block = (offset, offset + wanted)
        self.nbytes = max(self.nbytes, block[1])
        insort(self._blocks, block)
        return block

    def release(self, block: tuple[int, int]) -> None:
        """Forget ``block``, which ``allocate`` gave."""
        del self._blocks[bisect_left(self._blocks, block)]
