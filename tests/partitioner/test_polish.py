"""Last touches where real memory takes more than what is alive: what cannot be better is not laid out in it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from hetpart.partitioner.problem import Placement
from hetpart.partitioner.scores.cut import Cut
from hetpart.partitioner.scores.liveness import Packed
from hetpart.partitioner.scores.scoring import Scorer, forced_placement
from hetpart.partitioner.scores.wiring import Wiring
from hetpart.partitioner.search.polish import merged, nudged
from tests.partitioner.problems import placements, random_problem
from tests.partitioner.test_by_passage import roomy


@pytest.mark.parametrize("start", range(0, 120, 40))
def test_what_is_slower_is_not_packed_and_what_comes_back_fits(start: int) -> None:
    slower = improved = 0
    for seed in range(start, start + 40):
        problem = random_problem(seed, most_ops=7, budget=0.5, sessions=True)
        packing, packed = roomy(problem, seed), list[bytes]()

        def watched(placement: Placement, cut: Cut, streamed: NDArray[np.bool_] | None) -> Packed:
            packed.append(placement.tobytes())  # noqa: B023
            return packing(placement, cut, streamed)  # noqa: B023

        scorer, judge, wiring = Scorer.of(problem, watched), Scorer.of(problem, packing), Wiring.of(problem)
        first = scorer.score(forced_placement(problem))
        if not first.fits:
            continue
        packed.clear()
        found = nudged(scorer, wiring, merged(scorer, wiring, first))
        assert judge.score(found.placement).fits, seed
        assert found.fit_rank <= first.fit_rank, seed
        improved += found.fit_rank < first.fit_rank
        slow = {one.placement.tobytes() for one in map(judge.score, placements(problem)) if one.rank > first.rank}
        assert not slow & {*packed}, seed
        slower += len(slow)
    assert slower > 100
    assert improved > 5
