from __future__ import annotations

import pytest

from hetpart.partitioner.mincut import CutNetwork
from tests.partitioner.problems import accelerator_weights, placements, random_problem

PRICES = (0.0, 0.003, 0.02, 0.4)


@pytest.mark.parametrize("start", range(0, 1200, 100))
def test_cut_equals_brute_force_at_every_price(start: int) -> None:
    for seed in range(start, start + 100):
        problem = random_problem(seed)
        network = CutNetwork.of(problem)
        everywhere = [(problem.cost(p), accelerator_weights(problem, p)) for p in placements(problem)]
        for price in PRICES:
            best = min(cost + price * nbytes for cost, nbytes in everywhere)
            found = network.cut(price)
            assert found.value <= best + 1e-9, seed
            assert found.value == pytest.approx(best, rel=1e-6, abs=1e-6), seed
            for placement in (found.smallest, found.largest):
                priced = problem.cost(placement) + price * accelerator_weights(problem, placement)
                assert priced == pytest.approx(best, rel=1e-6, abs=1e-6), seed
            assert (found.smallest <= found.largest).all()
