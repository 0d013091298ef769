from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetpart.partitioner.scores.ledger import Ledger
from hetpart.partitioner.scores.scoring import forced_placement
from hetpart.partitioner.scores.wiring import Wiring
from tests.partitioner.problems import accelerator_weights, random_problem


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6), st.data())
def test_moves_keep_cost_and_bytes_exact(seed: int, data: st.DataObject) -> None:
    problem = random_problem(seed, most_ops=12)
    wiring = Wiring.of(problem)
    ledger = Ledger(wiring, forced_placement(problem))
    for group in data.draw(st.lists(st.sampled_from(wiring.movable), max_size=20)) if wiring.movable else []:
        before, (seconds, nbytes) = (ledger.cost, ledger.nbytes), ledger.delta(group)
        ledger.flip(group)
        assert (ledger.cost, ledger.nbytes) == (pytest.approx(before[0] + seconds), before[1] + nbytes)
        placement = ledger.placement()
        assert ledger.cost == pytest.approx(problem.cost(placement), abs=1e-9)
        assert ledger.nbytes == accelerator_weights(problem, placement)


def test_a_move_changes_the_worth_of_its_neighbours_alone() -> None:
    for seed in range(200):
        problem = random_problem(seed, most_ops=12)
        wiring = Wiring.of(problem)
        ledger = Ledger(wiring, forced_placement(problem))
        for group in wiring.movable:
            others = [other for other in wiring.movable if other != group and other not in wiring.neighbours[group]]
            before = [ledger.delta(other) for other in others]
            ledger.flip(group)
            assert [ledger.delta(other) for other in others] == before


def test_pressure_weighs_like_weights() -> None:
    problem = random_problem(3)
    wiring = Wiring.of(problem)
    more = np.arange(problem.ops, dtype=np.int64)
    plain = Ledger(wiring, np.ones(problem.ops, np.int8))
    pressed = Ledger(wiring.seen(problem, more), np.ones(problem.ops, np.int8))
    assert pressed.nbytes - plain.nbytes == more.sum()
