"""Who waits for whose bytes, in a run of tasks of any length."""

from __future__ import annotations

import random

import pytest

from hetpart.partitioner.timeline.reuse import Holding, waits_for_bytes, waits_one_by_one


def holdings(seed: int) -> list[Holding]:
    """Values of random steps and places. The task of step ``s`` writes what is held from ``s`` and reads the rest."""
    rng = random.Random(seed)
    found: list[Holding] = []
    for _ in range(rng.randint(2, 14)):
        first = rng.randint(0, 9)
        last = min(10, first + rng.randint(0, 3))
        users = tuple(sorted({first, *(step for step in range(first, last + 1) if rng.random() < 0.5)}))
        one = Holding(first, last, rng.randint(0, 30), rng.randint(0, 12), first, users)
        if not any(shares(one, other) and one.first <= other.last and other.first <= one.last for other in found):
            found.append(one)
    return found


def shares(one: Holding, other: Holding) -> bool:
    low, high = max(one.offset, other.offset), min(one.offset + one.nbytes, other.offset + other.nbytes)
    return low < high


def done_before(waits: list[tuple[int, int]]) -> set[tuple[int, int]]:
    """Pairs of tasks the one of which is certain to end before the other starts."""
    certain = set(waits)
    while True:
        more = {(a, d) for a, b in certain for c, d in certain if b == c} - certain
        if not more:
            return certain
        certain |= more


def in_turn(one: Holding, other: Holding, certain: set[tuple[int, int]]) -> bool:
    return any(
        all((user, then.writer) in certain for user in first.users) for first, then in ((one, other), (other, one))
    )


@pytest.mark.parametrize("seed", range(150))
def test_values_that_share_bytes_are_held_in_turn(seed: int) -> None:
    held = holdings(seed)
    waits = waits_for_bytes(held)
    assert all(first < then for first, then in waits)
    certain = done_before(waits)
    for number, one in enumerate(held):
        assert all(in_turn(one, other, certain) for other in held[:number] if shares(one, other))


@pytest.mark.parametrize("seed", range(150))
def test_values_held_at_unlike_steps_are_held_in_turn(seed: int) -> None:
    held = [one for one in holdings(seed) if one.nbytes]
    certain = done_before(waits_one_by_one(held))
    for number, one in enumerate(held):
        for other in held[:number]:
            assert in_turn(one, other, certain) or (one.last >= other.first and other.last >= one.first)


def test_nothing_waits_where_nothing_is_shared() -> None:
    assert waits_for_bytes([Holding(0, 0, 0, 8, 0, (0,)), Holding(1, 1, 8, 8, 1, (1,))]) == []
    assert waits_for_bytes([Holding(0, 0, 0, 8, 0, (0,)), Holding(1, 1, 0, 0, 1, (1,))]) == []
    assert waits_for_bytes([Holding(0, 0, 0, 8, 0, (0,)), Holding(1, 1, 7, 8, 1, (1,))]) == [(0, 1)]
