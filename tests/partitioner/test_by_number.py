"""Programs of placements with some number of sessions on the accelerator, beside every placement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetpart.partitioner.bounds import by_number
from hetpart.partitioner.bounds.branches import branch_between
from hetpart.partitioner.bounds.inside import Insides
from hetpart.partitioner.bounds.milp import LinearProgram
from hetpart.partitioner.bounds.program import Program
from hetpart.partitioner.problem import NO_OP, PlacementProblem
from hetpart.partitioner.uses import Uses
from tests.partitioner.problems import chain
from tests.partitioner.test_staged import EXACT, ROUNDING, cheapest, sample


def linear(problem: PlacementProblem, fewest: int, most: int) -> LinearProgram | None:
    branch = branch_between(problem, fewest, most)
    if branch is None:
        return None
    program = Program.of(branch.problem)
    rows = branch.rows(program)
    return program.linear(rows.rows, rows.extra, None, program.budget, rows.whole)


@pytest.mark.parametrize("start", range(0, 240, 60))
def test_no_placement_of_such_a_number_is_cheaper(start: int) -> None:
    equal = counted = 0
    for seed in range(start, start + 60):
        problem = sample(seed)
        best = {number: cost for number, cost in cheapest(problem).items() if number}
        for fewest, most in {(one, other) for one in best for other in best if one <= other}:
            program = linear(problem, fewest, most)
            least = min(cost for number, cost in best.items() if fewest <= number <= most)
            assert program is not None, seed
            whole = program.solve(EXACT).bound
            assert whole <= least * (1 + ROUNDING) + ROUNDING, seed
            counted += 1
            equal += whole == pytest.approx(least, abs=1e-3)
    assert counted > 60
    assert equal > counted // 3


def layers(budget: int) -> PlacementProblem:
    """Layers that hold much inside and return something large: the host takes long for each."""
    problem = chain([(30.0, 1.0)] * 9, [20] * 9, copy=1.0, budget=budget)
    returned, nbytes = np.array([False, False, True] * 3), np.array([60, 60, 40] * 3)
    return replace(problem, value_bytes=nbytes, value_returned=returned, session_bytes=np.array([0, 30]))


def test_what_lies_inside_counts_beside_what_crosses(monkeypatch: pytest.MonkeyPatch) -> None:
    raised = 0
    for budget in range(220, 400, 30):
        best = cheapest(layers(budget))
        for number in (2, 3):
            program = linear(layers(budget), number, number)
            if program is None or number not in best:
                continue
            whole = program.solve(EXACT).bound
            assert whole <= best[number] * (1 + ROUNDING) + ROUNDING
            with monkeypatch.context() as without:
                without.setattr(Insides, "of", _nothing)
                blind = linear(layers(budget), number, number)
                assert blind is not None
                raised += blind.solve(EXACT).bound < whole - 1.0
    assert raised >= 3


def caches(layers: int, budget: int) -> PlacementProblem:
    """Each layer is given a cache and returns it; what comes before it is cheaper on the host."""
    problem = chain([(1.0, 1.5), (9.0, 1.0)] * layers, [1] * (2 * layers), budget=budget)
    rows = [[(op + 1, False)] if op + 1 < 2 * layers else [] for op in range(2 * layers)]
    given = [[(2 * layer + 1, False)] for layer in range(layers)]
    values = 3 * layers
    copy = np.zeros((2, 2, values))
    copy[0, 1] = copy[1, 0] = 0.1
    return replace(
        problem,
        value_producer=np.append(problem.value_producer, np.full(layers, NO_OP)).astype(np.int32),
        value_left_on_host=np.zeros(values, np.bool_),
        value_returned=np.array([False, True] * layers + [False] * layers),
        value_bytes=np.array([1, 20] * layers + [20] * layers),
        value_uses=Uses.from_rows([*rows, *given]),
        copy_seconds=copy,
        session_bytes=np.array([0, 30]),
    )


def test_pieces_lie_whole_beside_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four layers' caches one of three sessions has two."""
    raised = 0
    for budget in range(100, 300, 20):
        best = cheapest(caches(4, budget))
        for number in set(best) - {0}:
            program = linear(caches(4, budget), number, number)
            assert program is not None
            whole = program.solve(EXACT).bound
            assert whole <= best[number] * (1 + ROUNDING) + ROUNDING
            with monkeypatch.context() as without:
                without.setattr(by_number, "MOST_SIZES", 0)
                blind = linear(caches(4, budget), number, number)
                assert blind is not None
                raised += blind.solve(EXACT).bound < whole - 0.1
    assert raised


def test_sessions_beyond_the_fewest_take_their_bytes() -> None:
    """Of ops that are cheap on either device in turn, each more on the accelerator is a session more."""
    seconds = [(9.0, 1.0) if op % 2 == 0 else (1.0, 9.0) for op in range(9)]
    problem = replace(chain(seconds, [10] * 9, budget=160), session_bytes=np.array([0, 40]))
    program = linear(problem, 1, 5)
    assert program is not None
    assert program.solve(EXACT).bound == pytest.approx(min(cheapest(problem).values()), rel=1e-3)


def _nothing(*_: object) -> Insides:
    return Insides(())
