from __future__ import annotations

import numpy as np
import pytest

from hetpart.errors import InfeasibleError
from hetpart.partitioner.cut import cut
from hetpart.partitioner.liveness import usage
from hetpart.partitioner.problem import PlacementProblem
from hetpart.partitioner.solve import Solution, solve
from tests.partitioner.problems import placements, random_problem


def best_by_force(problem: PlacementProblem) -> tuple[float, float] | None:
    """Least cost, and least total seconds, of all placements that fit."""
    costs: list[tuple[float, float]] = []
    for placement in placements(problem):
        found = cut(problem, placement)
        if usage(problem, placement, found).fits(problem):
            cost = problem.cost(placement)
            costs.append((cost, cost + float(problem.session_seconds[found.devices].sum())))
    return (min(cost for cost, _ in costs), min(total for _, total in costs)) if costs else None


def assert_sound(problem: PlacementProblem, solution: Solution) -> None:
    legal = problem.legal()[solution.placement, np.arange(problem.ops)]
    assert legal.all()
    assert usage(problem, solution.placement, cut(problem, solution.placement)).fits(problem)
    assert solution.lower_bound <= solution.cost
    assert all(solution.total_seconds <= other.total_seconds for other in solution.baselines if other.fits)


@pytest.mark.parametrize("budget", [None, 0.0, 0.25, 0.5, 0.75])
def test_solution_fits_and_its_bound_holds(budget: float | None) -> None:
    ratios: list[float] = []
    for seed in range(400):
        problem = random_problem(seed, budget=budget, sessions=seed % 2 == 0)
        best = best_by_force(problem)
        if best is None:
            with pytest.raises(InfeasibleError):
                solve(problem)
            continue
        solution = solve(problem)
        assert_sound(problem, solution)
        assert solution.lower_bound <= best[0] * (1 + 1e-9) + 1e-9, seed
        assert solution.total_seconds >= best[1] * (1 - 1e-9) - 1e-9, seed
        ratios.append((solution.total_seconds + 1e-3) / (best[1] + 1e-3))
    assert np.mean(ratios) <= 1.06
