"""What memory buys along a curve, and its knees."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetpart.partitioner.slopes import with_knees, with_prices
from hetpart.plan.curves import CurvePoint


def points_of(*seconds: float) -> list[CurvePoint]:
    return [CurvePoint(10 * index, value) for index, value in enumerate(seconds)]


@pytest.mark.parametrize(
    ("seconds", "bought"),
    [((10, 8, 8, 2), (8 / 30, 6 / 20, 6 / 10, 0.5)), ((4, 4, 4), (0, 0, 0.5)), ((4,), (0.5,)), ((), ())],
)
def test_what_memory_buys_is_the_steepest_way_down_the_curve(
    seconds: tuple[float, ...], bought: tuple[float, ...]
) -> None:
    points = [replace(point, price=0.5) for point in points_of(*seconds)]
    assert [point.price for point in with_prices(points)] == pytest.approx([*bought])
    short = CurvePoint(-10, required_bytes=3)
    assert with_prices([short, *points]) == (short, *with_prices(points))


def test_where_more_memory_is_known_to_buy_nothing_is_a_knee() -> None:
    *before, last = points_of(10, 9, 6, 1)
    assert not any(point.knee for point in with_knees([*before, last]))
    assert [point.knee for point in with_knees([*before, replace(last, price=0.0)])] == [False, False, False, True]


@pytest.mark.parametrize(
    ("seconds", "knees"),
    [
        ((10, 8, 6, 4, 2, 0), []),
        ((10, 5, 1, 0.9, 0.8), [20]),
        ((10, 10, 10, 2, 2, 2), [30]),
        ((10, 5, 5, 5, 4, 4), [10, 40]),
        ((4, 4, 4), []),
        ((4,), []),
        ((), []),
    ],
)
def test_knees_are_where_memory_begins_to_buy_much_less(seconds: tuple[float, ...], knees: list[int]) -> None:
    assert [point.budget_bytes for point in with_knees(points_of(*seconds)) if point.knee] == knees
