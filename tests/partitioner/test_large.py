"""Layered graphs with many ops: near the bound, within the true peak, equal every time, checked independently."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.planner_scale import exponent, layered
from hetpart.partitioner.bounds.mincut import CutNetwork
from hetpart.partitioner.bounds.price import search_price
from hetpart.partitioner.problem import NO_BUDGET, PlacementProblem
from hetpart.partitioner.scores.certificate import check
from hetpart.partitioner.scores.fixing import without_misfits
from hetpart.partitioner.scores.scoring import Scored, Scorer
from hetpart.partitioner.search.large import placed


def found_for(problem: PlacementProblem) -> tuple[Scored, float]:
    """The placement, and the bound."""
    within = without_misfits(problem)
    search = search_price(within, CutNetwork.of(within))
    return placed(Scorer.of(problem), within, search, lambda: False), search.bound


def assert_sound(problem: PlacementProblem, found: Scored) -> None:
    verdict = check(problem, found.placement, found.cut)
    assert verdict.violations == ()
    assert verdict.cost == pytest.approx(found.cost)
    assert list(verdict.peaks) == found.usage.peak.tolist()


@pytest.mark.parametrize(("transfers", "most"), [(1, 1.002), (2, 1.02), (5, 1.06)])
@pytest.mark.parametrize("share", [0.4, 1.0, 1.6])
def test_near_the_bound(transfers: int, most: float, share: float) -> None:
    problem = layered(4_000, transfers)
    problem = replace(problem, budgets=np.array([NO_BUDGET, int(problem.budgets[1] * share)]))
    found, bound = found_for(problem)
    assert_sound(problem, found)
    assert bound <= found.cost <= bound * most


def test_activations_that_weigh_are_taken_off_the_budget() -> None:
    problem = layered(3_000, 1)
    heavy = replace(problem, value_bytes=problem.value_bytes * 20)
    found, _ = found_for(heavy)
    assert_sound(heavy, found)
    assert found.usage.weights[1] < 0.98 * heavy.budgets[1]


def test_sessions_are_paid_for_where_they_cost() -> None:
    problem = layered(3_000, 1)
    dear = replace(problem, session_seconds=np.array([5e-3, 5e-3]))
    free, _ = found_for(problem)
    found, _ = found_for(dear)
    assert_sound(dear, found)
    assert found.cut.partitions < free.cut.partitions / 2
    assert found.total_seconds < Scorer.of(dear).score(free.placement).total_seconds


def test_equal_inputs_give_equal_placements() -> None:
    first, again = (found_for(layered(3_000, 2))[0] for _ in range(2))
    assert first.placement.tobytes() == again.placement.tobytes()


def test_exponent_is_that_of_a_power() -> None:
    rows = [{"ops": ops, "seconds": 3e-6 * ops**1.25} for ops in (1_000, 30_000, 1_000_000)]
    assert exponent(rows, "seconds") == 1.25
    assert exponent(rows[:1], "seconds") is None
