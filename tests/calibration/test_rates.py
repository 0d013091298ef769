from __future__ import annotations

import itertools

import numpy as np
import pytest

from hetpart.calibration.families import Family
from hetpart.calibration.fit import table
from hetpart.rates import RateTable


def power_law(*sizes: float) -> float:
    return 3e-9 * float(np.prod(np.array(sizes) ** np.array([1.0, 0.5, 2.0])[: len(sizes)]))


AXES = ((1.0, 8.0, 100.0), (2.0, 50.0), (3.0, 4.0, 5.0))


@pytest.mark.parametrize("sizes", [(1, 2, 3), (8, 50, 5), (2.5, 7, 3.3), (99, 49, 4.99)])
def test_a_power_law_is_read_exactly_between_points(sizes):
    found = RateTable(AXES, tuple(power_law(*point) for point in itertools.product(*AXES)))
    assert found.at(sizes) == pytest.approx(power_law(*sizes))


def test_below_the_first_point_nothing_gets_cheaper_and_beyond_the_last_the_rate_stays():
    found = RateTable(((10.0, 100.0),), (1e-6, 5e-6))
    assert found.at((1,)) == found.at((10,)) == pytest.approx(1e-6)
    assert found.at((1000,)) == pytest.approx(5e-5)


def test_the_rate_of_the_point_below_is_that_of_its_elements():
    found = RateTable(((1.0, 4.0), (10.0, 1000.0)), (1.0, 400.0, 2.0, 900.0))
    assert found.at_rate_below((1, 25)) == pytest.approx(2.5)
    assert found.at_rate_below((4, 10)) == found.at((4, 10))
    assert found.at_rate_below((4, 5)) == found.at((4, 5))


def test_beyond_two_axes_both_count():
    found = RateTable(((1.0, 4.0), (1.0, 4.0)), (1.0, 2.0, 3.0, 4.0))
    assert found.at((8, 8)) == pytest.approx(16.0)


@pytest.mark.parametrize(
    ("axes", "seconds"),
    [(((1.0, 1.0),), (1.0, 2.0)), (((2.0, 1.0),), (1.0, 2.0)), (((1.0, 2.0),), (1.0,)), (((),), ())],
)
def test_a_table_that_is_none_is_refused(axes, seconds):
    with pytest.raises(ValueError, match="ascending points"):
        RateTable(axes, seconds)


def test_points_left_out_keep_the_rate_of_the_next_smaller_along_the_first_axis():
    family = Family(
        ((1, 10), (1, 10)), lambda *_: b"", flops=lambda first, second: 2e9 if first * second == 100 else 0.0
    )
    assert list(family.points()) == [(1, 1), (1, 10), (10, 1)]
    found = table(family, {(1, 1): 1e-6, (1, 10): 4e-6, (10, 1): 6e-6})
    assert found.at((10, 10)) == pytest.approx(4e-5)


def test_no_call_takes_longer_than_a_larger_one_where_calls_grow():
    taken = {(1, 1): 3e-6, (1, 10): 5e-6, (10, 1): 2e-6, (10, 10): 4e-6}
    grown = table(Family(((1, 10), (1, 10)), lambda *_: b"", grows=True), taken)
    assert grown.seconds == (2e-6, 4e-6, 2e-6, 4e-6)
    assert table(Family(((1, 10), (1, 10)), lambda *_: b""), taken).seconds == tuple(taken.values())


def test_what_is_too_short_to_measure_starts_and_takes_its_part_of_the_next_larger():
    """One row of a table: the time of many tells which table's takes longer."""
    family = Family(((1, 128), (2**14, 2**20)), build=bytes, grows=True)
    noise = {(1, 2**14): -1e-8, (1, 2**20): 1e-7, (128, 2**14): 1e-7 + 128e-9, (128, 2**20): 1e-7 + 1280e-9}
    found = table(family, noise)
    assert [found.at((1, size)) for size in (2**14, 2**20)] == pytest.approx([1.01e-7, 1.1e-7])
    assert found.at((128, 2**20)) == pytest.approx(1e-7 + 1280e-9)
