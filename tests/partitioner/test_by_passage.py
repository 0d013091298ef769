"""Passages through narrow problems, against the cuts and the costs of every placement of small ones."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hetpart.partitioner.bounds import by_passage as searched
from hetpart.partitioner.bounds import passage
from hetpart.partitioner.bounds.by_passage import MANY, ByPassage, Met, Told, by_passage, is_passable
from hetpart.partitioner.bounds.certain import Sweep
from hetpart.partitioner.bounds.constrained import Cheapest, cheapest, listed
from hetpart.partitioner.bounds.exact import AIM_WITH_MOMENTS
from hetpart.partitioner.bounds.in_order import InOrder
from hetpart.partitioner.bounds.passage import Layers, Room
from hetpart.partitioner.problem import NO_BUDGET, Placement, PlacementProblem
from hetpart.partitioner.scores.cut import Cut, both_cuts, cut
from hetpart.partitioner.scores.liveness import Packed, Usage, usage
from hetpart.partitioner.scores.scoring import Scorer
from hetpart.partitioner.search.solve import solve
from hetpart.partitioner.uses import Uses
from tests.partitioner.problems import chain, placements, random_problem, with_calls
from tests.partitioner.test_apart import ACCELERATOR, best_of, fitting, woven

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.scores.scoring import Packing

ROUNDING = 1e-9
AMPLE = 1e9


def passable(seed: int, ops: int = 7) -> PlacementProblem:
    """A chain with values read again further on, or anything without what the caller keeps."""
    if seed % 3 == 0:
        return replace(woven(seed, ops), apart=None)
    problem = replace(random_problem(seed, most_ops=ops), value_kept=None)
    problem = replace(problem, weight_bytes=problem.weight_bytes // (8 if seed % 2 else 1))
    total = int(problem.value_bytes.sum() + problem.weight_bytes.sum())
    return replace(problem, budgets=np.array([NO_BUDGET, int((0.15, 0.3, 0.5)[seed // 3 % 3] * total)]))


def never() -> bool:
    return False


def asked(_: Placement) -> Told:
    """A placement that fits and says nothing of what is enough."""
    return Told(np.inf, 0)


nothing = Met(asked, asked)


def best_so(problem: PlacementProblem, scorer: Scorer) -> float:
    """The least cost of all that fit as sessions take memory."""
    found = map(scorer.score, sorted(placements(problem), key=problem.cost))
    return next((one.cost for one in found if one.fits), np.inf)


def held(problem: PlacementProblem, placement: Placement) -> Usage:
    return usage(problem, placement, cut(problem, placement))


def only(problem: PlacementProblem, placement: Placement) -> PlacementProblem:
    """The problem of that placement alone, with any budget."""
    seconds = problem.seconds.copy()
    seconds[1 - placement, np.arange(problem.ops)] = np.inf
    return replace(problem, seconds=seconds, budgets=np.array([NO_BUDGET, 10**6]))


@pytest.mark.parametrize("sweep", [Sweep.EITHER, Sweep.ALONG, Sweep.AGAINST])
@pytest.mark.parametrize("start", range(0, 120, 40))
def test_the_bound_is_below_the_best_of_all_placements_and_mostly_equal(start: int, sweep: Sweep) -> None:
    equal = checked = 0
    for seed in range(start, start + 40):
        problem = passable(seed)
        best = best_of(problem, sweep)
        search = ByPassage.of(problem, sweep)
        if search is None:
            assert best == np.inf, seed
            continue
        found = search.raised(0.05, min(best * 1.5, AMPLE), nothing, never)
        assert found <= best * (1 + ROUNDING) + ROUNDING, seed
        assert search.raised(0.05, min(best * 0.9, AMPLE), nothing, never) <= best * 0.9 + AMPLE * (best == np.inf)
        checked += 1
        equal += found == pytest.approx(best) or best == np.inf
    assert equal > 0.7 * checked > 15, (equal, checked)


def of_any_size(seed: int) -> PlacementProblem:
    """A chain whose values are of sizes that a passage rounds."""
    rng = np.random.default_rng(seed)
    sizes, weights = rng.integers(20, 80, 7), rng.integers(0, 60, 7)
    seconds = zip(rng.uniform(2, 12, 7).tolist(), rng.uniform(0.2, 2, 7).tolist(), strict=True)
    problem = chain([*seconds], weights.tolist(), copy=float(rng.choice([0, 0.3])))
    budget = int((weights.sum() + sizes.sum()) * rng.uniform(0.3, 0.7))
    return replace(problem, value_bytes=sizes, budgets=np.array([NO_BUDGET, budget]))


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_no_placement_is_lost_between_ranges_of_what_is_rounded(start: int) -> None:
    for seed in range(start, start + 20):
        problem = of_any_size(seed)
        scorer = Scorer.of(problem)
        best, found = best_so(problem, scorer), ByPassage.of(problem, Sweep.ALONG)
        assert found is not None
        bound = found.raised(0.01, 2 * best, truly(scorer, 2 * best), never)
        assert bound <= best * (1 + ROUNDING), seed


def truly(scorer: Scorer, enough: float) -> Met:
    """Tells whether a placement fits, which is no reason to ask for less."""

    def told(placement: Placement) -> Told:
        return Told(enough, max(0, int(scorer.score(placement).excess)))

    return Met(told, told)


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_of_ops_that_all_lead_to_the_next_the_bound_is_the_best(seed: int) -> None:
    problem = passable(seed, 8)
    assert all(InOrder.of(problem).waist)
    best, search = best_of(problem), ByPassage.of(problem)
    assert search is not None
    met = truly(Scorer.of(problem), 2 * best)
    assert search.raised(0.05, 2 * best, met, never) == pytest.approx(best)


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_every_placement_has_a_passage_that_costs_and_holds_no_more(start: int) -> None:
    checked = 0
    for seed in range(start, start + 20):
        problem = passable(seed, 6)
        problem = replace(problem, session_bytes=np.array([0, 7 * (seed % 2)]))
        for placement in placements(problem):
            used, layers = held(problem, placement), Layers.of(only(problem, placement))
            assert layers is not None
            weights = used.weights + used.sessions
            room = Room(*(np.array([one[ACCELERATOR] + 0.5]) for one in (used.buffers, used.inside, weights)))
            found = cheapest(layers, np.zeros(1), room, AMPLE, MANY)
            assert found.placement is not None
            assert (found.placement == placement).all()
            assert found.bound <= problem.cost(placement) + ROUNDING, (seed, placement)
            checked += 1
    assert checked > 200


@pytest.mark.parametrize("seed", range(30))
def test_linked_ops_and_whole_stretches_between_waists_share_a_partition_in_either_sweep(seed: int) -> None:
    problem = passable(seed)
    ops = InOrder.of(problem)
    waists = np.flatnonzero(ops.waist).tolist()
    for placement in placements(problem):
        for made in both_cuts(problem, placement):
            for op in np.flatnonzero(ops.linked).tolist():
                alike = placement[op] == placement[op - 1]
                assert (made.partition[op] == made.partition[op - 1]) == alike
            for one, other in pairwise(waists):
                whole = bool((placement[one : other + 1] == placement[one]).all())
                assert (made.partition[one] == made.partition[other]) == whole


def test_weights_come_in_whole_pieces() -> None:
    """A price of a byte says that two thirds of a weight would do: followed one by one, placements are too dear."""
    problem = chain([(9.0, 1.0)] * 5, [30] * 5, nbytes=1, budget=102)
    search = ByPassage.of(problem)
    assert search is not None
    assert search.raised(0.1, 40.0, nothing, never) == pytest.approx(3 * 1.0 + 2 * 9.0)
    room = Room(np.array([2.0]), np.array([2.0]), np.array([100.0]))
    found = cheapest(search.layers, np.array([0.2, 0.3]), room, 40.0, MANY)
    assert found.placement is not None
    assert (found.bound, found.whole) == (pytest.approx(21.0), True)
    assert found.placement.sum() == 3
    none = cheapest(search.layers, np.array([0.2, 0.3]), room, 20.9, MANY)
    assert (none.bound, none.placement, none.whole) == (20.9, None, True)


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("seed", range(0, 60, 6))
def test_what_is_not_followed_is_in_the_bound(seed: int, most: int) -> None:
    problem = passable(seed, 8)
    best, search = best_of(problem), ByPassage.of(problem)
    assert search is not None
    budget = float(problem.budgets[ACCELERATOR])
    room = Room(np.array([budget]), np.array([budget]), np.array([budget]))
    found = cheapest(search.layers, np.array([0.05]), room, 2 * best, most)
    assert found.bound <= best * (1 + ROUNDING)
    if found.placement is not None:
        assert problem.cost(found.placement) >= found.bound * (1 - ROUNDING)


def cheaper(problem: PlacementProblem, enough: float, placement: Placement) -> bool:
    return problem.cost(placement) < enough


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_all_that_fit_and_are_cheap_enough_are_listed_once(start: int) -> None:
    checked = 0
    for seed in range(start, start + 20):
        problem, most = passable(seed, 7), 0
        search = ByPassage.of(problem)
        budget = float(problem.budgets[ACCELERATOR])
        if search is None:
            continue
        enough = min(1.5 * best_of(problem), AMPLE)
        room = Room(*(np.array([budget]) for _ in range(3)))
        found = listed(search.layers, np.array([0.05]), room, enough, MANY)
        assert found is not None
        costs = dict(zip(map(bytes, found.placements), found.costs.tolist(), strict=True))
        assert len(costs) == len(found.placements), seed
        assert (np.diff(found.costs) >= 0.0).all()
        for placement in takewhile(partial(cheaper, problem, enough * (1 - ROUNDING)), fitting(problem)):
            assert costs[placement.tobytes()] <= problem.cost(placement) + ROUNDING, seed
            most = max(most, len(costs))
            checked += 1
        if most > 1:
            assert listed(search.layers, np.array([0.05]), room, enough, 1) is None
    assert checked > 50, checked


def roomy(problem: PlacementProblem, seed: int) -> Packing:
    """Sessions that take more inside than is alive there, some of them much more."""

    def packed(placement: Placement, found: Cut, _: NDArray[np.bool_] | None) -> Packed:
        used = usage(problem, placement, found)
        ops = [np.flatnonzero(found.partition == number) for number in range(found.partitions)]
        more = [int(one.sum() + seed) % 5 * int(one[0]) for one in ops]
        return Packed(used.inside_partition + np.array(more, np.int64), used.buffers)

    return packed


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_what_does_not_fit_as_sessions_take_it_is_not_in_the_bound(start: int) -> None:
    """The best of all that fit so is proven, though a passage knows only what is alive."""
    apart = 0
    for seed in range(start, start + 20):
        problem = replace(passable(3 * seed, 7), session_bytes=np.array([0, 5 * (seed % 2)]))
        scorer = Scorer.of(problem, roomy(problem, seed))
        best = best_so(problem, scorer)
        if best == np.inf:
            continue

        def told(placement: Placement, scorer: Scorer = scorer) -> Told:
            return Told(np.inf, scorer.score(placement).excess)

        search = ByPassage.of(problem)
        assert search is not None
        assert search.raised(0.05, 1.5 * best, Met(told, told), never) == pytest.approx(best), seed
        apart += best_of(problem) < best * (1 - ROUNDING)
    assert apart > 2, apart


@pytest.mark.parametrize("start", range(0, 12, 6))
def test_plans_beside_what_sessions_hold_and_take_are_the_best_to_within_their_gap(start: int) -> None:
    for seed in range(start, start + 6):
        problem = replace(passable(3 * seed, 7), session_bytes=np.array([0, 5]))
        scorer = Scorer.of(problem, roomy(problem, seed))
        best = best_so(problem, scorer)
        if best < np.inf:
            found = solve(problem, packing=scorer.packing)
            assert found.lower_bound <= best * (1 + ROUNDING), seed
            assert found.cost <= best * 1.0081, seed
            assert found.gap <= AIM_WITH_MOMENTS + ROUNDING, seed


def side_by_side(branches: int) -> PlacementProblem:
    """Ops that all read one value, and one that reads what they all make."""
    problem = chain([(9.0, 1.0)] * (branches + 2), [10] * (branches + 2), copy=0.1, nbytes=10, budget=10 * branches)
    rows = [[(op, False) for op in range(1, branches + 1)], *[[(branches + 1, False)]] * branches, []]
    return replace(problem, value_uses=Uses.from_rows(rows))


def test_wide_problems_are_left_to_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ByPassage.of(side_by_side(3)) is not None
    assert not by_passage(side_by_side(3))
    monkeypatch.setattr(passage, "MOST_STATES", 20)
    assert ByPassage.of(side_by_side(3)) is None


def test_what_is_kept_or_runs_apart_is_left_to_programs() -> None:
    problem = passable(0)
    assert is_passable(problem)
    assert not is_passable(replace(problem, budgets=np.array([NO_BUDGET, NO_BUDGET])))
    assert not is_passable(replace(problem, value_kept=np.ones(problem.values, np.int8)))
    assert not is_passable(replace(problem, apart=np.ones(problem.ops, np.bool_)))
    assert not is_passable(with_calls(problem, 1))
    weights_alone = replace(problem, value_bytes=np.zeros(problem.values, np.int64))
    assert not is_passable(replace(weights_alone, scratch_bytes=np.zeros(problem.ops, np.int64)))


def test_what_cannot_be_followed_keeps_the_bound_of_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = chain([(9.0, 1.0)] * 6, [30, 31, 32, 33, 34, 35], nbytes=1, budget=100)
    search = ByPassage.of(problem)
    assert search is not None
    best = best_of(problem)
    assert search.raised(0.1, 2 * best, nothing, never) == pytest.approx(best)

    def lost(*_: object) -> Cheapest:
        return Cheapest(0.0, None, whole=False, labels=1)

    monkeypatch.setattr(searched, "cheapest", lost)
    assert 0.8 * best < search.raised(0.1, 2 * best, nothing, never) < best


@pytest.mark.parametrize("start", range(0, 40, 20))
def test_plans_of_narrow_problems_are_the_best_to_within_their_gap(start: int) -> None:
    """Through all of the search: where ops lead to each other the gap is what is asked for."""
    for seed in range(start, start + 20):
        problem = passable(3 * seed, 8)
        best, found = best_of(problem), solve(problem)
        assert found.lower_bound <= best * (1 + ROUNDING), seed
        assert found.cost <= best * 1.0081, seed
        assert found.gap <= AIM_WITH_MOMENTS + ROUNDING, seed
