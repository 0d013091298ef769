"""Which tasks must wait until others are done with the memory that they write to."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter

Waits = list[tuple[int, int]]
"""(first, then): the task ``then`` waits for the task ``first``."""
_Piece = tuple[int, int, int]
"""Start, end and holder of bytes."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A value in memory: its bytes, the steps it is held for in serial order, who writes it and who uses it."""

    first: int
    last: int
    """Both inclusive."""
    offset: int
    nbytes: int
    writer: int
    users: tuple[int, ...]
    """Every task that writes or reads it."""


def waits_for_bytes(holdings: Iterable[Holding]) -> Waits:
    """For every value, the last users of the values whose bytes it is written over.

    Those before them were waited for by these, so that whichever tasks overlap, two values that share bytes never do.
    """
    arena = _Arena()
    held = [holding for holding in holdings if holding.nbytes]
    return [wait for holding in sorted(held, key=lambda holding: holding.first) for wait in arena.taken_by(holding)]


@dataclass(slots=True)
class _Arena:
    """Who held each byte last."""

    pieces: list[_Piece] = field(default_factory=list[_Piece])
    """Apart from each other, by their starts."""
    holders: list[Holding] = field(default_factory=list[Holding])

    def taken_by(self, holding: Holding) -> Waits:
        start, end = holding.offset, holding.offset + holding.nbytes
        # Pieces do not overlap, so their ends ascend too.
        low = bisect_right(self.pieces, start, key=itemgetter(1))
        high = bisect_left(self.pieces, end, key=itemgetter(0))
        over = self.pieces[low:high]
        self.pieces[low:high] = [*_left(over, start, end), (start, end, len(self.holders))]
        self.pieces.sort()
        self.holders.append(holding)
        return [wait for number in sorted({piece[2] for piece in over}) for wait in self._wait(number, holding)]

    def _wait(self, number: int, holding: Holding) -> Waits:
        earlier = self.holders[number]
        assert earlier.last < holding.first, "two values that are held at once share bytes"
        return [(user, holding.writer) for user in earlier.users]


def _left(pieces: list[_Piece], start: int, end: int) -> Iterator[_Piece]:
    """What remains of ``pieces`` outside of the bytes from ``start`` to ``end``."""
    for low, high, holder in pieces:
        if low < start:
            yield low, start, holder
        if high > end:
            yield end, high, holder


def waits_one_by_one(holdings: Iterable[Holding]) -> Waits:
    """Keep values that are never held at once in serial order from being held at once in any.

    Then all that are held at some moment are held together at one step too: intervals that meet pairwise share a point.
    """
    held = sorted((holding for holding in holdings if holding.nbytes), key=lambda holding: holding.first)
    waits: Waits = []
    for holding in held:
        ended = [other for other in held if other.last < holding.first]
        latest = max((other.first for other in ended), default=0)
        waits += [
            (user, holding.writer) for other in ended if other.last >= latest for user in other.users
        ]
    return waits
