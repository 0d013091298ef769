"""The solver beside the best of all placements: thousands of small problems with all there can be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetpart.partitioner.problem import PlacementProblem
from hetpart.partitioner.scores.certificate import check
from hetpart.partitioner.search import enumerated
from hetpart.partitioner.search.enumerated import MOST_OPS
from hetpart.partitioner.search.solve import NothingFitsError, Solution
from hetpart.partitioner.search.three_states import solve_three_states
from tests.partitioner.force import Best, best_of_all, costs, every_placement
from tests.partitioner.problems import random_problem
from tests.partitioner.streams import any_problem, layered_problem

BUDGETS = (None, 0.0, 0.1, 0.25, 0.5, 0.75)
PROVEN = 1e-9
SMALL = 1e-9


def assert_agrees(problem: PlacementProblem) -> tuple[Solution, Best] | None:
    """Nothing is better than the optimum, the bound is below it, and a gap of 0 is one; None where nothing fits."""
    best = best_of_all(problem)
    if best is None:
        with pytest.raises(NothingFitsError):
            solve_three_states(problem)
        return None
    found = solve_three_states(problem)
    verdict = check(problem, found.placement, found.cut, found.streamed)
    assert verdict.violations == ()
    assert verdict.cost == pytest.approx(found.cost)
    assert list(verdict.peaks) == found.usage.peak.tolist()
    assert found.lower_bound <= best.cost * (1 + PROVEN) + SMALL
    assert found.cost >= best.cost * (1 - PROVEN) - SMALL
    assert found.total_seconds >= best.total_seconds * (1 - PROVEN) - SMALL
    if found.gap <= PROVEN:
        assert found.cost == pytest.approx(best.cost)
    return found, best


def ratios(problems: list[PlacementProblem]) -> list[float]:
    """Ours over the optimum, where anything fits."""
    agreed = filter(None, map(assert_agrees, problems))
    return [(found.total_seconds + 1e-3) / (best.total_seconds + 1e-3) for found, best in agreed]


@pytest.mark.parametrize("part", range(4))
def test_two_states_of_few_ops(part: int) -> None:
    seeds = range(200 * part, 200 * part + 200)
    found = ratios(
        [random_problem(seed + 10**7, most_ops=7, budget=BUDGETS[seed % 6], sessions=seed % 4 < 2) for seed in seeds]
    )
    assert len(found) > 120
    assert np.mean(found) <= 1.01


@pytest.mark.parametrize("part", range(2))
def test_the_optimum_of_few_ops(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enumerated, "MOST_OPS", MOST_OPS)
    seeds = range(100 * part, 100 * part + 100)
    found = ratios(
        [random_problem(seed + 10**7, most_ops=7, budget=BUDGETS[seed % 6], sessions=seed % 4 < 2) for seed in seeds]
    )
    assert len(found) > 60
    assert max(found) <= 1 + SMALL


@pytest.mark.parametrize("part", range(4))
def test_two_states(part: int) -> None:
    seeds = range(100 * part, 100 * part + 100)
    found = ratios(
        [random_problem(seed + 10**6, most_ops=14, budget=BUDGETS[seed % 6], sessions=seed % 4 < 2) for seed in seeds]
    )
    assert len(found) > 60
    assert np.mean(found) <= 1.01


@pytest.mark.parametrize("part", range(5))
def test_three_states_of_anything(part: int) -> None:
    seeds = range(1000 + 40 * part, 1040 + 40 * part)
    found = ratios([any_problem(seed, budget=(0.15, 0.3, 0.6)[seed % 3], sessions=seed % 4 < 2) for seed in seeds])
    assert len(found) > 20
    assert np.mean(found) <= 1.01


@pytest.mark.parametrize("part", range(3))
def test_three_states_of_layers(part: int) -> None:
    """Streaming is what is best in many of them."""
    agreed = list(filter(None, map(assert_agrees, map(layered_problem, range(7 * part, 7 * part + 7)))))
    assert any(best.streams for _, best in agreed)
    assert np.mean([found.total_seconds / best.total_seconds for found, best in agreed]) <= 1.01
    assert np.mean([1 - found.lower_bound / best.cost for found, best in agreed]) <= 0.2


def test_the_optimum_of_three_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enumerated, "MOST_OPS", MOST_OPS)
    anything = [
        any_problem(seed + 10**5, budget=(0.15, 0.3, 0.6)[seed % 3], sessions=seed % 4 < 2) for seed in range(45)
    ]
    agreed = list(filter(None, map(assert_agrees, [*anything, *map(layered_problem, range(100, 130))])))
    assert len(agreed) > 40
    assert sum(best.streams for _, best in agreed) > 6
    for found, best in agreed:
        assert found.total_seconds == pytest.approx(best.total_seconds)
        assert found.lower_bound == pytest.approx(best.cost)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    ops=st.integers(1, 12),
    budget=st.none() | st.floats(0, 1),
    sessions=st.booleans(),
)
def test_any_problem_agrees(seed: int, ops: int, budget: float | None, sessions: bool) -> None:
    assert_agrees(random_problem(seed, most_ops=ops, budget=budget, sessions=sessions))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), room=st.floats(0.05, 1), sessions=st.booleans())
def test_any_problem_that_may_stream_agrees(seed: int, room: float, sessions: bool) -> None:
    assert_agrees(any_problem(seed, budget=room, sessions=sessions))


@pytest.mark.parametrize("seed", range(40))
def test_placements_are_priced_alike_one_by_one_and_all_at_once(seed: int) -> None:
    """``costs`` beside ``PlacementProblem.cost``."""
    problem = replace(random_problem(seed, most_ops=6), streaming=None)
    found = every_placement(problem)
    alone = [problem.cost(placement) for placement in found]
    assert costs(problem, found) == pytest.approx(alone)
