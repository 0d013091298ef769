"""What lies on a device from one op to another, and an order of ops parted by what fits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Parted:
    """Ops of an order in pieces, one behind the other."""

    of_op: NDArray[np.int64]
    """The piece of every op, from 0."""
    fullest: int
    """Bytes that the fullest piece holds."""

    @property
    def pieces(self) -> int:
        return int(self.of_op[-1]) + 1


@dataclass(slots=True, eq=False)
class Spans:
    """Values and the ops of an order, both ends inclusive, for which each lies there.

    A piece holds all that lies there beside any of its ops, but what it makes and is done with only op by op.
    """

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    nbytes: NDArray[np.int64]
    outside: NDArray[np.bool_]
    """Whether it is in a buffer however ops are parted."""
    scratch: NDArray[np.int64]
    """Per op: bytes while it runs."""
    _begun: list[list[int]] = field(init=False)
    """Per op: values whose first it is."""
    _ended: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self._begun = [list[int]() for _ in self.scratch]
        self._ended = [list[int]() for _ in self.scratch]
        firsts: list[int] = self.first.tolist()
        lasts: list[int] = self.last.tolist()
        for value, (first, last) in enumerate(zip(firsts, lasts, strict=True)):
            self._begun[first].append(value)
            self._ended[last].append(value)

    def parted(self, room: int) -> Parted | None:
        """In pieces that hold no more than ``room``, each as long as can be; nothing where one op needs more.

        What a piece holds only grows with ops before or behind it, but for what it is done with then: so there are
        hardly fewer pieces.
        """
        of_op, begin, number, fullest = np.empty(len(self.scratch), np.int64), 0, 0, 0
        while begin < len(of_op):
            end, held = self._longest(begin, room)
            if end == begin:
                return None
            of_op[begin:end] = number
            begin, number, fullest = end, number + 1, max(fullest, held)
        return Parted(of_op, fullest)

    def _longest(self, begin: int, room: int) -> tuple[int, int]:
        """Where the longest piece from ``begin`` on ends that fits, and what it holds."""
        waiting = int(self.nbytes[(self.first < begin) & (self.last >= begin)].sum())
        certain, inside, alive = waiting, 0, self.scratch.copy()
        end, held = begin, 0
        for op in range(begin, len(alive)):
            for value in self._begun[op]:
                waiting += int(self.nbytes[value])
                certain += int(self.nbytes[value]) if self.outside[value] else 0
            inside = max(inside, int(alive[op]))
            for value in self._ended[op]:
                first, nbytes = int(self.first[value]), int(self.nbytes[value])
                if first >= begin and not self.outside[value]:
                    waiting -= nbytes
                    alive[first : op + 1] += nbytes
                    inside = max(inside, int(alive[first : op + 1].max()))
            if waiting + inside <= room:
                end, held = op + 1, waiting + inside
            elif certain + inside > room:
                break
        return end, held
