from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hetpart.partitioner.problem import PlacementProblem
from hetpart.partitioner.scores.certificate import check
from hetpart.partitioner.scores.cut import Cut, cut
from hetpart.partitioner.scores.gap import gap
from hetpart.partitioner.scores.liveness import usage
from tests.partitioner.problems import chain, placements, random_problem, with_calls, with_host_more


@pytest.mark.parametrize("start", range(0, 300, 50))
def test_checker_agrees_with_the_solvers_figures_on_every_placement(start: int) -> None:
    for seed in range(start, start + 50):
        problem = random_problem(seed, budget=0.5, sessions=True)
        problem = with_calls(problem, seed) if seed % 2 else problem
        problem = with_host_more(problem, seed) if seed % 4 < 2 else problem
        for placement in placements(problem):
            found = cut(problem, placement)
            verdict = check(problem, placement, found)
            used = usage(problem, placement, found)
            assert verdict.legal, (seed, verdict.violations)
            assert verdict.cost == pytest.approx(problem.cost(placement), abs=1e-9)
            assert list(verdict.peaks) == used.peak.tolist(), seed
            assert verdict.fits == used.fits(problem)
            assert bool(verdict.violations) != verdict.fits


def test_what_the_host_takes_more_for_a_weight_is_counted_on_the_host_alone() -> None:
    problem = chain([(1.0, 1.0)] * 3, [100, 200, 400])
    more = dataclasses.replace(problem, host_more=np.array([7, 11]))
    for placement, expected in (((0, 0, 0), (718, 0)), ((1, 0, 0), (611, 100)), ((1, 1, 0), (400, 300))):
        where = np.array(placement, np.int8)
        assert check(more, where, cut(more, where)).peaks == expected


@pytest.mark.parametrize("device", [-1, 2, 7])
def test_a_device_that_there_is_not_is_a_fault(device: int) -> None:
    problem = chain([(1.0, 1.0)] * 3, [100, 200, 400])
    where = np.array([0, device, 1], np.int8)
    verdict = check(problem, where, cut(problem, np.zeros(3, np.int8)))
    assert not verdict.legal
    assert verdict.violations == (f"op 1 is on device {device}, of 2",)


def test_every_kind_of_fault_is_named() -> None:
    problem = next(p for p in map(random_problem, range(1000)) if p.ops > 3 and len(set(p.groups.tolist())) < p.ops)
    placement = next(placements(problem))
    found = cut(problem, placement)
    seconds = problem.seconds.copy()
    seconds[placement[0], 0] = np.inf
    assert "op 0 may not run" in check(dataclasses.replace(problem, seconds=seconds), placement, found).violations[0]
    shared = next(g for g in problem.groups.tolist() if problem.groups.tolist().count(g) > 1)
    split = placement.copy()
    split[problem.groups.tolist().index(shared)] ^= 1
    assert any("on 2 devices" in fault for fault in check(problem, split, cut(problem, split)).violations)
    hole = Cut(found.partition, np.append(found.devices, found.devices[:1]))
    assert "a partition is empty" in check(problem, placement, hole).violations
    swapped = Cut(found.partition, 1 - found.devices)
    assert any("its partition" in fault for fault in check(problem, placement, swapped).violations)
    mixed = dataclasses.replace(problem, apart=np.arange(problem.ops) == 0)
    alone = Cut(np.zeros(problem.ops, np.int32), np.zeros(1, np.int8))
    assert "an op that runs apart shares a partition" in check(mixed, placement, alone).violations


def test_a_cut_that_runs_backwards_is_refused() -> None:
    problem = next(p for p in map(random_problem, range(1000)) if _has_chain(p))
    placement = np.zeros(problem.ops, np.int8)
    backwards = Cut(np.arange(problem.ops - 1, -1, -1, dtype=np.int32), np.zeros(problem.ops, np.int8))
    assert any("runs before value" in fault for fault in check(problem, placement, backwards).violations)


def _has_chain(problem: PlacementProblem) -> bool:
    return problem.legal()[0].all() and bool((problem.value_producer[problem.value_uses.rows] >= 0).any())


@pytest.mark.parametrize(("cost", "bound", "expected"), [(2.0, 1.5, 0.25), (2.0, 2.5, 0.0), (0.0, 0.0, 0.0)])
def test_gap(cost: float, bound: float, expected: float) -> None:
    assert gap(cost, bound) == expected
