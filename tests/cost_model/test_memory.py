from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetpart.cost_model.memory import ALIGNMENT, Interval, aligned, most_alive, pack

intervals = st.lists(
    st.builds(
        lambda first, length, nbytes: Interval(first, first + length, nbytes),
        st.integers(0, 20), st.integers(0, 12), st.integers(0, 5000),
    ),
    max_size=25,
).map(tuple)  # fmt: skip


def alive_at_once(held: tuple[Interval, ...]) -> int:
    """Step by step."""
    return max((sum(aligned(i.nbytes) for i in held if i.first <= step <= i.last) for step in range(40)), default=0)


@given(intervals)
def test_what_is_alive_together_lies_apart(held: tuple[Interval, ...]) -> None:
    packing = pack(held)
    assert len(packing.offsets) == len(held)
    ends = [offset + item.nbytes for offset, item in zip(packing.offsets, held, strict=True)]
    for a, b in combinations(range(len(held)), 2):
        together = held[a].first <= held[b].last and held[b].first <= held[a].last
        assert not together or ends[a] <= packing.offsets[b] or ends[b] <= packing.offsets[a]
    assert all(offset % ALIGNMENT == 0 for offset in packing.offsets)
    assert packing.nbytes >= max(ends, default=0)


@given(intervals)
def test_an_arena_is_between_what_is_alive_at_once_and_everything(held: tuple[Interval, ...]) -> None:
    assert most_alive(held) == alive_at_once(held)
    assert most_alive(held) <= pack(held).nbytes <= sum(aligned(item.nbytes) for item in held)


def test_sequential_values_share_their_place() -> None:
    assert pack(tuple(Interval(step, step, 1000) for step in range(50))).nbytes == 1024
    assert pack(()).nbytes == 0
    assert pack((Interval(0, 5, 0),)).nbytes == 0


def _by_force(held: tuple[Interval, ...]) -> int:
    """The smallest arena there is: every order, each interval at the lowest place that is free for it.

    Some order is that of an optimal packing's offsets, and laid out by it nothing ends higher than there.
    """
    return min(_height(held, order) for order in permutations(range(len(held))))


def _height(held: tuple[Interval, ...], order: tuple[int, ...]) -> int:
    placed: list[tuple[int, int, Interval]] = []
    for item in (held[index] for index in order):
        size, place = aligned(item.nbytes), 0
        for start, end, other in sorted(placed, key=lambda row: row[:2]):
            if item.first <= other.last and other.first <= item.last:
                if start - place >= size:
                    break
                place = max(place, end)
        placed.append((place, place + size, item))
    return max(end for _, end, _ in placed)


@pytest.mark.parametrize("length", [4, 9])
def test_small_packings_are_nearly_optimal(length: int) -> None:
    rng = np.random.default_rng(length)
    ratios: list[float] = []
    for _ in range(60):
        ends = np.sort(rng.integers(0, length, (6, 2)), axis=1).tolist()
        held = tuple(Interval(a, b, int(rng.choice([1, 2, 3, 5, 8])) * ALIGNMENT) for a, b in ends)
        ratios.append(pack(held).nbytes / _by_force(held))
    assert min(ratios) >= 1
    assert np.mean(ratios) <= 1.002
    assert max(ratios) <= 1.25
