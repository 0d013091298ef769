"""What programs with parts of groups allowed tell of all that streams nothing, beside every placement."""

from __future__ import annotations

import numpy as np

from hetpart.partitioner.bounds.chain import search_with_sessions
from hetpart.partitioner.bounds.clock import Clock
from hetpart.partitioner.bounds.relaxed import relaxed_floor
from hetpart.partitioner.scores.fixing import without_misfits
from tests.partitioner.test_staged import ROUNDING, cheapest, sample


def test_no_placement_costs_less_and_prices_alone_tell_no_more() -> None:
    higher = 0
    for seed in range(120):
        problem = sample(seed)
        within = without_misfits(problem)
        least = search_with_sessions(within)
        floor = relaxed_floor(within, least, Clock.of(100.0))
        assert least.bound <= floor <= min(cheapest(problem).values(), default=np.inf) * (1 + ROUNDING) + ROUNDING, seed
        higher += floor > least.bound + 1e-3
    assert higher > 10
