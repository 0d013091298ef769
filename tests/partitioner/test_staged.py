"""Programs of so many partitions on the accelerator, and bounds number by number, beside every placement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetpart.partitioner.bounds.branches import branch_of
from hetpart.partitioner.bounds.by_borders import bounds_by_number
from hetpart.partitioner.bounds.chain import search_with_sessions
from hetpart.partitioner.bounds.milp import Effort, LinearProgram
from hetpart.partitioner.bounds.program import Program
from hetpart.partitioner.problem import PlacementProblem
from hetpart.partitioner.scores.cut import cut
from hetpart.partitioner.scores.fixing import without_misfits
from hetpart.partitioner.scores.liveness import usage
from tests.partitioner.problems import chain, placements, random_problem, sessions, with_calls

EXACT = Effort(0.0, 10_000, 60.0)
ROUNDING = 1e-9


def sample(seed: int) -> PlacementProblem:
    problem = random_problem(seed, most_ops=8, budget=(0.3, 0.5, 0.8)[seed % 3])
    problem = replace(problem, session_bytes=np.array([0, 1 + 25 * (seed % 4)]))
    return with_calls(problem, seed) if seed % 5 == 1 else problem


def cheapest(problem: PlacementProblem) -> dict[int, float]:
    """Of what fits, by how many sessions there are on the accelerator."""
    found: dict[int, float] = {}
    for placement in placements(problem):
        if usage(problem, placement, cut(problem, placement)).fits(problem):
            number = sessions(problem, placement)
            found[number] = min(found.get(number, np.inf), problem.cost(placement))
    return found


def linear(problem: PlacementProblem, partitions: int) -> LinearProgram | None:
    branch = branch_of(problem, partitions)
    if branch is None:
        return None
    program = Program.of(branch.problem)
    rows = branch.rows(program)
    return program.linear(rows.rows, rows.extra, None, program.budget, rows.whole)


@pytest.mark.parametrize("start", range(0, 180, 60))
def test_no_placement_of_so_many_partitions_is_cheaper(start: int) -> None:
    equal = several = 0
    for seed in range(start, start + 60):
        problem = sample(seed)
        for partitions, best in cheapest(problem).items():
            program = linear(problem, partitions) if partitions > 1 else None
            if program is not None:
                whole, relaxed = program.solve(EXACT).bound, program.relaxed().solve(EXACT).bound
                assert relaxed <= whole * (1 + 1e-6) + 1e-6, seed
                assert whole <= best * (1 + ROUNDING) + ROUNDING, seed
                several += 1
                equal += whole == pytest.approx(best, abs=1e-3)
    assert several > 15
    assert equal > several // 5


@pytest.mark.parametrize("start", range(0, 180, 60))
def test_no_number_of_partitions_has_a_cheaper_placement_than_its_bound(start: int) -> None:
    for seed in range(start, start + 60):
        problem = without_misfits(sample(seed))
        met, best = search_with_sessions(problem).met, cheapest(problem)
        parts = bounds_by_number(problem, met, np.inf, lambda: False)
        for number, cost in best.items():
            told = [part.bound for part in parts if part.fewest <= number <= part.most]
            assert number < 2 or not parts or told, seed
            assert all(bound <= cost * (1 + ROUNDING) + ROUNDING for bound in told), seed


def test_what_is_relaxed_cannot_come_and_go_for_nothing() -> None:
    """Of ops that are cheap on either device in turn, two partitions can have but two stretches."""
    seconds = [(9.0, 1.0) if op % 2 == 0 else (1.0, 9.0) for op in range(9)]
    problem = chain(seconds, [10] * 9, budget=1000)
    problem = replace(problem, session_bytes=np.array([0, 1]))
    program = linear(problem, 2)
    assert program is not None
    best = min(cost for number, cost in cheapest(problem).items() if number <= 2)
    assert best == pytest.approx(program.relaxed().solve(EXACT).bound, rel=1e-3)
