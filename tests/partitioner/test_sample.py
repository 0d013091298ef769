"""A part of a problem is a problem of its own, and its price is near that of the whole."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.planner_scale import layered
from hetpart.partitioner.bounds.mincut import CutNetwork
from hetpart.partitioner.bounds.price import search_price
from hetpart.partitioner.bounds.sample import sampled
from hetpart.partitioner.problem import NO_OP, PlacementProblem
from tests.partitioner.problems import random_problem


def price_of(problem: PlacementProblem) -> float:
    return search_price(problem, CutNetwork.of(problem)).price


def test_a_part_is_sound() -> None:
    problems = (random_problem(seed, most_ops=60, budget=0.5) for seed in range(100))
    for problem in (found for found in problems if found.ops >= 16):
        part = sampled(problem, 16)
        assert part.ops <= 16
        assert part.copy_seconds.shape == (2, 2, part.values)
        assert (part.value_producer != NO_OP).all()
        for uses, rows in ((part.value_uses, part.values), (part.weight_uses, len(part.weight_bytes))):
            assert len(uses.offsets) == rows + 1
            assert not len(uses.ops) or 0 <= uses.ops.min() <= uses.ops.max() < part.ops
        assert (np.diff(part.weight_uses.offsets) > 0).all()
        assert part.legal().shape == (2, part.ops)


@pytest.mark.parametrize("transfers", [1, 2])
def test_its_price_is_near(transfers: int) -> None:
    problem = layered(30_000, transfers)
    assert price_of(sampled(problem, 12_000)) == pytest.approx(price_of(problem), rel=0.05)


def test_a_search_opened_near_a_guess_comes_to_the_same_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = layered(6_000, 1)
    network = CutNetwork.of(problem)
    plain = search_price(problem, network)
    monkeypatch.setattr("hetpart.partitioner.bounds.price.SAMPLED_OPS", 1_000)
    guessed = search_price(problem, network)
    assert {known.price for known in guessed.cuts} != {known.price for known in plain.cuts}
    assert guessed.bound == pytest.approx(plain.bound, rel=1e-6)
    assert problem.cost(guessed.below) == pytest.approx(problem.cost(plain.below), rel=1e-3)
