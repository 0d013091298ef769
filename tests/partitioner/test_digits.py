"""Budgets that weights exceed by less than a solver of floating point sees."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from hetpart.partitioner.bounds.digits import kept_exactly
from hetpart.partitioner.bounds.milp import Effort, LinearProgram, Rows

EFFORT = Effort(0.0, 10_000, 60.0)


def cheapest(costs: list[float], sizes: list[int], limit: int) -> float:
    sides = product((0, 1), repeat=len(sizes))
    return min(
        sum(cost * there for cost, there in zip(costs, side, strict=True))
        for side in sides
        if sum(size * there for size, there in zip(sizes, side, strict=True)) <= limit
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_limit_is_kept_to_the_last_unit(seed: int) -> None:
    drawn = np.random.default_rng(seed)
    count, largest = int(drawn.integers(2, 9)), int(10 ** drawn.integers(0, 15))
    costs: list[float] = (-drawn.uniform(1, 2, count)).tolist()
    sizes: list[int] = (largest + drawn.integers(0, 9, count)).tolist()
    limit = sum(sorted(sizes)[: count // 2 + 1]) + int(drawn.integers(-3, 4))
    ones = np.ones(count)
    program = LinearProgram(0.0, np.array(costs), 0 * ones, ones, ones > 0, Rows())
    found = kept_exactly(program, [*enumerate(sizes)], limit).solve(EFFORT)
    assert found.bound == pytest.approx(cheapest(costs, sizes, limit), rel=1e-5)
