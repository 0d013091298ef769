"""Plans that fit as their arenas hold them, though more is alive in them than the budgets give.

Values that take each other's place need less than all that is alive, which is what the search counts. Where nothing
fits by its count, it is asked for placements with more room, and what they truly hold decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.assembly.device_use import excess, peaks
from hetpart.partitioner.bounds.by_copies import least_streaming
from hetpart.partitioner.bounds.clock import Clock
from hetpart.partitioner.bounds.mincut import CutNetwork
from hetpart.partitioner.bounds.price import search_price
from hetpart.partitioner.problem import NO_BUDGET
from hetpart.partitioner.scores.gap import gap, speaks_of
from hetpart.partitioner.scores.ledger import Ledger
from hetpart.partitioner.scores.wiring import Wiring
from hetpart.partitioner.search.baselines import BASELINES
from hetpart.partitioner.search.polish import flipped
from hetpart.partitioner.search.solve import BaselineResult, NothingFitsError
from hetpart.partitioner.search.three_states import MAY_STREAM, SOLVER, of_those_that_hold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hetpart.partitioner.assembly.assemble import Assembly
    from hetpart.partitioner.formulate import Formulation
    from hetpart.partitioner.problem import Placement
    from hetpart.partitioner.search.solve import Solution

_TRIES = 3
"""Rooms that the search is given."""
_TIME = 0.25
"""Of what is left, for each."""
_MOVED = 64
"""Groups that are moved to see whether what lacks least fits then."""
_NEAR = 0.05
"""Of a budget: what lacks more is not moved."""
_CLOSE = 0.01
"""Relative; rooms that are nearer to each other are one."""


@dataclass(frozen=True, slots=True, eq=False)
class Assemble:
    """How a problem's placements are found and laid out."""

    solve: Callable[[Formulation, float], Solution]
    """Within the budgets of a formulation, as the search counts, in so many seconds."""
    arranged: Callable[[Formulation, Placement], Assembly]
    """A placement, whether it fits or not."""
    solved: Callable[[Formulation, Solution], Assembly]
    """A solution under the budgets of a formulation."""


def best_by_arenas(formulation: Formulation, least: Assembly, task: Assemble, clock: Clock) -> Assembly:
    """``least``, which fits, or what is found that fits too and takes less, with figures of the budgets that there are.

    Args:
        formulation: With the budgets.
        least: What fits.
        task: How others are found.
        clock: When it is up the best so far is returned.
    """
    rules = _rules(formulation, task)
    fitting = [made for made in (least, *rules.values()) if not excess(made).any()]
    climbed = _climbed(formulation, min(fitting, key=_seconds), task, clock)
    roomy = _with_more_room(formulation, least, task, clock)
    best = min([climbed, *roomy], key=_seconds)
    told = _told(formulation, best, rules)
    same = (name for name, rule in rules.items() if (rule.solution.placement == told.placement).all())
    chosen = next(same, SOLVER) if told.streamed is None else SOLVER
    return replace(best, solution=replace(told, chosen=chosen))


def as_arenas_hold(formulation: Formulation, given: Assembly, task: Assemble, _: Clock) -> Assembly:
    """``given``, which fits, with figures of the budgets that there are."""
    return replace(given, solution=_told(formulation, given, _rules(formulation, task)))


def moved_to_fit(formulation: Formulation, least: Assembly, task: Assemble, clock: Clock) -> Assembly:
    """``least`` with groups moved one by one until it fits, as long as that lacks less: budgets may leave few bytes."""
    wiring = Wiring.of(replace(formulation.problem, streaming=None))
    near = Clock.of(clock.left * _TIME)
    better: Assembly | None = least
    while better is not None and 0 < _lacking_share(least := better) <= _NEAR:
        lacks, tried = _lacks(least), _moved(formulation, least, wiring, task, near)
        better = next((made for made in tried if _lacks(made) < lacks), None)
    return least


def _moved(
    formulation: Formulation, best: Assembly, wiring: Wiring, task: Assemble, clock: Clock
) -> Iterator[Assembly]:
    """``best`` with each of the groups moved that cost least elsewhere."""
    ledger = Ledger(wiring, best.solution.placement)
    for _, group in sorted((ledger.delta(group)[0], group) for group in wiring.movable)[:_MOVED]:
        if clock.expired():
            return
        yield task.arranged(formulation, flipped(wiring, best.solution.placement, [group]))


