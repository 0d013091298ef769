"""Bounds by the number of partitions on the accelerator, against every placement of small problems."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import ModelProto

import hetpart
from hetpart.partitioner.bounds.branches import branches, host_seconds
from hetpart.partitioner.bounds.milp import Effort
from hetpart.partitioner.bounds.program import NOBODY, Program
from hetpart.partitioner.bounds.single import single
from hetpart.partitioner.formulate import formulate
from hetpart.partitioner.problem import Placement, PlacementProblem
from hetpart.partitioner.scores.cut import cut
from hetpart.partitioner.scores.liveness import usage
from hetpart.partitioner.search.solve import NothingFitsError, solve
from tests.partitioner.problems import placements, random_problem, with_calls
from tests.runtime.graphs import models

EXACT = Effort(0.0, 10_000, 60.0)


def single_bound(problem: PlacementProblem, sides: Placement | None = None) -> float:
    """The bound on placements with at most one partition on the accelerator, of all or of one."""
    program = Program.of(problem)
    rows = single(program)
    fixed = None
    if sides is not None:
        fixed = np.full(program.groups, NOBODY, np.int8)
        fixed[program.of_op] = sides
    return program.linear(rows.rows, rows.extra, fixed, program.budget, rows.whole).solve(EXACT).bound


def in_one_piece(problem: PlacementProblem, placement: Placement) -> bool:
    return int((cut(problem, placement).devices == 1).sum()) <= 1


def fits(problem: PlacementProblem, placement: Placement) -> bool:
    return usage(problem, placement, cut(problem, placement)).fits(problem)


@pytest.mark.parametrize("start", range(0, 200, 100))
def test_the_bound_on_one_partition_is_below_and_mostly_equal(start: int) -> None:
    equal = 0
    for seed in range(start, start + 100):
        problem = random_problem(seed, most_ops=7, budget=(0.3, 0.5, 0.7)[seed % 3])
        costs = [problem.cost(p) for p in placements(problem) if in_one_piece(problem, p) and fits(problem, p)]
        best, bound = min(costs, default=np.inf), single_bound(problem)
        assert bound <= best * (1 + 1e-9) + 1e-9, seed
        equal += bound == best or bound == pytest.approx(best, abs=1e-3)
    assert equal > 80


@pytest.mark.parametrize("start", range(0, 200, 100))
@pytest.mark.parametrize("calls", [0, 4])
def test_no_branch_loses_a_placement_and_together_they_are_nearly_exact(start: int, calls: int) -> None:
    equal = 0
    for seed in range(start, start + 100):
        problem = random_problem(seed, most_ops=7, budget=(0.3, 0.5, 0.7)[seed % 3])
        problem = replace(problem, session_bytes=np.array([0, 1 + 60 * (seed % 4)]))
        problem = with_calls(problem, seed) if seed % 5 < calls else problem
        best = min((problem.cost(p) for p in placements(problem) if fits(problem, p)), default=np.inf)
        bounds = [host_seconds(problem)]
        for branch in branches(problem):
            program = Program.of(branch.problem)
            rows = branch.rows(program)
            bounds.append(program.linear(rows.rows, rows.extra, None, program.budget, rows.whole).solve(EXACT).bound)
        assert min(bounds) <= best * (1 + 1e-9) + 1e-9, seed
        equal += min(bounds) == best or min(bounds) == pytest.approx(best, abs=1e-3)
    assert equal > 90


def test_what_is_solved_by_branches_is_best_to_within_its_gap() -> None:
    solved = 0
    for seed in range(60):
        problem = random_problem(seed, most_ops=8, budget=(0.3, 0.5, 0.7)[seed % 3], sessions=True)
        problem = replace(problem, session_seconds=np.zeros(2), session_bytes=np.array([0, 1 + 60 * (seed % 4)]))
        problem = with_calls(problem, seed) if seed % 2 else problem
        try:
            solution = solve(problem)
        except NothingFitsError:
            continue
        best = min(problem.cost(p) for p in placements(problem) if fits(problem, p))
        assert solution.lower_bound <= best * (1 + 1e-9), seed
        solved += solution.cost <= best * 1.01
    assert solved > 40


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(proto=models(), seed=st.integers(0, 50))
def test_no_plan_of_one_partition_holds_less_than_the_rows_say(proto: ModelProto, seed: int) -> None:
    found = hetpart.partition(proto, hardware="l4+generic-2core", placement=f"random:{seed}")
    accelerator = found.plan.devices[-1]
    problem = formulate(found.graph, found.costs, {}, {accelerator.device: accelerator.peak_bytes}).problem
    sides = np.array([d.device == accelerator.device for d in found.plan.decisions], np.int8)
    if in_one_piece(problem, sides) and sides.any() and fits(problem, sides):
        budgets = problem.budgets - np.array([0, problem.session_bytes[1]])
        assert single_bound(replace(problem, budgets=budgets), sides) <= problem.cost(sides) * (1 + 1e-6)
