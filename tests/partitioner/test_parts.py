"""A partition of many layers that each bring a cache, in two parts, three, and so on."""

from __future__ import annotations

import numpy as np
import pytest

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.problem import Placement
from hetpart.partitioner.scores.fixing import without_misfits
from hetpart.partitioner.scores.scoring import Scored, Scorer
from hetpart.partitioner.scores.wiring import Wiring
from hetpart.partitioner.search.parts import MOST_PARTED, Parts
from tests.partitioner.problems import random_problem
from tests.partitioner.test_pace import CACHE, LAYERS, SESSION, with_caches

PRICE = 0.02
"""At which the middle of a layer, which saves less than its cache takes, is where partitions are cut."""


def sessions(found: Scored) -> int:
    return int((found.cut.devices == ACCELERATOR).sum())


def test_parts_share_out_what_crosses() -> None:
    problem = with_caches()
    scorer = Scorer.of(problem)
    whole = scorer.score(np.ones(problem.ops, np.int8))
    found = [*map(scorer.score, Parts.of(scorer, Wiring.of(problem), PRICE).parted(whole.placement))]
    assert [sessions(one) for one in (whole, *found)] == [*range(1, MOST_PARTED + 1)]
    for one in found:
        most = LAYERS * CACHE / sessions(one)
        assert most - 2 * CACHE <= one.usage.buffers[ACCELERATOR] <= most + 2
        assert one.usage.sessions[ACCELERATOR] == SESSION * sessions(one)
        assert one.usage.peak[ACCELERATOR] < whole.usage.peak[ACCELERATOR]
        assert one.placement.sum() > problem.ops - 2 * MOST_PARTED


@pytest.mark.parametrize("seed", range(30))
def test_no_part_is_told_twice_or_puts_more_on_the_accelerator(seed: int) -> None:
    problem = without_misfits(random_problem(seed, most_ops=14, budget=0.6, sessions=True))
    scorer = Scorer.of(problem)
    whole: Placement = (problem.legal()[ACCELERATOR]).astype(np.int8)
    found = [*Parts.of(scorer, Wiring.of(problem), 0.1).parted(whole)]
    assert len({one.tobytes() for one in (whole, *found)}) == len(found) + 1
    assert all((one <= whole).all() for one in found)
