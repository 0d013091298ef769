from __future__ import annotations

import pytest

from hetpart.cost_model.call_seconds import Surroundings, call_seconds, read_anew
from hetpart.cost_model.moving_calls import KernelCall
from hetpart.rates import RateTable
from tests.calibration.test_from_profile import made_up_rates

MEGABYTE = 2.0**20
KEPT = RateTable(((1 * MEGABYTE, 4 * MEGABYTE, 16 * MEGABYTE, 64 * MEGABYTE),), (1e-5, 4e-5, 32e-5, 192e-5))
"""10 us a megabyte while a cache holds them, 20 us at 16 MB, 30 us beyond."""


@pytest.mark.parametrize(
    ("weights", "own", "share"),
    [
        (2 * MEGABYTE, MEGABYTE, 0.0),
        (16 * MEGABYTE, MEGABYTE, 0.5),
        (64 * MEGABYTE, MEGABYTE, 1.0),
        (1e12, MEGABYTE, 1.0),
        (16 * MEGABYTE, 16 * MEGABYTE, 0.0),
        (64 * MEGABYTE, 16 * MEGABYTE, 1.0),
        (1e12, 1e11, 0.0),
    ],
)
def test_what_the_caches_do_not_keep_is_read_anew(weights, own, share):
    assert read_anew(weights, own, KEPT) == pytest.approx(share)


@pytest.mark.parametrize("call", [KernelCall("concat", (64, 64, 2)), KernelCall("scatter", (64, 64))])
def test_a_part_of_a_large_tensor_costs_what_the_part_does(call):
    """A Slice of it, or an update in place, wherever the rest of it lies."""
    around = Surroundings(distance=10**9, touched=2 * 10**9, weights=0, overwritten=10**9)
    assert call_seconds(call, made_up_rates(), around) < 1e-4
