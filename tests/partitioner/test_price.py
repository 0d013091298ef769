from __future__ import annotations

import numpy as np
import pytest

from hetpart.partitioner.bounds.mincut import CutNetwork
from hetpart.partitioner.bounds.price import search_price
from hetpart.partitioner.scores.cut import cut
from hetpart.partitioner.scores.fixing import without_misfits
from hetpart.partitioner.scores.liveness import usage
from tests.partitioner.problems import accelerator_weights, placements, random_problem


@pytest.mark.parametrize("budget", [0.1, 0.3, 0.6])
def test_bound_is_the_best_over_all_prices_and_below_every_placement_that_fits(budget: float) -> None:
    for seed in range(120):
        problem = random_problem(seed, most_ops=7, budget=budget)
        network = CutNetwork.of(problem)
        found = search_price(problem, network)
        tightest = search_price(problem, CutNetwork.of(without_misfits(problem))).bound
        assert tightest >= found.bound - 1e-6
        limit = int(problem.budgets[1])
        lines = [(problem.cost(p), accelerator_weights(problem, p), p) for p in placements(problem)]
        if min(nbytes for _, nbytes, _ in lines) > limit:
            continue
        at = [min(cost + price * (nbytes - limit) for cost, nbytes, _ in lines) for price in _prices(lines, limit)]
        assert found.bound == pytest.approx(max(at), rel=1e-6, abs=1e-6), seed
        for cost, _, placement in lines:
            if usage(problem, placement, cut(problem, placement)).fits(problem):
                assert max(tightest, found.bound) <= cost + 1e-9, seed
        assert accelerator_weights(problem, found.below) <= limit


def _prices(lines: list[tuple[float, int, np.ndarray]], limit: int) -> set[float]:
    """Every price at which two lines meet: the maximum of their lower envelope is at one of them, or at 0."""
    over = [(cost, nbytes) for cost, nbytes, _ in lines if nbytes > limit]
    under = [(cost, nbytes) for cost, nbytes, _ in lines if nbytes <= limit]
    meet = {(b - a) / (m - n) for a, m in over for b, n in under}
    return {0.0} | {price for price in meet if price > 0}


def test_without_a_budget_the_cut_is_the_optimum() -> None:
    for seed in range(120):
        problem = random_problem(seed, most_ops=7)
        found = search_price(problem, CutNetwork.of(problem))
        best = min(problem.cost(placement) for placement in placements(problem))
        assert found.price == 0.0
        assert found.bound == pytest.approx(best, rel=1e-6, abs=1e-6)
        assert problem.cost(found.below) == pytest.approx(best, rel=1e-6, abs=1e-6)
