"""The bound by numbers of partitions beside everything that streams."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetpart.partitioner.bounds import by_partitions
from hetpart.partitioner.bounds.by_partitions import bound_by_partitions
from hetpart.partitioner.bounds.mincut import CutNetwork
from hetpart.partitioner.bounds.price import search_price
from hetpart.partitioner.problem import PlacementProblem, Streaming
from hetpart.partitioner.scores.fixing import without_misfits
from hetpart.partitioner.scores.streamed import StreamScorer
from hetpart.partitioner.search.three_states import solve_three_states
from tests.partitioner.force import best_of_all
from tests.partitioner.problems import chain
from tests.partitioner.streams import all_scored, any_problem, layered_problem
from tests.partitioner.test_pace import with_caches

ROUNDING = 1e-9


def bounds(problem: PlacementProblem) -> tuple[float, float]:
    """By numbers of partitions, and by the price alone."""
    states = StreamScorer.over(problem).states
    within = without_misfits(states.problem)
    found = bound_by_partitions(states, within, np.inf, lambda: False)
    return found, search_price(within, CutNetwork.of(within)).bound


def cheapest(problem: PlacementProblem) -> float:
    """Of all that streams and fits."""
    return min((found.cost for found in all_scored(problem) if found.fits and found.streamed.any()), default=np.inf)


@pytest.mark.parametrize("seed", range(24))
def test_nothing_that_streams_is_cheaper(seed: int) -> None:
    problem = any_problem(seed, budget=0.3, sessions=seed % 2 == 0) if seed % 2 else layered_problem(seed)
    assert bounds(problem)[0] <= cheapest(problem) * (1 + ROUNDING) + ROUNDING


def test_it_is_above_what_the_price_alone_says() -> None:
    found = [bounds(layered_problem(seed)) for seed in range(0, 40, 4)]
    assert sum(counted > priced * (1 + ROUNDING) for counted, priced in found) >= len(found) // 2


def test_the_neediest_op_leaves_weights_less_room() -> None:
    """A price alone sees half of a layer need half as much."""
    problem = chain([(20.0, 1.0)] * 4, [40] * 4, copy=0.1, nbytes=20, budget=140)
    streaming = Streaming(np.full(4, 2.0), problem.weight_bytes, asked=True)
    found = bounds(replace(problem, streaming=streaming))
    assert found[0] > found[1] + 0.5
    assert found[0] <= cheapest(replace(problem, streaming=streaming)) + ROUNDING


def test_one_partition_gains_by_streaming_where_an_output_of_the_host_is_wanted_there() -> None:
    """Its weight is gone when the output comes; held, there is no room for both."""
    problem = chain([(20.0, 1.0), (1.0, np.inf)], [100, 0], copy=0.1, nbytes=90, budget=200)
    streaming = Streaming(np.array([2.0, np.inf]), problem.weight_bytes, asked=True)
    wanted = np.array([0, 1], np.int8)
    problem = replace(problem, streaming=streaming, value_kept=wanted, value_bytes=np.array([1, 150]))
    best, found = best_of_all(problem), solve_three_states(problem)
    assert best is not None
    assert best.streams
    assert found.cut.devices.tolist() == [1, 0]
    assert found.cost == pytest.approx(best.cost)
    assert bounds(problem)[0] <= best.cost * (1 + ROUNDING)
    assert found.lower_bound <= best.cost * (1 + ROUNDING)


def test_levels_take_no_searches_from_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many levels as ops and few ranges, numbers alone say more than twice what the price says."""
    monkeypatch.setattr(by_partitions, "MOST_RANGES", 4)
    problem = chain([(20.0, 1.0)] * 5, list(range(40, 45)), copy=0.1, nbytes=1, budget=140)
    streaming = Streaming(np.full(5, 2.0), problem.weight_bytes, asked=True)
    sessions = replace(problem, scratch_bytes=np.arange(5), session_bytes=np.array([0, 25]), streaming=streaming)
    found, priced = bounds(sessions)
    assert found > 2 * priced
    assert found <= cheapest(sessions) + ROUNDING


def test_what_crosses_lies_beside_few_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two layers that each bring a cache of 300 bytes: of two partitions one has half of both."""
    problem = with_caches(layers=2, cache=300)
    weights = problem.weight_bytes * 2 // 5
    host = np.where(np.arange(problem.ops) % 3 == 1, 20.0, 10.0)
    problem = replace(
        problem,
        seconds=np.stack([host, np.ones(problem.ops)]),
        weight_bytes=weights,
        budgets=np.array([-1, 700]),
        streaming=Streaming(np.full(problem.ops, 0.5), weights, asked=True),
    )
    found, _ = bounds(problem)
    monkeypatch.setattr(by_partitions, "CROSSING_OF", 0)
    assert bounds(problem)[0] + 0.1 < found <= cheapest(problem) + ROUNDING
