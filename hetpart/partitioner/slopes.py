"""What a curve of latency against budget shows: how much a byte buys at every point, and where that falls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hetpart.plan.curves import CurvePoint

_KNEE_GAIN = 0.05
"""Part of all that memory buys that the stretch before a knee must buy."""
_KNEE_BEND = 0.5
"""Behind a knee a byte buys at most this part of what it buys before it."""


def with_prices(points: Sequence[CurvePoint]) -> tuple[CurvePoint, ...]:
    """``points`` by ascending budget, each with what a byte buys at most on the way to a later one.

    The price at the bound knows the memory of weights alone: where activations fill the budget it is 0.
    """
    fitting = [point for point in points if point.fits]
    slopes = {
        here.budget_bytes: max(_slope(here, later) for later in fitting[place:])
        for place, here in enumerate(fitting[:-1], 1)
    }
    return tuple(replace(point, price=slopes.get(point.budget_bytes, point.price)) for point in points)


def with_knees(points: Sequence[CurvePoint]) -> tuple[CurvePoint, ...]:
    """``points`` by ascending budget, those marked where a byte begins to buy much less.

    Judged on the lower convex hull, so that a plateau before a step is no knee. Behind the last one lies nothing where
    a byte is known to buy nothing there.
    """
    hull = _hull([point for point in points if point.seconds is not None])
    whole = _seconds(hull[0]) - _seconds(hull[-1]) if hull else 0.0
    knees = {
        here.budget_bytes
        for before, here, after in zip(hull, hull[1:], [*hull[2:], None], strict=False)
        if (after is not None or here.price == 0)
        and _seconds(before) - _seconds(here) >= _KNEE_GAIN * whole > 0
        and (after is None or _slope(here, after) <= _KNEE_BEND * _slope(before, here))
    }
    return tuple(replace(point, knee=point.budget_bytes in knees) for point in points)


def _hull(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    hull: list[CurvePoint] = []
    for point in points:
        while len(hull) > 1 and _slope(hull[-1], point) >= _slope(hull[-2], hull[-1]):
            hull.pop()
        hull.append(point)
    return hull


def _slope(first: CurvePoint, second: CurvePoint) -> float:
    """Seconds that a byte buys between two points."""
    return (_seconds(first) - _seconds(second)) / (second.budget_bytes - first.budget_bytes)


def _seconds(point: CurvePoint) -> float:
    assert point.seconds is not None
    return point.seconds
