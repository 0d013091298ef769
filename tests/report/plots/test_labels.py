from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hetpart.report.plots.labels import Box, Label, place_labels

ROOM = Box(0, 0, 1000, 600)


@given(st.lists(st.tuples(st.floats(0, 1000), st.floats(0, 600)), min_size=1, max_size=12))
@example([(747.0, 12.0), (916.0, 0.0)])
@settings(max_examples=50, deadline=None)
def test_labels_stay_inside_and_off_each_other(places: list[tuple[float, float]]) -> None:
    labels = [Label(x, y, 5, 90, 12) for x, y in places]
    boxes = place_labels(labels, ROOM, [], [])
    assert all(ROOM.holds(box) for box in boxes)
    assert [pair for pair in combinations(boxes, 2) if pair[0].overlap(pair[1]) > 0] == []


def test_labels_avoid_what_is_taken_and_dots_where_they_can() -> None:
    label = Label(500, 300, 5, 90, 12)
    (free,) = place_labels([label], ROOM, [], [])
    (moved,) = place_labels([label], ROOM, [free], [])
    assert moved.overlap(free) == 0
    (off,) = place_labels([label], ROOM, [], [free])
    assert off.overlap(free) == 0


@pytest.mark.parametrize(("x", "y"), [(0, 0), (1000, 600), (0, 600), (1000, 0)])
def test_a_label_of_a_corner_is_inside(x: float, y: float) -> None:
    (box,) = place_labels([Label(x, y, 20, 200, 12)], ROOM, [], [])
    assert ROOM.holds(box)
