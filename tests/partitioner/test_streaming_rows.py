"""Rows of what there is at every op beside weights that are held, and placements that stream."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetpart.partitioner.bounds.branches import branches
from hetpart.partitioner.bounds.milp import Effort
from hetpart.partitioner.bounds.program import Program
from hetpart.partitioner.problem import NO_BUDGET, PlacementProblem, Streaming
from hetpart.partitioner.scores.fixing import without_misfits
from hetpart.partitioner.scores.streaming import ThreeStates
from tests.partitioner.problems import chain
from tests.partitioner.streams import all_scored, any_problem, layered_problem

EXACT = Effort(0.0, 10_000, 60.0)


def bound(problem: PlacementProblem) -> float:
    branch = branches(without_misfits(ThreeStates.of(problem).problem))
    if not branch:
        return np.inf
    program = Program.of(branch[0].problem)
    rows = branch[0].rows(program)
    return program.linear(rows.rows, rows.extra, None, program.budget, rows.whole).solve(EXACT).bound


@pytest.mark.parametrize("seed", range(40))
def test_nothing_that_streams_is_cheaper(seed: int) -> None:
    problem = (
        layered_problem(seed) if seed % 2 else any_problem(seed, budget=0.2 + seed % 5 / 8, sessions=seed % 8 == 0)
    )
    if seed % 3 == 0:  # what is alive fills much of the budget
        problem = replace(problem, value_bytes=problem.value_bytes * 3)
    costs = [found.cost for found in all_scored(problem) if found.fits and found.streamed.any()]
    if costs:
        assert bound(problem) <= min(costs) * (1 + 1e-6)


def test_what_streams_by_for_the_next_op_is_there_while_one_runs() -> None:
    # The third op needs 100 bytes with its weight; the second 60, and 120 with the weight that comes meanwhile.
    problem = replace(chain([(9.0, 1.0)] * 4, [0, 0, 60, 0]), value_bytes=np.array([40, 20, 20, 0]))
    streaming = Streaming(np.full(len(problem.weight_bytes), 0.5), problem.weight_bytes, asked=True)
    found: list[tuple[float, float]] = []
    for budget in (110, 125):
        given = replace(problem, streaming=streaming, budgets=np.array([NO_BUDGET, budget]))
        best = min(one.cost for one in all_scored(given) if one.fits and one.streamed.any())
        found.append((bound(given), best))
    assert found[0][0] > 11.0, found
    assert all(least <= best * (1 + 1e-6) for least, best in found)
