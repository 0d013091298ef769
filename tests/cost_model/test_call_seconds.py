from __future__ import annotations

import pytest

from hetpart.cost_model.call_seconds import read_anew
from hetpart.rates import RateTable

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
