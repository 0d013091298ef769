"""Linear programs solved from where another ended, beside SciPy's own solver and beside every whole solution."""

from __future__ import annotations

import os
import sys
from itertools import product
from threading import Barrier, Event, Thread

import numpy as np
import pytest
from numpy.typing import NDArray

from hetpart.partitioner.bounds.exact import ROOM
from hetpart.partitioner.bounds.highs import Highs, refuted
from hetpart.partitioner.bounds.milp import Effort, LinearProgram, Rows, silenced
from hetpart.partitioner.bounds.relaxations import Relaxations

EXACT = Effort(0.0, 1_000_000, np.inf)
NEAR = 1e-6
"""Of what costs add up to, HiGHS's caution many times over."""
CORE = "scipy.optimize._highspy"


def program(seed: int, variables: int = 7) -> LinearProgram:
    """Of variables of 0 or 1, with as many rows, which not all have solutions."""
    drawn = np.random.default_rng(seed)
    rows = Rows()
    for _ in range(variables):
        factors = drawn.integers(-3, 4, variables)
        terms = [(variable, float(factor)) for variable, factor in enumerate(factors.tolist()) if factor]
        rows.add(terms, float(drawn.integers(-6, 3)))
    costs = drawn.normal(size=variables) * 10.0 ** drawn.integers(-3, 3)
    ones = np.ones(variables)
    return LinearProgram(float(drawn.normal()), costs, 0 * ones, ones, ones > 0, rows)


def size(linear: LinearProgram) -> float:
    return float(np.abs(linear.costs).sum()) + abs(linear.constant)


def cheapest(linear: LinearProgram, lower: NDArray[np.float64], upper: NDArray[np.float64]) -> float:
    """Of all whole solutions."""
    matrix, least = np.asarray(linear.matrix.todense()), np.array(linear.rows.least)
    whole = [np.array(one) for one in product((0.0, 1.0), repeat=len(lower))]
    costs = [
        float(linear.constant + linear.costs @ one)
        for one in whole
        if (one >= lower).all() and (one <= upper).all() and (matrix @ one >= least).all()
    ]
    return min(costs, default=np.inf)


