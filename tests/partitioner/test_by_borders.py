"""The bound by numbers of partitions, what lies between them and what the neediest op needs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from hetpart.partitioner.bounds.by_borders import bound_by_borders
from hetpart.partitioner.bounds.chain import Ways, search_with_sessions
from hetpart.partitioner.bounds.mincut import CutNetwork, Path, held_if_copied, stretches
from hetpart.partitioner.problem import NO_OP, Placement, PlacementProblem
from hetpart.partitioner.scores.cut import cut
from hetpart.partitioner.scores.fixing import without_misfits
from hetpart.partitioner.scores.liveness import usage
from tests.partitioner.problems import accelerator_weights, placements, random_problem, sessions, with_calls

ROUNDING = 1e-9
ACCELERATOR = 1


def bounds(problem: PlacementProblem) -> tuple[float, float]:
    """By borders, of what runs something on the accelerator, and by the price alone."""
    within = without_misfits(problem)
    search = search_with_sessions(within)
    return bound_by_borders(within, search.met, np.inf, lambda: False), search.bound


def cheapest(problem: PlacementProblem) -> float:
    """Of all that runs something on the accelerator and fits."""
    fitting = (p for p in placements(problem) if p.any() and usage(problem, p, cut(problem, p)).fits(problem))
    return min((problem.cost(p) for p in fitting), default=np.inf)


def sample(seed: int) -> PlacementProblem:
    session = (5, 20, 60)[seed % 3]
    budget = (0.2, 0.4, 0.7)[seed // 3 % 3]
    problem = replace(random_problem(seed, most_ops=9, budget=budget), session_bytes=np.array([0, session]))
    return with_calls(problem, seed) if seed % 2 else problem


def test_nothing_that_fits_is_cheaper() -> None:
    raised = 0
    for seed in range(60):
        problem = sample(seed)
        found, priced = bounds(problem)
        assert found <= cheapest(problem) * (1 + ROUNDING) + ROUNDING, seed
        raised += found > priced * (1 + 1e-6)
    assert raised >= 17


def test_each_session_holds_what_crosses_its_border() -> None:
    """In some session lies as much as in all of them together, shared out evenly; the bound rests on that."""
    for seed in range(60):
        problem = random_problem(seed, most_ops=9)
        problem = with_calls(problem, seed) if seed % 2 else problem
        sizes = held_if_copied(problem)
        for placement in placements(problem):
            held = int(usage(problem, placement, cut(problem, placement)).buffers[ACCELERATOR])
            assert held * sessions(problem, placement) >= int(sizes[problem.copies(placement)].sum()), seed


def test_a_path_that_enters_most_often_does() -> None:
    for seed in range(60):
        problem = random_problem(seed, most_ops=8)
        ways = Ways.of(problem)
        makers, readers = problem.value_producer[problem.value_uses.rows], problem.value_uses.ops
        edges = {(m, r) for m, r in zip(makers.tolist(), readers.tolist(), strict=True) if m != NO_OP}
        for placement in placements(problem):
            path = ways.most_often(placement)
            assert edges.issuperset(zip(path[:-1].tolist(), path[1:].tolist(), strict=True))
            assert stretches(path, placement) == _most_stretches(placement.tolist(), edges), seed


def _most_stretches(placement: list[int], edges: set[tuple[int, int]]) -> int:
    reached = list(placement)
    for maker, reader in sorted(edges, key=lambda edge: edge[1]):
        reached[reader] = max(reached[reader], reached[maker] + (placement[reader] > placement[maker]))
    return max(reached, default=0)


@pytest.mark.parametrize("price", [0.003, 0.02, 0.4])
def test_the_cut_with_a_share_of_what_crosses_equals_brute_force(price: float) -> None:
    for seed in range(80):
        problem = random_problem(seed, most_ops=7, sessions=True)
        problem = with_calls(problem, seed) if seed % 4 == 1 else problem
        chain = Ways.of(problem).most_often(np.ones(problem.ops, np.int8))
        network = CutNetwork.of(problem, Path(chain, 20.0), share=0.25)
        best = min(_priced(problem, chain, placement, price) for placement in placements(problem))
        found = network.cut(price)
        assert found.value <= best + ROUNDING
        assert found.value == pytest.approx(best, rel=1e-6, abs=1e-6), seed


def _priced(problem: PlacementProblem, chain: NDArray[np.int64], placement: Placement, price: float) -> float:
    crossing = int(held_if_copied(problem)[problem.copies(placement)].sum())
    held = accelerator_weights(problem, placement) + 20.0 * stretches(chain, placement) + 0.25 * crossing
    return problem.cost(placement) + price * held
