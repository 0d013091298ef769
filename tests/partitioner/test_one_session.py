"""Passages through placements with one session, against the cuts and the costs of every one of small problems."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetpart.partitioner.bounds import passage
from hetpart.partitioner.bounds.by_passage import MANY, by_one_session, by_passage, is_passable
from hetpart.partitioner.bounds.constrained import cheapest
from hetpart.partitioner.bounds.one_session import one_session
from hetpart.partitioner.bounds.passage import Room
from hetpart.partitioner.problem import NO_BUDGET, Placement, PlacementProblem
from hetpart.partitioner.scores.cut import cut
from hetpart.partitioner.uses import Uses
from tests.partitioner.problems import chain, placements
from tests.partitioner.test_apart import ACCELERATOR
from tests.partitioner.test_by_passage import AMPLE, ROUNDING, held, never, nothing, only, passable, side_by_side

SESSION = 7


def with_sessions(seed: int, ops: int) -> PlacementProblem:
    return replace(passable(seed, ops), session_bytes=np.array([0, SESSION]))


def in_one(problem: PlacementProblem) -> list[Placement]:
    """All with one partition on the accelerator, whether they fit or not."""
    return [one for one in placements(problem) if (cut(problem, one).devices == ACCELERATOR).sum() == 1]


@pytest.mark.parametrize("start", range(0, 90, 30))
def test_every_placement_of_one_session_has_a_passage_that_costs_and_holds_no_more(start: int) -> None:
    checked = 0
    for seed in range(start, start + 30):
        problem = with_sessions(seed, 7)
        for placement in in_one(problem):
            used, layers = held(problem, placement), one_session(only(problem, placement))
            assert layers is not None
            taken = used.weights[ACCELERATOR] + used.buffers[ACCELERATOR], used.inside[ACCELERATOR]
            room = Room(np.zeros(1), np.array([taken[1] + 0.5]), np.array([taken[0] + 0.5]))
            found = cheapest(layers, np.zeros(1), room, AMPLE, MANY)
            assert found.placement is not None, (seed, placement)
            assert (found.placement == placement).all()
            assert found.bound <= problem.cost(placement) + ROUNDING, (seed, placement)
            checked += 1
    assert checked > 200, checked


@pytest.mark.parametrize("start", range(0, 120, 40))
def test_the_bound_is_below_the_best_of_one_session_and_mostly_equal(start: int) -> None:
    equal = checked = 0
    for seed in range(start, start + 40):
        problem = with_sessions(seed, 7)
        budget = int(problem.budgets[ACCELERATOR])
        fit = [one for one in in_one(problem) if held(problem, one).peak[ACCELERATOR] <= budget]
        nothing_there = np.zeros(problem.ops, np.int8)
        fit += [nothing_there] if np.isfinite(problem.cost(nothing_there)) else []
        less = replace(problem, budgets=np.array([NO_BUDGET, budget - SESSION]))
        found = by_one_session(less)
        best = min(map(problem.cost, fit), default=np.inf)
        if not found:
            assert best == np.inf, seed
            continue
        bound = found[0].raised(0.05, min(1.5 * best, AMPLE), nothing, never)
        assert bound <= best * (1 + ROUNDING) + ROUNDING, seed
        checked += 1
        equal += bound == pytest.approx(best) or best == np.inf
    assert equal > 0.8 * checked > 20, (equal, checked)


def test_wide_problems_are_left_to_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert by_one_session(side_by_side(4))
    monkeypatch.setattr(passage, "MOST_STATES", 8)
    assert not by_one_session(side_by_side(4))


@pytest.mark.parametrize(("made", "narrow"), [(3, True), (40, False)])
def test_an_op_that_makes_many_values_is_left_to_programs(made: int, narrow: bool) -> None:
    """Where it was not, planning a table of 26 features went through every set of them."""
    problem = chain([(9.0, 1.0)] * 2, [10] * 2, copy=0.1, nbytes=10, budget=1000)
    rows = [[(1, False)]] * made
    split = replace(
        problem,
        value_producer=np.zeros(made, np.int32),
        value_left_on_host=np.zeros(made, np.bool_),
        value_returned=np.zeros(made, np.bool_),
        value_bytes=np.full(made, 10),
        copy_seconds=np.repeat(problem.copy_seconds[..., :1], made, axis=-1),
        value_uses=Uses.from_rows(rows),
    )
    assert is_passable(split) is narrow
    assert bool(by_passage(split)) is narrow
    assert bool(by_one_session(split)) is narrow