def turned(drawn: np.random.Generator, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    lower, upper = np.zeros(count), np.ones(count)
    for variable in drawn.choice(count, 3, replace=False).tolist():
        lower[variable] = upper[variable] = float(drawn.integers(0, 2))
    return lower, upper


@pytest.mark.parametrize("spoken_to", [True, False])
def test_bounds_are_those_of_scipy_wherever_they_begin(spoken_to: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not spoken_to:
        monkeypatch.setitem(sys.modules, CORE, None)
    none = raised = 0
    for seed in range(60):
        linear, drawn = program(seed), np.random.default_rng(seed)
        relaxations = Relaxations.of(linear)
        assert (relaxations.highs is not None) == spoken_to
        end = relaxations.solved(linear.lower, linear.upper, np.inf).end
        for _ in range(6):
            lower, upper = turned(drawn, len(linear.costs))
            found = relaxations.solved(lower, upper, np.inf, end)
            within = LinearProgram(linear.constant, linear.costs, lower, upper, linear.integral, linear.rows)
            known = within.relaxed().solve(EXACT).bound
            none += known == np.inf
            raised += np.isfinite(known)
            assert found.bound == known or abs(found.bound - known) <= NEAR * size(linear), seed
            assert found.bound <= cheapest(linear, lower, upper) + NEAR * size(linear), seed
            end = found.end or end
    assert none > 30
    assert raised > 100


def test_a_bound_that_is_enough_is_not_raised_further() -> None:
    """What is proven by then is no more than the best, and enough where the best is."""
    for seed in range(60):
        linear = program(seed)
        best = linear.relaxed().solve(EXACT).bound
        if not np.isfinite(best):
            continue
        for enough in (best - 0.5 * abs(best), best + 0.5 * abs(best)):
            found = Relaxations.of(linear).solved(linear.lower, linear.upper, enough)
            assert found.bound <= best + NEAR * size(linear)
            assert found.bound >= min(enough, best) - NEAR * size(linear)


def test_only_what_is_dearer_is_refuted() -> None:
    refuted_ones = 0
    for seed in range(80):
        linear = program(seed)
        best = cheapest(linear, linear.lower, linear.upper)
        step = 0.1 * float(np.abs(linear.costs).sum())
        for limit in (best - step, best, best + step) if np.isfinite(best) else (0.0,):
            found = refuted(linear, limit)
            refuted_ones += found
            assert not found or best > limit, seed
    assert refuted_ones > 20


Weighed = tuple[list[int], int, list[float], list[tuple[int, int]], list[float], float]
"""Bytes of groups and their budget; what groups cost, and edges, where the first is there and the second is not."""
CONFUSING: dict[str, Weighed] = {
    "a set is a byte too large": (
        [28960605, 13304596, 66035483, 10016930, 19381400], 61646600,
        [-0.2896060571258528, -0.13304597246995767, -0.6603548510422255, -0.10016930725437942, -0.19381401319328134],
        [(0, 2), (0, 2), (3, 2)], [4.4480024531547266e-07, 4.9677533528394224e-08, 0.8534873035570368], 1.37697699021,
    ),
    "a small cost beside large bytes": (
        [94100627, 77235136, 53433341, 93126403, 80232212], 283040605,
        [-0.6579592032259044, -0.7395294886713057, -0.7631237475119006, -0.2809390836587128, -0.7559219496359496],
        [(1, 3)], [4.768134403323743e-10], 3.1974734727037735,
    ),
    "a small cost beside more of them": (
        [31834488, 8471916, 74527086, 40529108, 68847603, 99406348, 41872586], 180464480,
        [-0.8932110253, -0.8396942859, -0.2919942938822, -0.4601059801, -0.3313929933, -0.5065394824, -0.0040037222],
        [(1, 2)], [1.1744312259742142e-10], 3.326941783163175,
    ),
}  # fmt: skip


def weighed(of: Weighed, room: float = ROOM) -> tuple[LinearProgram, float]:
    """The program, with a little more than its budget, and the least cost of what fits."""
    nbytes, budget, costs, edges, prices, constant = of
    groups, rows, unit = len(nbytes), Rows(), 1e3 / budget
    for edge, (one, other) in enumerate(edges):
        rows.add([(groups + edge, 1.0), (one, -1.0), (other, 1.0)], 0.0)
    last = groups + len(edges)
    rows.add([(last, 1.0), *((group, -unit * size) for group, size in enumerate(nbytes))], 0.0)
    upper = np.ones(last + 1)
    upper[last] = unit * budget * (1 + room)
    linear = LinearProgram(
        constant, np.array([*costs, *prices, 0.0]), np.zeros(last + 1), upper, np.arange(last + 1) < groups, rows
    )
    sets = np.array([*product((0, 1), repeat=groups)])
    paid = constant + sets @ np.array(costs)
    for (one, other), price in zip(edges, prices, strict=True):
        paid += price * np.maximum(0, sets[:, one] - sets[:, other])
    return linear, float(paid[sets @ np.array(nbytes) <= budget].min())


@pytest.mark.parametrize("name", CONFUSING)
def test_bytes_and_costs_that_confuse_highs_refute_nothing_that_fits(name: str) -> None:
    """It divides by small costs, and takes a set that lacks a millionth for one that fits, and then for none."""
    linear, best = weighed(CONFUSING[name])
    for more in (1e-9, 1e-6, 1e-3, 1e-2):
        limit = best + more * size(linear)
        assert not refuted(linear, limit), more
        assert linear.below(limit).solve(EXACT).bound <= best + NEAR * size(linear), more
    assert refuted(linear, 0.2 * best)


def test_where_there_is_no_solution_the_bound_says_so_from_the_start() -> None:
    """HiGHS's presolve finds that, and keeps what proves it to itself."""
    none = 0
    for seed in range(300):
        linear = program(seed)
        if linear.relaxed().solve(EXACT).bound == np.inf:
            none += 1
            assert Relaxations.of(linear).solved(linear.lower, linear.upper, np.inf).bound == np.inf, seed
    assert none > 20


def test_threads_that_overlap_give_standard_output_back(capfd: pytest.CaptureFixture[str]) -> None:
    """The first to begin is the first to end: what it gives back must not be what the second took."""
    first_done = Event()
    entered = Barrier(2, timeout=30)

    def overlapping() -> None:
        with silenced():
            entered.wait()
            first_done.wait(30)

    def leaving() -> None:
        with silenced():
            entered.wait()
        first_done.set()

    for pair in ((leaving, overlapping), (overlapping, leaving)):
        first_done.clear()
        threads = [Thread(target=one) for one in pair]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    os.write(1, b"seen")
    assert capfd.readouterr().out == "seen"


def test_where_scipy_keeps_highs_to_itself_nothing_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, CORE, None)
    linear = program(0)
    assert Highs.of(linear) is None
    assert not refuted(linear, -1e9)


def test_few_steps_are_enough_from_where_another_ended() -> None:
    """A path whose ends are told apart: one bound that is turned leaves all but a few steps done."""
    count, drawn = 400, np.random.default_rng(0)
    rows = Rows()
    for before in range(count - 1):
        rows.add([(before, 1.0), (before + 1, -1.0)], 0.0)
    rows.add([(one, -1.0) for one in range(count)], -0.4 * count)
    ones = np.ones(count)
    linear = LinearProgram(0.0, drawn.normal(size=count), 0 * ones, ones, ones > 0, rows)
    relaxations = Relaxations.of(linear)
    whole = relaxations.solved(linear.lower, linear.upper, np.inf)
    before = relaxations.work
    upper = linear.upper.copy()
    upper[count // 4 :] = 0.0
    near = relaxations.solved(linear.lower, upper, np.inf, whole.end)
    anew = Relaxations.of(linear)
    assert near.bound == pytest.approx(anew.solved(linear.lower, upper, np.inf).bound)
    assert near.bound >= whole.bound - NEAR
    assert relaxations.work - before < 0.5 * 3 * before
