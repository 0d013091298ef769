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
from hetpart.partitioner.uses import Uses
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


def activated(seed: int) -> PlacementProblem:
    """Products with activations between them, which write over what they read."""
    rng = np.random.default_rng(seed)
    sizes, weights = rng.integers(5, 60, 5), rng.integers(30, 60, 5) * np.array([1, 0, 1, 0, 1])
    seconds = zip(rng.uniform(2, 12, 5).tolist(), rng.uniform(0.2, 2, 5).tolist(), strict=True)
    problem = chain(list(seconds), weights.tolist(), copy=float(rng.choice([0, 0.3])))
    over = np.minimum(sizes, np.roll(sizes, 1)) * np.array([0, 1, 0, 1, 0])
    rows = [[(op + 1, False)] if op + 1 < 5 else [] for op in range(5)]
    rows[1] += [(4, False)] * int(rng.random() < 0.5)
    return replace(
        problem,
        value_bytes=sizes,
        value_uses=Uses.from_rows(rows),
        scratch_bytes=-over,
        budgets=np.array([NO_BUDGET, int((weights.sum() + sizes.sum()) * rng.uniform(0.4, 0.9))]),
        streaming=Streaming(weights * rng.choice([0.01, 0.03]) + rng.random(5) * 0.05, weights, asked=True),
    )


@pytest.mark.parametrize("seed", range(40))
def test_nothing_that_streams_is_cheaper_between_products(seed: int) -> None:
    problem = activated(seed)
    costs = [found.cost for found in all_scored(problem) if found.fits and found.streamed.any()]
    if costs:
        assert bound(problem) <= min(costs) * (1 + 1e-6)


def test_an_activation_writes_over_nothing_where_both_products_beside_it_stream() -> None:
    # Each product needs 100 bytes with its weight; so does the activation with the weight that comes meanwhile. In a
    # piece with the first product it needs 160, with that one's weight; in another 140, as it writes over nothing.
    problem = chain([(9.0, 1.0)] * 3, [60, 0, 60], nbytes=40)
    problem = replace(problem, value_bytes=np.array([40, 40, 0]), scratch_bytes=np.array([0, -40, 0]))
    problem = replace(problem, streaming=Streaming(np.array([0.5, 0.0, 0.5]), problem.weight_bytes, asked=True))
    held = replace(problem, budgets=np.array([NO_BUDGET, 135]))
    cheap = replace(problem, budgets=np.array([NO_BUDGET, 145]))
    assert bound(cheap) == pytest.approx(4.0, rel=1e-5)
    best = min(one.cost for one in all_scored(held) if one.fits and one.streamed.any())
    assert 4.0 < bound(held) <= best * (1 + 1e-6)
