from __future__ import annotations

import numpy as np

from hetpart.partitioner.scores.cut import cut
from hetpart.partitioner.scores.fixing import least_bytes, without_misfits
from hetpart.partitioner.scores.liveness import usage
from tests.partitioner.problems import placements, random_problem


def test_no_placement_with_an_op_on_the_accelerator_holds_less_than_the_op_needs() -> None:
    for seed in range(300):
        problem = random_problem(seed, most_ops=6)
        needed = least_bytes(problem)
        for placement in placements(problem):
            peak = usage(problem, placement, cut(problem, placement)).peak[1]
            assert (needed[placement == 1] <= peak).all(), seed


def test_shutting_out_misfits_loses_no_placement_that_fits() -> None:
    shut = 0
    for seed in range(300):
        problem = random_problem(seed, most_ops=6, budget=0.4)
        legal = without_misfits(problem).legal()
        shut += int((problem.legal() & ~legal).sum())
        assert legal.any(axis=0).all()
        for placement in placements(problem):
            if usage(problem, placement, cut(problem, placement)).fits(problem):
                assert legal[placement, np.arange(problem.ops)].all(), seed
    assert shut > 100
