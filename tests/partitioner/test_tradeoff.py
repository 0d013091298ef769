"""The curve of a small network beside all placements there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest

from hetpart.errors import InfeasibleError
from hetpart.partitioner.assembly.assemble import Assembly
from hetpart.partitioner.assembly.device_use import device_uses
from hetpart.partitioner.formulate import Formulation
from hetpart.partitioner.problem import Known, Placement
from hetpart.partitioner.tradeoff import Tradeoff
from hetpart.request import Priced, Request, RequestOptions
from tests.partitioner.layers import layered


@dataclass(frozen=True)
class Placed:
    peak: int
    seconds: float
    cost: float
    placement: Placement


BUDGETS = (0, 10_000_000, *range(24_000_000, 36_000_000, 2_000_000))


@cache
def priced() -> Priced:
    request = Request.of(None, RequestOptions())
    return request.priced(request.read(layered()).graph, request.machine("l4+generic-2core"))


def silent(far: str) -> None:
    del far


def formulation() -> Formulation:
    return priced().formulated({"cuda:0": 10**10})


@cache
def every_placement() -> list[Placed]:
    problem = formulation()
    sides = [np.array(sides, np.int8) for sides in product((0, 1), repeat=5)]
    made = [priced().placed(problem, placement) for placement in sides]
    return [
        Placed(device_uses(one)[1].peak_bytes, one.solution.total_seconds, one.solution.cost, placement)
        for one, placement in zip(made, sides, strict=True)
    ]


def best(budget: int) -> Placed:
    return min((one for one in every_placement() if one.peak <= budget), key=lambda one: one.seconds)


def exact(asked: Formulation, seconds: float) -> Assembly:
    """The best placement there is: what a curve is made of is not judged here."""
    del seconds
    return priced().placed(asked, best(int(asked.problem.budgets[1])).placement)


def searched(asked: Formulation, seconds: float) -> Assembly:
    return priced().placed(asked, time_limit=seconds)


def solved(budgets: tuple[int, ...] = BUDGETS, place: Callable[[Formulation, float], Assembly] = exact) -> Tradeoff:
    tradeoff = Tradeoff(formulation(), place, 10.0)
    tradeoff.solve(budgets, silent)
    return tradeoff


def test_every_point_is_the_best_placement_within_its_budget() -> None:
    points = solved().points(BUDGETS)
    assert [point.budget_bytes for point in points] == list(BUDGETS)
    assert [point.seconds for point in points] == pytest.approx([best(budget).seconds for budget in BUDGETS])
    assert all(point.peak_bytes is not None and point.peak_bytes <= point.budget_bytes for point in points)


def test_no_placement_costs_less_than_a_bound() -> None:
    for point in (*solved().points(BUDGETS), *solved(place=searched).points(BUDGETS)):
        assert point.lower_bound is not None
        assert point.gap is not None
        cheapest = min(one.cost for one in every_placement() if one.peak <= point.budget_bytes)
        assert point.lower_bound <= cheapest * (1 + 1e-9)
        assert point.gap == pytest.approx((point.cost - point.lower_bound) / point.cost)


def test_a_larger_budget_is_never_slower_though_the_solver_may_be() -> None:
    """A solver that does its worst under every other budget changes nothing but its own points."""
    calls: list[int] = []

    def moody(asked: Formulation, seconds: float) -> Assembly:
        del seconds
        calls.append(int(asked.problem.budgets[1]))
        return priced().placed(asked, "all-cpu" if len(calls) % 2 else "optimal")

    points = solved(place=moody).points(BUDGETS)
    assert all(a.seconds >= b.seconds and a.lower_bound >= b.lower_bound for a, b in pairwise(points))
    first = calls[: len(set(calls))]
    assert first == sorted(set(calls), reverse=True)


def test_plans_and_bounds_of_neighbours_are_where_a_search_begins() -> None:
    asked_for: list[tuple[int, Known]] = []

    def recorded(asked: Formulation, seconds: float) -> Assembly:
        del seconds
        asked_for.append((int(asked.problem.budgets[1]), asked.known))
        return priced().placed(asked, "all-cpu" if len(asked_for) < len(BUDGETS) else "optimal")

    tradeoff = solved(place=recorded)
    assert not asked_for[0][1].starts
    bounds = [known.lower_bound for _, known in asked_for[: len(BUDGETS)]]
    assert bounds == sorted(bounds)
    assert all(len(known.starts) == 1 for _, known in asked_for[1 : len(BUDGETS)])
    # Solved again from the smallest on: what was found there is a start for all that are larger.
    again = [known for _, known in asked_for[len(BUDGETS) :]]
    assert again
    assert all(len(known.starts) == (2 if budget == BUDGETS[-1] else 3) for budget, known in asked_for[len(BUDGETS) :])
    assert [point.seconds for point in tradeoff.points(BUDGETS)] == pytest.approx(
        [best(budget).seconds for budget in BUDGETS]
    )


def test_a_search_is_told_only_bounds_that_hold() -> None:
    def judged(asked: Formulation, seconds: float) -> Assembly:
        assert asked.known.lower_bound <= best(int(asked.problem.budgets[1])).cost * (1 + 1e-9)
        return searched(asked, seconds)

    solved(place=judged)


def test_where_nothing_fits_less_is_not_tried() -> None:
    calls: list[int] = []

    def needy(asked: Formulation, seconds: float) -> Assembly:
        calls.append(int(asked.problem.budgets[1]))
        if calls[-1] < 28_000_000:
            raise InfeasibleError("no", required_bytes=28_000_000)
        return searched(asked, seconds)

    points = solved(place=needy).points(BUDGETS)
    assert [point.fits for point in points] == [budget >= 28_000_000 for budget in BUDGETS]
    assert {point.required_bytes for point in points if not point.fits} == {28_000_000}
    assert sum(budget < 28_000_000 for budget in calls) == 1


def test_memory_buys_nothing_only_where_that_is_known() -> None:
    assert [point.price for point in solved((0,)).points([0])] == [None]
    first, *_, last = solved().points(BUDGETS)
    assert first.price is not None
    assert first.price > 0
    assert last.price == 0
    assert last.seconds == pytest.approx(min(one.seconds for one in every_placement()))


def test_the_smallest_budget_for_a_target_is_found() -> None:
    for known in every_placement():
        target = known.seconds * 1.0001
        found = solved((0, 36_000_000)).target(target)
        needed = min(one.peak for one in every_placement() if one.seconds <= target)
        assert found.budget_bytes is not None
        assert needed <= found.budget_bytes <= needed * 1.01
        assert found.seconds is not None
        assert found.seconds <= target
        assert found.too_small_bytes is None or found.too_small_bytes < needed


def test_a_target_out_of_reach_is_proven_to_be() -> None:
    found = solved().target(best(BUDGETS[-1]).seconds * 0.5)
    assert (found.budget_bytes, found.impossible) == (None, True)
