"""Placements by how many partitions they have on the accelerator and by their level, halved where the bound is least.

A bound of all is the least of the bounds of the parts. Few parts may be looked at, and whether numbers or levels raise
the bound sooner depends on the problem: so once numbers are halved before levels, and once levels before numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import isqrt


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """Some placements: both ends are inclusive."""

    bound: float
    fewest: int
    """Partitions, or sessions, on the accelerator."""
    most: int
    lowest: int
    """Which level."""
    highest: int

    def halves(self, by_level: bool) -> tuple[Range, ...]:
        """By level as long as there are several and then by number of partitions, or the other way round."""
        levels, numbers = self.lowest < self.highest, self.fewest < self.most
        if levels and (by_level or not numbers):
            middle = (self.lowest + self.highest) // 2
            return replace(self, highest=middle), replace(self, lowest=middle + 1)
        if numbers:
            middle = min(self.most - 1, isqrt(self.fewest * self.most))
            return replace(self, most=middle), replace(self, fewest=middle + 1)
        return ()


def raised(whole: Range, bounded: Callable[[Range], Range], by_level: bool, goes_on: Callable[[float], bool]) -> float:
    """The bound of ``whole`` after its ranges are halved, the one with the least bound first.

    Args:
        whole: Bounded already.
        bounded: A range with a bound of its own.
        by_level: Whether levels are halved before numbers.
        goes_on: Whether the bound so far is worth another halving.
    """
    left = [whole]
    while goes_on(left[0].bound):
        halves = left[0].halves(by_level)
        if not halves:
            break
        heappop(left)
        for half in halves:
            heappush(left, bounded(half))
    return left[0].bound
