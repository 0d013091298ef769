from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.by_copies import least_streaming
from hetpart.partitioner.bounds.chain import search_with_sessions
from hetpart.partitioner.problem import PlacementProblem, Streaming
from hetpart.partitioner.scores.certificate import check
from hetpart.partitioner.scores.cut import cut
from hetpart.partitioner.scores.fixing import without_misfits
from hetpart.partitioner.scores.rings import ring_cuts
from hetpart.partitioner.scores.streamed import StreamScorer
from hetpart.partitioner.scores.streaming import ThreeStates, with_streamed
from hetpart.partitioner.search.solve import NothingFitsError, Solution, solve
from hetpart.partitioner.search.three_states import ALONE, solve_three_states
from tests.partitioner.force import best_of_all
from tests.partitioner.problems import chain, with_host_more
from tests.partitioner.streams import all_scored, any_problem, layered_problem

SECONDS_PER_BYTE = 0.01


def layers(count: int, *, budget: int, nbytes: int = 100) -> PlacementProblem:
    """Layers that take 10 s on the host, 1 on the accelerator and 1 to copy there."""
    problem = chain([(10.0, 1.0)] * count, [nbytes] * count, budget=budget)
    sizes = problem.weight_bytes
    return replace(problem, streaming=Streaming(sizes * SECONDS_PER_BYTE, sizes, asked=True))


@pytest.mark.parametrize("seed", range(30))
def test_every_figure_is_what_the_checker_finds(seed: int) -> None:
    problem = any_problem(seed, budget=0.3, sessions=seed % 2 == 0) if seed % 3 else layered_problem(seed)
    problem = with_host_more(problem, seed) if seed % 4 < 2 else problem
    states = ThreeStates.of(problem)
    for found in all_scored(problem):
        verdict = check(problem, found.own.placement, found.own.cut, found.streamed)
        assert verdict.legal
        assert verdict.cost == pytest.approx(found.cost)
        assert verdict.total_seconds == pytest.approx(found.total_seconds)
        assert list(verdict.peaks) == found.usage.peak.tolist()
        in_two_states = states.problem.cost(found.placement)
        assert in_two_states == pytest.approx(found.cost) or not found.fits


def test_a_weight_that_may_not_be_streamed_is_noticed() -> None:
    problem = layers(2, budget=200)
    assert problem.streaming is not None
    barred = replace(problem, streaming=replace(problem.streaming, seconds=np.array([1.0, np.inf])))
    placement = np.ones(2, np.int8)
    verdict = check(barred, placement, cut(barred, placement), np.array([True, True]))
    assert verdict.violations == ("weight 1 may not be streamed",)


def assert_sound(problem: PlacementProblem, solution: Solution) -> None:
    verdict = check(problem, solution.placement, solution.cut, solution.streamed)
    assert verdict.violations == ()
    assert verdict.cost == pytest.approx(solution.cost)
    assert list(verdict.peaks) == solution.usage.peak.tolist()
    assert solution.lower_bound <= solution.cost


@pytest.mark.parametrize("seed", range(12))
def test_never_worse_than_without_streaming(seed: int) -> None:
    problem = layered_problem(seed)
    try:
        without = solve(replace(problem, streaming=None))
    except NothingFitsError:
        return
    assert solve_three_states(problem).total_seconds <= without.total_seconds + 1e-12


def test_layers_stream_through_a_ring() -> None:
    solution = solve_three_states(layers(8, budget=200))
    assert solution.placement.tolist() == [1] * 8
    assert solution.streamed is not None
    assert solution.streamed.all()
    assert solution.cut.partitions == 8
    assert solution.cost == pytest.approx(16.0)
    assert solution.usage.peak[ACCELERATOR] == 200
    assert solution.usage.weights.tolist() == [800, 0]


def test_what_there_is_room_for_is_held() -> None:
    solution = solve_three_states(layers(8, budget=500))
    assert solution.streamed is not None
    # Every other weight: of two that follow each other one is held, and what streams is there one at a time.
    assert int(solution.streamed.sum()) == 4
    assert solution.cost == pytest.approx(12.0)


def test_a_memory_cheaper_than_copies_streams_nothing_unless_asked() -> None:
    problem = layers(4, budget=300)
    assert problem.streaming is not None
    dear = replace(problem.streaming, seconds=problem.weight_bytes * 1.0, asked=False)
    assert solve_three_states(replace(problem, streaming=dear)).streamed is None
    cheap = replace(problem.streaming, asked=False)
    assert solve_three_states(replace(problem, streaming=cheap)).streamed is not None


