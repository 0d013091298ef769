"""The exact program against every placement of small problems."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from hetpart.partitioner.bounds.clock import Clock
from hetpart.partitioner.bounds.exact import AIM_WITH_MOMENTS, Relaxation
from hetpart.partitioner.bounds.margins import margins
from hetpart.partitioner.bounds.milp import Effort, LinearProgram, Rows
from hetpart.partitioner.bounds.mincut import CutNetwork
from hetpart.partitioner.bounds.moments import Moments, moments
from hetpart.partitioner.bounds.price import search_price
from hetpart.partitioner.bounds.program import Program
from hetpart.partitioner.problem import PlacementProblem
from hetpart.partitioner.scores.cut import cut
from hetpart.partitioner.scores.fixing import without_misfits
from hetpart.partitioner.scores.liveness import usage
from hetpart.partitioner.scores.scoring import Scorer
from hetpart.partitioner.search.solve import NothingFitsError, solve
from tests.partitioner.problems import accelerator_weights, chain, placements, random_problem

EXACT = Effort(0.0, 10_000, 60.0)


def program_bound(problem: PlacementProblem) -> float:
    program = Program.of(problem)
    alive = moments(program)
    return program.linear(alive.rows, alive.extra, None, program.budget).solve(EXACT).bound


def costs_that_fit(problem: PlacementProblem) -> list[float]:
    return [
        problem.cost(placement)
        for placement in placements(problem)
        if usage(problem, placement, cut(problem, placement)).fits(problem)
    ]


def in_any_order(problem: PlacementProblem, share: float) -> PlacementProblem:
    """``problem`` under a budget that its activations bind."""
    alone = replace(problem, weight_bytes=problem.weight_bytes // 8)
    total = int(alone.value_bytes.sum() + alone.weight_bytes.sum())
    return replace(alone, budgets=np.array([problem.budgets[0], int(share * total)]))


@pytest.mark.parametrize("start", range(0, 400, 100))
def test_the_bound_is_below_every_placement_that_fits(start: int) -> None:
    tight = 0
    for seed in range(start, start + 100):
        problem = random_problem(seed, most_ops=7, budget=(0.2, 0.4, 0.6)[seed % 3])
        best = min(costs_that_fit(problem), default=np.inf)
        bound = program_bound(problem)
        assert bound <= best * (1 + 1e-9), seed
        tight += bool(bound >= best * (1 - 1e-4) or best == np.inf)
    assert tight > 70


@pytest.mark.parametrize("start", range(0, 200, 100))
def test_activations_alone_bind_and_the_bound_stays_below(start: int) -> None:
    raised = 0
    for seed in range(start, start + 100):
        problem = in_any_order(random_problem(seed, most_ops=8), (0.2, 0.35, 0.5)[seed % 3])
        best = min(costs_that_fit(problem), default=np.inf)
        bound = program_bound(problem)
        assert bound <= best * (1 + 1e-9), seed
        raised += bound > search_price(problem, CutNetwork.of(problem)).bound * (1 + 1e-6)
    assert raised > 20


def test_without_activations_the_program_is_exact() -> None:
    for seed in range(140):
        problem = random_problem(seed, most_ops=7, budget=0.4)
        program = Program.of(problem)
        fits = [problem.cost(p) for p in placements(problem) if accelerator_weights(problem, p) <= problem.budgets[1]]
        found = program.linear(Rows(), 0, None, program.budget).solve(EXACT)
        if not fits:
            assert found.bound == np.inf
            continue
        assert found.bound == pytest.approx(min(fits), abs=1e-4)
        assert found.solution is not None
        assert problem.cost(program.placement(found.solution)) == pytest.approx(min(fits), abs=1e-4)


def test_a_turned_group_costs_at_least_its_margin() -> None:
    turned = 0
    for seed in range(80):
        problem = random_problem(seed, most_ops=7, budget=0.4)
        program = Program.of(problem)
        price = search_price(problem, CutNetwork.of(problem)).price
        found = margins(program, price, lambda: False)
        for placement in placements(problem):
            if accelerator_weights(problem, placement) <= problem.budgets[1]:
                side = np.ones(program.groups, np.int8)  # the caller's has no ops, and is always there
                side[program.of_op] = placement
                away = side != found.side
                least = found.turned[away].max(initial=found.bound)
                assert least <= problem.cost(placement) * (1 + 1e-9) + 1e-9, seed
                turned += bool(away.any()) and least > found.bound + 1e-9
    assert turned > 400


def test_fixed_groups_never_lose_what_is_better() -> None:
    for seed in range(60):
        problem = without_misfits(random_problem(seed, most_ops=7, budget=0.5))
        costs = costs_that_fit(problem)
        search = search_price(problem, CutNetwork.of(problem))
        relaxation = Relaxation.of(problem, search.price, search.bound, Clock.of(60.0), moments)
        assert relaxation is not None
        scorer = Scorer.of(problem)
        for placement in placements(problem):
            known = scorer.score(placement)
            relaxation.tighten(known, scorer.score)
            assert relaxation.bound <= min(costs, default=np.inf) * (1 + 1e-9) + 1e-9, seed


def test_a_program_of_too_many_rows_needs_ample_time(monkeypatch: pytest.MonkeyPatch) -> None:
    looser = 0
    for seed in range(60):
        problem = in_any_order(random_problem(seed, most_ops=7), 0.35)
        try:
            known = solve(problem)
        except NothingFitsError:
            continue
        with monkeypatch.context() as patched:
            patched.setattr("hetpart.partitioner.bounds.exact.MOST_ROWS", 0)
            found, patient = solve(problem), solve(problem, time_limit=1000.0)
        assert patient.lower_bound == known.lower_bound, seed
        assert found.lower_bound <= min(costs_that_fit(problem)) * (1 + 1e-9), seed
        looser += found.lower_bound < known.lower_bound * (1 - 1e-6)
    assert looser > 5


def test_what_is_proven_optimal_is_optimal() -> None:
    proven = 0
    for seed in range(140):
        problem = random_problem(seed, most_ops=7, budget=(0.3, 0.5, 0.8)[seed % 3])
        try:
            solution = solve(problem)
        except NothingFitsError:
            continue
        best = min(costs_that_fit(problem))
        assert solution.lower_bound <= best * (1 + 1e-9)
        if solution.gap <= AIM_WITH_MOMENTS:
            proven += 1
            assert solution.cost * (1 - solution.gap) <= best * (1 + 1e-9)
    assert proven > 93


def test_the_program_is_solved_alike_every_time() -> None:
    for seed in range(20):
        problem = random_problem(seed, most_ops=30, budget=0.4)
        program = Program.of(problem)
        alive = moments(program)
        linear = program.linear(alive.rows, alive.extra, None, program.budget)
        found = [linear.solve(Effort(1e-3, 50, 60.0)) for _ in range(2)]
        assert [one.bound for one in found] == [found[0].bound] * 2
        for one, other in pairwise(found):
            assert (one.solution is None) == (other.solution is None)
            if one.solution is not None and other.solution is not None:
                assert one.solution.tobytes() == other.solution.tobytes()


def test_the_constant_counts_and_no_solution_is_a_bound_of_infinity(capfd: pytest.CaptureFixture[str]) -> None:
    rows = Rows()
    rows.add([(0, 1.0), (1, 1.0)], 1.0)
    both = np.ones(2)
    program = LinearProgram(5.0, np.array([2.0, 3.0]), np.zeros(2), both, both > 0, rows)
    found = program.solve(EXACT)
    assert found.bound == pytest.approx(7.0, abs=1e-4)
    assert found.bound <= 7.0
    assert found.solution is not None
    assert found.solution.tolist() == [1.0, 0.0]
    rows.add([(0, -1.0), (1, -1.0)], 0.0)
    assert program.solve(EXACT).bound == np.inf
    assert capfd.readouterr().out == ""


def test_less_room_is_left_than_the_weights_of_a_misfit_take() -> None:
    """Five weights of 100 leave 90 of 590 bytes, and what is alive beside them takes 10 more than that."""
    problem = chain([(1.0 + op / 100, 0.1) for op in range(10)], [100] * 10, nbytes=25, budget=590)
    scorer, clock = Scorer.of(problem), Clock.of(60.0)
    relaxation = Relaxation.of(problem, 0.0, 0.0, clock, lambda _: Moments(Rows(), 0, ()))
    assert relaxation is not None
    misfit = scorer.score(np.array([0] * 5 + [1] * 5, np.int8))
    assert (misfit.fits, misfit.excess) == (False, 10)
    (found,) = relaxation.fitted(misfit, scorer.score)
    assert found.fits
    assert accelerator_weights(problem, found.placement) == 400
