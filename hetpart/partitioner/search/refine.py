"""Local improvement: moves of single groups with hindsight, and sweeps of whole stretches of the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetpart.partitioner.problem import Placement
    from hetpart.partitioner.scores.ledger import Ledger

MOST_OVERLAP = 0.8
TINY = 1e-12
"""Seconds; an improvement below this is rounding."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to go on. Counts, not clocks: equal inputs stop at equal places."""

    passes: int = 6
    patience: int = 60
    """Moves without improvement before a pass is given up."""


def improve(ledger: Ledger, price: float, limit: int, effort: Effort) -> None:
    """Passes of moves until one improves nothing. Ends within ``limit`` bytes if any pass got there."""
    for _ in range(effort.passes):
        before, fitted = ledger.cost, ledger.nbytes <= limit
        _Pass(ledger, price, limit).run(effort.patience)
        if fitted and ledger.cost >= before - TINY:
            return
        if not fitted and ledger.nbytes > limit:
            return


@dataclass(slots=True)
class _Pass:
    """Every group moves at most once, best first at the price, also for the worse; then the best moment is restored.

    The rule of Fiduccia and Mattheyses (1982), with bytes at a price in place of their balance.
    """

    ledger: Ledger
    price: float
    limit: int
    queue: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    waiting: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """(bytes it needs, group): what did not fit when its turn came."""
    moved: list[int] = field(default_factory=list[int])
    locked: set[int] = field(default_factory=set[int])

    def run(self, patience: int) -> None:
        self.queue = [(self._worth(group), group) for group in self.ledger.wiring.movable]
        heapify(self.queue)
        best, best_moves = self._standing(), 0
        while len(self.moved) - best_moves < patience or self.ledger.nbytes > self.limit:
            group = self._next()
            if group is None:
                break
            self._move(group)
            if self._standing() < best:
                best, best_moves = self._standing(), len(self.moved)
        self.ledger.flip_all(reversed(self.moved[best_moves:]))

    def _standing(self) -> tuple[int, float]:
        """Bytes over the limit, then seconds."""
        return max(0, self.ledger.nbytes - self.limit), self.ledger.cost + TINY

    def _worth(self, group: int) -> float:
        seconds, nbytes = self.ledger.delta(group)
        return seconds + self.price * nbytes

    def _next(self) -> int | None:
        """The unmoved group that is worth most and fits. Worths are brought up to date when their turn comes."""
        while self.queue:
            worth, group = heappop(self.queue)
            if group in self.locked:
                continue
            seconds, nbytes = self.ledger.delta(group)
            now = seconds + self.price * nbytes
            if now > worth + TINY:
                heappush(self.queue, (now, group))
            elif nbytes > 0 and self.ledger.nbytes + nbytes > self.limit:
                heappush(self.waiting, (nbytes, group))
            else:
                return group
        return None

    def _move(self, group: int) -> None:
        self.ledger.flip(group)
        self.moved.append(group)
        self.locked.add(group)
        for near in self.ledger.wiring.neighbours[group]:
            if near not in self.locked:
                heappush(self.queue, (self._worth(near), near))
        while self.waiting and self.waiting[0][0] <= self.limit - self.ledger.nbytes:
            _, fitting = heappop(self.waiting)
            heappush(self.queue, (self._worth(fitting), fitting))


def stretches(ledger: Ledger, along: Sequence[int], limit: int, keep: int) -> list[Placement]:
    """The best placements with one stretch of ``along`` on the accelerator and the rest of ``along`` on the host.

    ``along`` must be on the host in ``ledger``, which ends as it was. Each stretch reaches as far as ``limit`` lets it.
    """
    found: list[tuple[float, int, int]] = []
    start = 0
    for end, group in enumerate(along):
        ledger.flip(group)
        while ledger.nbytes > limit and start <= end:
            ledger.flip(along[start])
            start += 1
        found.append((ledger.cost, start, end + 1))
    ledger.flip_all(along[start:])
    return [_flipped(ledger, along[first:last]) for first, last in _distinct(found, keep)]


def gaps(ledger: Ledger, along: Sequence[int], limit: int, keep: int) -> list[Placement]:
    """The same the other way round: ``along`` is on the accelerator, and one stretch leaves it."""
    if ledger.nbytes <= limit:
        return []
    found: list[tuple[float, int, int]] = []
    end = 0
    for start, group in enumerate(along):
        while ledger.nbytes > limit and end < len(along):
            ledger.flip(along[end])
            end += 1
        if ledger.nbytes > limit:
            break
        found.append((ledger.cost, start, end))
        if start < end:
            ledger.flip(group)
    ledger.flip_all(group for group in along if not ledger.side[group])
    return [_flipped(ledger, along[first:last]) for first, last in _distinct(found, keep)]


def _distinct(found: list[tuple[float, int, int]], keep: int) -> list[tuple[int, int]]:
    """The cheapest stretches (seconds, first, last) that overlap each other by less than ``MOST_OVERLAP``."""
    kept: list[tuple[int, int]] = []
    for _, first, last in sorted(found):
        if len(kept) == keep:
            break
        if all(_overlap((first, last), other) < MOST_OVERLAP for other in kept):
            kept.append((first, last))
    return kept


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> float:
    common = min(one[1], other[1]) - max(one[0], other[0])
    return max(0, common) / max(1, one[1] - one[0], other[1] - other[0])


def _flipped(ledger: Ledger, groups: Sequence[int]) -> Placement:
    ledger.flip_all(groups)
    placement = ledger.placement()
    ledger.flip_all(groups)
    return placement