def test_streaming_is_found_by_default_where_activations_leave_no_room_for_weights() -> None:
    # Two activations fit beside two weights, and all weights alone: the price of a weight's byte is none.
    problem = replace(layers(5, budget=700), value_bytes=np.full(5, 250), value_returned=np.zeros(5, np.bool_))
    assert problem.streaming is not None
    quiet = replace(problem, streaming=replace(problem.streaming, asked=False))
    solution, best = solve_three_states(quiet), best_of_all(quiet)
    assert best is not None
    assert best.streams
    assert solution.total_seconds == pytest.approx(best.total_seconds)
    assert solution.bound_of_all == solution.lower_bound <= best.cost


@pytest.mark.parametrize("source", ["optimal", "all-cpu", "fill-in-order"])
@pytest.mark.parametrize("seed", range(8))
def test_a_bound_is_of_all_placements_or_says_that_it_is_of_those_that_stream_nothing(seed: int, source: str) -> None:
    problem = any_problem(seed, budget=0.3, sessions=seed % 2 == 0) if seed % 3 else layered_problem(seed)
    assert problem.streaming is not None
    quiet = replace(problem, streaming=replace(problem.streaming, asked=False))
    best, holding = best_of_all(quiet), best_of_all(replace(quiet, streaming=None))
    if best is None or holding is None:
        return
    try:
        solution = solve_three_states(quiet, source=source)
    except NothingFitsError:
        assert source != "optimal"
        return
    of_those_that_hold = solution.speaks_of.endswith(ALONE)
    assert solution.lower_bound <= (holding if of_those_that_hold else best).cost * (1 + 1e-9)
    assert solution.bound_of_all <= best.cost * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(30))
def test_what_streams_costs_at_least_its_copies(seed: int) -> None:
    problem = any_problem(seed, budget=0.3, sessions=seed % 2 == 0) if seed % 3 else layered_problem(seed)
    within = without_misfits(replace(problem, streaming=None))
    bound = least_streaming(problem, within, search_with_sessions(within))
    streaming = [found.cost for found in all_scored(problem) if found.fits and found.streamed.any()]
    assert bound <= min(streaming, default=np.inf) * (1 + 1e-9)


@pytest.mark.parametrize("source", ["all-cpu", "fill-in-order", "random:3"])
def test_other_sources_hold_what_they_place(source: str) -> None:
    problem = layers(4, budget=300)
    assert problem.streaming is not None
    quiet = replace(problem, streaming=replace(problem.streaming, asked=False))
    assert solve_three_states(quiet, source=source).streamed is None


def test_random_placements_stream_at_random_where_that_is_asked() -> None:
    found = [solve_three_states(layers(6, budget=400), source=f"random:{seed}") for seed in range(8)]
    for solution in found:
        assert_sound(layers(6, budget=400), solution)
    assert len({solution.streamed.tobytes() for solution in found if solution.streamed is not None}) > 2


def test_pieces_get_finer_and_keep_groups_whole() -> None:
    problem = layers(12, budget=400)
    grouped = replace(problem, groups=(np.arange(12) // 3).astype(np.int32))
    streaming = with_streamed(grouped, np.ones(12, np.bool_))
    placement = np.ones(12, np.int8)
    found = [ring.cut for ring in ring_cuts(streaming, cut(streaming, placement))]
    assert [one.partitions for one in found] == sorted({one.partitions for one in found})
    assert found[-1].partitions == 4
    assert found[-1].partition.tolist() == (np.arange(12) // 3).tolist()


def test_what_streams_nothing_between_two_that_stream_halves_what_is_there_at_once() -> None:
    problem = layers(9, budget=400)
    streamed = np.arange(9) % 2 == 0
    streaming = with_streamed(problem, streamed)
    placement = np.ones(9, np.int8)
    each = int(problem.weight_bytes[0])
    least = {ring.cut.partitions: ring.least_bytes for ring in ring_cuts(streaming, cut(streaming, placement))}
    assert least[5] == 2 * each
    assert least[9] == each


def test_scores_are_of_the_coarsest_cut_that_fits() -> None:
    problem = layers(8, budget=400)
    scorer = StreamScorer.over(problem)
    everything = scorer.states.together(np.ones(8, np.int8), np.ones(8, np.bool_))
    found = scorer.score(everything)
    assert found.fits
    assert found.cut.partitions == 4
