"""Several stretches at once, beside every placement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.problem import PlacementProblem
from hetpart.partitioner.scores.scoring import Scorer
from hetpart.partitioner.scores.wiring import Wiring
from hetpart.partitioner.search.baselines import all_accelerator
from hetpart.partitioner.search.windows import UNITS, Windows
from tests.partitioner.problems import chain, placements, sessions

SESSION = 50
UNIT = -(-900 // UNITS)
BUFFERS = 20
"""Of values that lie there for a second session, too."""


def layers(seed: int) -> PlacementProblem:
    """Ops one after another that the accelerator is faster at; of some the weights leave no room for much else."""
    rng = np.random.default_rng(seed)
    weights: list[int] = np.where(rng.random(11) < 0.25, 900, rng.integers(60, 200, 11)).tolist()
    seconds = [(float(host), 1.0) for host in rng.integers(4, 20, 11)]
    problem = chain(seconds, weights, copy=0.5, nbytes=10, budget=900)
    return replace(problem, session_bytes=np.array([0, SESSION]))


@pytest.mark.parametrize("seed", range(12))
def test_stretches_of_a_path_are_the_best_placements(seed: int) -> None:
    """Of a path each session is a stretch. Each is counted in whole units of bytes, and by its own buffers alone."""
    problem = layers(seed)
    scorer = Scorer.of(problem)
    windows = Windows.of(scorer, Wiring.of(problem), all_accelerator(problem), lambda: False)
    fit = [scorer.score(placement) for placement in placements(problem)]
    for number in (1, 2, 3):
        room = int(problem.budgets[ACCELERATOR]) - number * (UNIT + SESSION)
        least = min(
            one.cost
            for one in fit
            if one.usage.peak[ACCELERATOR] - one.usage.sessions[ACCELERATOR] <= room - BUFFERS
            and sessions(problem, one.placement) <= number
        )
        found = windows.chosen(number)[0]
        assert found.fits, number
        assert sessions(problem, found.placement) <= number
        assert found.cost <= least, number


def test_more_stretches_are_chosen_where_they_save_more() -> None:
    """Two fast stretches on either side of an op that fits nowhere."""
    problem = chain([(9.0, 1.0)] * 3 + [(9.0, 1.0)] + [(9.0, 1.0)] * 3, [50] * 3 + [5000] + [50] * 3, budget=700)
    problem = replace(problem, session_bytes=np.array([0, SESSION]))
    scorer = Scorer.of(problem)
    windows = Windows.of(scorer, Wiring.of(problem), all_accelerator(problem), lambda: False)
    assert windows.chosen(1)[0].placement.sum() == 3
    assert windows.chosen(2)[0].placement.tolist() == [1, 1, 1, 0, 1, 1, 1]
