"""Bounds by the number of partitions on the accelerator, against every placement of small problems."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import ModelProto

import hetpart
from hetpart.cost_model.session.reuse import Kernel, Made, plan_buffers
from hetpart.partitioner.bounds.branches import branches, host_seconds
from hetpart.partitioner.bounds.milp import Effort
from hetpart.partitioner.bounds.program import NOBODY, Program
from hetpart.partitioner.bounds.single import single
from hetpart.partitioner.formulate import formulate
from hetpart.partitioner.problem import NO_FORM, NO_OP, Placement, PlacementProblem, Reuse
from hetpart.partitioner.scores.cut import cut
from hetpart.partitioner.scores.liveness import crossing_values, usage
from hetpart.partitioner.search.solve import NothingFitsError, solve
from tests.partitioner.problems import chain, placements, random_problem
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


@pytest.mark.parametrize("start", range(0, 400, 100))
def test_the_bound_on_one_partition_is_below_and_mostly_equal(start: int) -> None:
    equal = 0
    for seed in range(start, start + 100):
        problem = random_problem(seed, most_ops=7, budget=(0.3, 0.5, 0.7)[seed % 3])
        costs = [problem.cost(p) for p in placements(problem) if in_one_piece(problem, p) and fits(problem, p)]
        best, bound = min(costs, default=np.inf), single_bound(problem)
        assert bound <= best * (1 + 1e-9) + 1e-9, seed
        equal += bound == best or bound == pytest.approx(best, abs=1e-3)
    assert equal > 80


@pytest.mark.parametrize("start", range(0, 400, 100))
def test_no_branch_loses_a_placement_and_together_they_are_nearly_exact(start: int) -> None:
    equal = 0
    for seed in range(start, start + 100):
        problem = random_problem(seed, most_ops=7, budget=(0.3, 0.5, 0.7)[seed % 3])
        problem = replace(problem, session_bytes=np.array([0, 1 + 60 * (seed % 4)]))
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
    for seed in range(300):
        problem = random_problem(seed, most_ops=8, budget=(0.3, 0.5, 0.7)[seed % 3], sessions=True)
        problem = replace(problem, session_seconds=np.zeros(2), session_bytes=np.array([0, 1 + 60 * (seed % 4)]))
        try:
            solution = solve(problem)
        except NothingFitsError:
            continue
        best = min(problem.cost(p) for p in placements(problem) if fits(problem, p))
        assert solution.lower_bound <= best * (1 + 1e-9), seed
        solved += solution.cost <= best * 1.01
    assert solved > 200


def with_reuse(problem: PlacementProblem, seed: int) -> PlacementProblem:
    """``problem`` with few sizes of values, most of which lie in each other's memory."""
    rng = np.random.default_rng(seed)
    forms = rng.integers(NO_FORM, 2, problem.values).astype(np.int32)
    sizes = np.where(forms == NO_FORM, problem.value_bytes, np.array([1024, 512])[forms])
    ops = np.arange(problem.ops, dtype=np.int32)
    total = int(sizes.sum() + problem.weight_bytes.sum())
    budgets = np.array([-1, int(total * (0.3, 0.5, 0.7)[seed % 3])])
    return replace(problem, value_bytes=sizes, budgets=budgets, reuse=Reuse(forms, ops))


def planned_peak(problem: PlacementProblem, placement: Placement, rng: np.random.Generator) -> int:
    """Most bytes that ONNX Runtime's planner holds of the forms' buffers, ops run in some order that is possible."""
    assert problem.reuse is not None
    found = cut(problem, placement)
    crossing = crossing_values(problem, found)
    kernels: list[Kernel] = []
    left = np.flatnonzero(placement == 1).tolist()
    uses, producer = problem.value_uses, problem.value_producer
    reads = [uses.rows[uses.ops == op].tolist() for op in range(problem.ops)]
    while left:
        ready = [op for op in left if not any(producer[value] in left for value in reads[op])]
        op = int(rng.choice(ready))
        left.remove(op)
        makes = np.flatnonzero((producer == op) & ~crossing & (problem.reuse.forms != NO_FORM)).tolist()
        made = tuple(
            Made(value, int(problem.value_bytes[value]), (1, int(problem.reuse.forms[value]))) for value in makes
        )
        inner = (v for v in reads[op] if not crossing[v] and problem.reuse.forms[v] != NO_FORM)
        kernels.append(Kernel(tuple(v for v in inner if producer[v] != NO_OP), made))
    held, most = dict[int, int](), 0
    for step in plan_buffers(kernels, ()):
        held |= {made.value: made.nbytes for made in step.allocates}
        most = max(most, sum(held.values()))
        for value in step.releases:
            held.pop(value, None)
    return most


def least_planned(problem: PlacementProblem, seed: int) -> float:
    """Cost of the best placement with one partition that keeps to the budget with its buffers planned."""
    rng = np.random.default_rng(seed)
    best = np.inf
    for placement in placements(problem):
        if in_one_piece(problem, placement) and fits(problem, placement):
            used = usage(problem, placement, cut(problem, placement))
            inside = max(int(used.inside[1]), planned_peak(problem, placement, rng))
            if used.weights[1] + used.buffers[1] + inside <= problem.budgets[1]:
                best = min(best, problem.cost(placement))
    return best


def test_pooled_buffers_bound_what_the_planner_holds_in_any_order() -> None:
    for seed in range(200):
        problem = with_reuse(random_problem(seed, most_ops=8), seed)
        assert single_bound(problem) <= least_planned(problem, seed) * (1 + 1e-9) + 1e-9, seed


def test_pooled_buffers_raise_the_bound_where_forms_take_turns() -> None:
    raised = equal = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        seconds = [(float(host), 0.1) for host in rng.uniform(1, 3, 9)]
        problem = chain(seconds, rng.integers(0, 2000, 9).tolist(), copy=0.1, nbytes=1, budget=0)
        forms = (np.arange(problem.values) % 3).astype(np.int32)
        problem = replace(
            problem,
            value_bytes=np.array([1024, 2048, 512])[forms],
            budgets=np.array([-1, int(rng.integers(4000, 12_000))]),
            reuse=Reuse(forms, np.arange(problem.ops, dtype=np.int32)),
        )
        best, bound = least_planned(problem, seed), single_bound(problem)
        assert bound <= best * (1 + 1e-9), seed
        raised += bound > single_bound(replace(problem, reuse=None)) + 1e-3
        equal += bound == pytest.approx(best, abs=1e-3)
    assert raised > 10
    assert equal > 40


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
