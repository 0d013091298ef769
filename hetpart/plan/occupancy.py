"""Who held each byte of an arena last."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter

_Piece = tuple[int, int, int]
"""Start, end and holder of bytes."""


@dataclass(slots=True)
class Occupancy:
    """Bytes with their holders, any numbers from 0."""

    _pieces: list[_Piece] = field(default_factory=list[_Piece])
    """Apart from each other, by their starts; so their ends ascend too."""

    def take(self, start: int, end: int, holder: int) -> list[int]:
        """Give the bytes from ``start`` up to ``end``, at least one, to ``holder``; who held any of them, ascending."""
        low = bisect_right(self._pieces, start, key=itemgetter(1))
        high = bisect_left(self._pieces, end, key=itemgetter(0))
        over = self._pieces[low:high]
        self._pieces[low:high] = sorted([*_outside(over, start, end), (start, end, holder)])
        return sorted({piece[2] for piece in over})


def _outside(pieces: list[_Piece], start: int, end: int) -> Iterator[_Piece]:
    for low, high, holder in pieces:
        if low < start:
            yield low, start, holder
        if high > end:
            yield end, high, holder
