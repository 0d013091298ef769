"""Which tasks must wait until others are done with the memory that they write to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hetpart.plan.occupancy import Occupancy

Waits = list[tuple[int, int]]
"""(first, then): the task ``then`` waits for the task ``first``."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A value in memory: the steps it is held for in serial order, its bytes, who writes it and who uses it."""

    first: int
    last: int
    """Both inclusive."""
    offset: int
    nbytes: int
    writer: int
    users: tuple[int, ...]
    """Every task that writes or reads it."""


def waits_for_bytes(holdings: Iterable[Holding]) -> Waits:
    """Keep values that share bytes from being held at once, in whatever order tasks run.

    Every value waits for the users of those whose bytes it is written over. Those before them were waited for by these.
    """
    held, arena, waits = _by_step(holdings), Occupancy(), Waits()
    for number, holding in enumerate(held):
        for earlier in arena.take(holding.offset, holding.offset + holding.nbytes, number):
            assert held[earlier].last < holding.first, "two values that are held at once share bytes"
            waits += _one_after_the_other(held[earlier], holding)
    return waits


def waits_one_by_one(holdings: Iterable[Holding]) -> Waits:
    """Keep values that are never held at once in serial order from being held at once in any.

    Then all that are held at some moment are held together at one step too: intervals that meet pairwise share a point.
    """
    held, waits = _by_step(holdings), Waits()
    for holding in held:
        ended = [other for other in held if other.last < holding.first]
        latest = max((other.first for other in ended), default=0)
        for other in (other for other in ended if other.last >= latest):
            waits += _one_after_the_other(other, holding)
    return waits


def _by_step(holdings: Iterable[Holding]) -> list[Holding]:
    return sorted((holding for holding in holdings if holding.nbytes), key=lambda holding: holding.first)


def _one_after_the_other(earlier: Holding, later: Holding) -> Waits:
    return [(user, later.writer) for user in earlier.users]
