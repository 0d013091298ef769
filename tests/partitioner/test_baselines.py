from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetpart.partitioner.problem import PlacementProblem
from hetpart.partitioner.search.baselines import BASELINES
from hetpart.partitioner.search.chance import random_placement
from hetpart.partitioner.uses import Uses
from tests.partitioner.problems import chain, random_problem

FAST = [(10.0, 1.0)] * 4
INF = float("inf")


def placed(rule: str, problem: PlacementProblem) -> str:
    """The placement as text: ``c`` for the host, ``a`` for the accelerator."""
    return "".join("ca"[device] for device in BASELINES[rule](problem).tolist())


@pytest.mark.parametrize(
    ("rule", "budget", "expected"),
    [
        ("all-cpu", 10**6, "cccc"),
        ("all-accelerator", 0, "aaaa"),
        # 1.5 × (100 + 20) = 180 for each of the first two; the third, of 900, ends it though the fourth would fit.
        ("fill-in-order", 180, "accc"),
        ("fill-in-order", 179, "cccc"),
        ("fill-in-order", 360, "aacc"),
        ("fill-in-order", 1700, "aacc"),
        ("fill-in-order", 1740, "aaac"),
        ("fill-in-order", 1920, "aaaa"),
        # The largest op's 900 bytes are kept free.
        ("accelerate-order", 1100, "aacc"),
        ("accelerate-order", 999, "cccc"),
        ("accelerate-order", 2100, "aaaa"),
        ("density", 300, "aaca"),
        ("density", 99, "cccc"),
        ("density", 1200, "aaaa"),
    ],
)
def test_each_rule_on_a_chain(rule: str, budget: int, expected: str) -> None:
    assert placed(rule, chain(FAST, [100, 100, 900, 100], nbytes=20, budget=budget)) == expected


def test_fill_in_order_passes_over_ops_without_a_kernel_and_charges_shared_weights_once() -> None:
    problem = chain([(10.0, 1.0), (10.0, INF), (10.0, 1.0), (10.0, 1.0)], [100, 10**9, 100, 100], budget=300)
    assert placed("fill-in-order", problem) == "acac"
    tied = Uses.from_rows([[(0, False), (2, False), (3, False)], [(1, False)]])
    shared = replace(problem, weight_bytes=np.array([200, 10**9]), weight_uses=tied)
    assert placed("fill-in-order", shared) == "acaa"


def test_density_takes_the_most_seconds_per_byte_first_and_nothing_that_is_slower() -> None:
    problem = chain([(10.0, 1.0), (30.0, 1.0), (1.0, 9.0), (5.0, 1.0)], [100, 100, 1, 100], budget=200)
    assert placed("density", problem) == "aacc"


def test_every_rule_keeps_to_kernels_pins_and_groups() -> None:
    for seed in range(300):
        problem = random_problem(seed, most_ops=12, budget=0.3)
        legal = problem.legal()
        chosen = [rule(problem) for rule in BASELINES.values()] + [random_placement(problem, seed)]
        for placement in chosen:
            assert legal[placement, np.arange(problem.ops)].all(), seed
            assert all(len(set(placement[problem.groups == group].tolist())) == 1 for group in problem.groups)


def test_random_placements_differ_by_seed_and_switch_devices_in_every_way() -> None:
    problem = chain([(1.0, 1.0)] * 40, [1] * 40)
    placements = [random_placement(problem, seed) for seed in range(60)]
    assert [random_placement(problem, seed).tolist() for seed in range(60)] == [p.tolist() for p in placements]
    switches = [int(np.abs(np.diff(placement)).sum()) for placement in placements]
    assert min(switches) <= 3
    assert max(switches) >= 12
    assert len({placement.tobytes() for placement in placements}) > 50


def test_earliest_finish_uses_both_lanes_and_counts_copies() -> None:
    """Two heads of one value: the first keeps the accelerator busy, so the second is done sooner on the host."""
    problem = chain([(9.0, 1.0), (9.0, 4.0), (3.0, 2.0)], [10, 10, 10], copy=0.5, budget=100)
    heads = Uses.from_rows([[(1, False), (2, False)], [], []])
    forked = replace(problem, value_uses=heads)
    assert placed("earliest-finish", forked) == "aac"
    far = replace(forked, copy_seconds=forked.copy_seconds * 10)
    assert placed("earliest-finish", far) == "aaa"


def test_earliest_finish_keeps_to_the_budget_and_charges_a_shared_weight_once() -> None:
    assert placed("earliest-finish", chain(FAST, [100, 100, 900, 100], budget=300)) == "aaca"
    tied = Uses.from_rows([[(0, False), (2, False)], [(1, False)], [(3, False)]])
    shared = replace(chain(FAST, [100, 100, 900, 100], budget=300), weight_uses=tied, weight_bytes=np.full(3, 100))
    assert placed("earliest-finish", shared) == "aaaa"
