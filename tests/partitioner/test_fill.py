"""What is filled up keeps to the budget, to groups and to what lies between; what a stretch costs is exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetpart.partitioner.problem import Placement, PlacementProblem
from hetpart.partitioner.search.fill import Line, filled
from tests.partitioner.problems import accelerator_weights, chain, random_problem


def nested(seed: int) -> tuple[PlacementProblem, Placement, Placement]:
    """A problem without pins, and two placements of which the second has all that the first has and more."""
    problem = random_problem(seed, most_ops=14)
    problem = replace(problem, seconds=np.where(np.isfinite(problem.seconds), problem.seconds, 1.0))
    rng = np.random.default_rng(seed)
    names, group = np.unique(problem.groups, return_inverse=True)
    small, large = (rng.random(len(names)) < 0.3)[group], (rng.random(len(names)) < 0.7)[group]
    return problem, small.astype(np.int8), (small | large).astype(np.int8)


def test_every_stretch_to_an_end_costs_what_the_problem_says() -> None:
    checked = 0
    for seed in range(300):
        problem, below, above = nested(seed)
        if not (ops := np.flatnonzero(above > below)).size:
            continue
        line = Line.of(problem, below, ops)
        to_end, from_start = line.costs()
        for place in range(line.length + 1):
            checked += 1
            head, tail = line.flipped(0, place), line.flipped(place, line.length)
            assert to_end[place] == pytest.approx(problem.cost(head) - problem.cost(below), abs=1e-9)
            assert from_start[place] == pytest.approx(problem.cost(tail) - problem.cost(below), abs=1e-9)
    assert checked > 900


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 1.0])
def test_filled_lies_between_and_within_the_budget(share: float) -> None:
    more = 0
    for seed in range(200):
        problem, below, above = nested(seed)
        least, most = (accelerator_weights(problem, placement) for placement in (below, above))
        budget = least + int(share * (most - least))
        found = filled(problem, below, above, budget)
        assert accelerator_weights(problem, found) <= budget
        assert (below <= found).all()
        assert (found <= above).all()
        _, group = np.unique(problem.groups, return_inverse=True)
        assert len({*zip(group.tolist(), found.tolist(), strict=True)}) == len({*group.tolist()})
        more += int((found > below).any())
        assert share < 1.0 or (found == above).all()
    assert share == 0.0 or more > 20


def test_a_chain_too_large_for_the_room_gives_the_cheapest_stretch() -> None:
    """Ops 4 to 6 save most: of all stretches of three ops theirs is the cheapest."""
    seconds = [(9.0 if 4 <= op <= 6 else 5.0, 1.0) for op in range(12)]
    problem = chain(seconds, [100] * 12, copy=1.0, nbytes=10)
    found = filled(problem, np.zeros(12, np.int8), np.ones(12, np.int8), 300)
    assert np.flatnonzero(found).tolist() == [4, 5, 6]