def _lacks(made: Assembly) -> int:
    return int(excess(made).sum())


def _lacking_share(made: Assembly) -> float:
    """Of the budget of the device that lacks most of its own."""
    budgets = made.formulation.problem.budgets
    return float((excess(made) / np.maximum(budgets, 1)).max())


def _seconds(made: Assembly) -> float:
    return made.solution.total_seconds


def _rules(formulation: Formulation, task: Assemble) -> dict[str, Assembly]:
    return {name: task.arranged(formulation, rule(formulation.problem)) for name, rule in BASELINES.items()}


def _with_more_room(formulation: Formulation, least: Assembly, task: Assemble, clock: Clock) -> list[Assembly]:
    """What truly fits of the placements that the search finds in more room than there is."""
    budgets = formulation.problem.budgets
    limited = (budgets != NO_BUDGET) & (budgets > 0)
    if not limited.any():
        return []
    low, room = 1.0, float((least.solution.usage.peak[limited] / budgets[limited]).max())
    high = np.inf
    found: list[Assembly] = []
    for _ in range(_TRIES):
        if clock.expired() or high - low < _CLOSE * low:
            break
        roomy = np.where(limited, np.ceil(budgets * room), budgets).astype(np.int64)
        try:
            made = task.solved(formulation, task.solve(_given(formulation, roomy), clock.left * _TIME))
            fits = not excess(made).any()
        except NothingFitsError:
            low, fits = room, True
        else:
            found += [made] if fits else []
            low, high = (room, high) if fits else (low, room)
        room = (low + high) / 2 if np.isfinite(high) else low + max(low - 1.0, 2 * _CLOSE)
    return found


def _climbed(formulation: Formulation, best: Assembly, task: Assemble, clock: Clock) -> Assembly:
    """``best`` with groups moved one by one, those that promise most first, as long as one helps and truly fits."""
    wiring = Wiring.of(replace(formulation.problem, streaming=None))
    better: Assembly | None = best
    while better is not None:
        best, better = better, next(_steps(formulation, better, wiring, task, clock), None)
    return best


def _steps(
    formulation: Formulation, best: Assembly, wiring: Wiring, task: Assemble, clock: Clock
) -> Iterator[Assembly]:
    """What fits and takes less with one group moved."""
    ledger = Ledger(wiring, best.solution.placement)
    for loss, group in sorted((ledger.delta(group)[0], group) for group in wiring.movable):
        if loss >= 0 or clock.expired():
            return
        made = task.arranged(formulation, flipped(wiring, best.solution.placement, [group]))
        if made.solution.total_seconds < best.solution.total_seconds and not excess(made).any():
            yield made


def _given(formulation: Formulation, budgets: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Formulation:
    return replace(formulation, problem=replace(formulation.problem, budgets=budgets))


def _told(formulation: Formulation, best: Assembly, rules: dict[str, Assembly]) -> Solution:
    """The solution of ``best``, with a bound, a price and what other rules do, all under the budgets that there are."""
    problem, solution = formulation.problem, best.solution
    two = replace(problem, streaming=None)
    search = search_price(two, CutNetwork.of(two))
    streams = -np.inf if problem.streaming is None else least_streaming(problem, two, search)
    baselines = tuple(_result(name, rule) for name, rule in rules.items())
    holds = solution.streamed is None
    bound = min(solution.cost, search.bound if holds else min(search.bound, max(0.0, streams)))
    told = replace(
        solution, lower_bound=bound, bound_of_all=bound, gap=gap(solution.cost, bound), price=search.price,
        baselines=baselines, speaks_of=speaks_of(by_moments=False) + ("" if holds else MAY_STREAM),
    )  # fmt: skip
    return of_those_that_hold(told, streams) if holds and problem.streaming is not None else told


def _result(name: str, rule: Assembly) -> BaselineResult:
    found = rule.solution
    peak = peaks(rule)[-1]
    return BaselineResult(name, found.placement, found.cost, found.total_seconds, peak, not excess(rule).any())
