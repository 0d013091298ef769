"""Solve a formulated problem so that what is packed into real arenas fits too, and say which budgets would do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.assembly.activations import packing
from hetpart.partitioner.assembly.assemble import Assembly
from hetpart.partitioner.assembly.device_use import excess, peaks
from hetpart.partitioner.bounds.clock import Clock
from hetpart.partitioner.by_arenas import Assemble, as_arenas_hold, best_by_arenas, moved_to_fit
from hetpart.partitioner.problem import NO_BUDGET
from hetpart.partitioner.refusal import Needed, refusal
from hetpart.partitioner.run_order import run_order, solved_in_both_orders
from hetpart.partitioner.scores.scoring import forced_placement, weight_bytes
from hetpart.partitioner.search.solve import MOST_DEVICES, OPTIMAL, NothingFitsError, solve
from hetpart.partitioner.search.three_states import solve_three_states

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetpart.cost_model.annotate import Costs
    from hetpart.graph.ir import Graph
    from hetpart.partitioner.formulate import Formulation
    from hetpart.partitioner.problem import Known, Placement, PlacementProblem
    from hetpart.partitioner.scores.scoring import Packing
    from hetpart.partitioner.search.solve import Shortage, Solution

_NARROW = 200
"""The smallest budget is looked for down to this part of it."""
_SEARCHED = 1 / 3
"""Part of the time that is left for that."""
_WIDENING_SECONDS = 5.0
_SPARE = (1.0, 1.01, 1.05, 1.25, 1.5, 2.0)
"""Times what a placement takes, tried until the search comes to one that fits."""


class _RefusedError(Exception):
    """Nothing that was found fits. ``least`` takes least of the device it fits worst."""

    def __init__(self, least: Assembly, shortage: Shortage) -> None:
        super().__init__()
        self.least = least
        self.shortage = shortage
        self.device = int(excess(least).argmax())
        self.needed = peaks(least)[self.device]
        """A budget of that device that would do."""


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """What is to be placed, whatever the budgets are."""

    graph: Graph
    costs: Costs
    source: str | Placement
    pins: Mapping[int, str]

    def placed(self, formulation: Formulation, time_limit: float) -> Assembly:
        """The solved placement whose arenas fit the budgets of ``formulation``.

        Raises:
            _RefusedError: nothing fits.
        """
        try:
            return self.searched(formulation, time_limit)
        except NothingFitsError as error:
            return self.least(formulation, error)

    def searched(self, formulation: Formulation, time_limit: float) -> Assembly:
        """The solved placement, which fits as the search counts.

        Raises:
            NothingFitsError: nothing does.
        """
        return self._assembled(formulation, self._solved(formulation, time_limit))

    def least(self, formulation: Formulation, error: NothingFitsError) -> Assembly:
        """What lacks least, where it fits: values that take each other's place can need less than what is alive.

        Raises:
            _RefusedError: it does not.
        """
        least = self.arranged(formulation, error.shortage.placement)
        if excess(least).any():
            raise _RefusedError(least, error.shortage) from error
        return least

    def by_arenas(self, formulation: Formulation, least: Assembly, clock: Clock) -> Assembly:
        """``least``, which fits though more is alive than the budgets give; better, where the best is asked for."""
        if len(formulation.problem.devices) != MOST_DEVICES:
            return least
        return (best_by_arenas if self.optimal else as_arenas_hold)(formulation, least, self.assemble, clock)

    @property
    def assemble(self) -> Assemble:
        """How placements are found and laid out."""
        return Assemble(self._solved, self.arranged, self._assembled)

    @property
    def optimal(self) -> bool:
        """Whether the best is asked for."""
        return isinstance(self.source, str) and self.source == OPTIMAL

    def _solved(self, formulation: Formulation, time_limit: float) -> Solution:
        problem, laid_out = formulation.problem, packing(self.graph, self.costs, formulation)
        order = run_order(problem) if self.optimal and len(problem.devices) == MOST_DEVICES else None
        if order is None:
            return self._solved_as_it_is(problem, laid_out, formulation.known, time_limit)
        solve_in = partial(self._solved_as_it_is, time_limit=time_limit / 2)
        return solved_in_both_orders(problem, order, laid_out, formulation.known, solve_in)

    def _solved_as_it_is(
        self, problem: PlacementProblem, packing: Packing, known: Known, time_limit: float
    ) -> Solution:
        return solve_three_states(problem, source=self.source, time_limit=time_limit, packing=packing, known=known)

    def arranged(self, formulation: Formulation, placement: Placement) -> Assembly:
        """``placement``, whether it fits or not."""
        return self._assembled(formulation, _unlimited(formulation.problem, placement))

    def _assembled(self, formulation: Formulation, solution: Solution) -> Assembly:
        rule = self.source if isinstance(self.source, str) else "the placement file"
        seen = formulation.with_streamed(solution.streamed)
        return Assembly.of(self.graph, self.costs, seen, self.pins, rule, solution)


def place(
    graph: Graph, costs: Costs, formulation: Formulation, source: str | Placement, pins: Mapping[int, str],
    time_limit: float,
) -> Assembly:  # fmt: skip
    """The solved placement, whose arenas fit the budgets.

    What is packed into real arenas can be larger than the most bytes alive at once: the search judges what would fit by
    packing it.

    Raises:
        InfeasibleError: nothing fits.
    """
    task, clock = _Task(graph, costs, source, pins), Clock.of(time_limit)
    try:
        return task.searched(formulation, time_limit)
    except NothingFitsError as error:
        least = _fitting(task, formulation, error, clock)
    return task.by_arenas(formulation, least, clock)


def _fitting(task: _Task, formulation: Formulation, error: NothingFitsError, clock: Clock) -> Assembly:
    """What fits though the search, which ended in ``error``, counts too much in it."""
    try:
        return task.least(formulation, error)
    except _RefusedError as refused:
        if not task.optimal:
            raise refusal(refused.least, Needed(_lacking(refused.least), refused.least)) from refused
        thrifty = _thriftiest(task, refused, clock)
        if len(formulation.problem.devices) == MOST_DEVICES:
            thrifty = _moved_to_fit(task, formulation, [thrifty, refused.least], clock)
        if not excess(thrifty).any():
            return thrifty
        raise refusal(refused.least, _least_found(task, refused, thrifty, clock)) from refused


def _moved_to_fit(task: _Task, formulation: Formulation, starts: list[Assembly], clock: Clock) -> Assembly:
    """The first of ``starts`` that comes to fit, or the first of them."""
    moved = (moved_to_fit(formulation, start, task.assemble, clock) for start in starts)
    return next((found for found in moved if not excess(found).any()), starts[0])


def _thriftiest(task: _Task, refused: _RefusedError, clock: Clock) -> Assembly:
    """What is found where the device that fits worst has no memory, under the budgets that there are.

    A search that is given a budget may miss what one with a smaller budget comes to, whose refusal named this budget.
    """
    formulation, device = refused.least.formulation, refused.device
    try:
        placement = task.placed(_with_budgets(formulation, {device: 0}), clock.left).solution.placement
    except _RefusedError as without:
        placement = without.shortage.placement
    found = task.arranged(formulation, placement)
    return refused.least if np.delete(excess(found), device).any() else found


def _least_found(task: _Task, refused: _RefusedError, thrifty: Assembly, clock: Clock) -> Needed:
    """Budgets that do together: of the device that fits worst, or of another alone, the others' kept; else of all."""
    formulation, worst = refused.least.formulation, refused.device
    if not np.delete(excess(thrifty), worst).any():
        needed = Needed({worst: peaks(thrifty)[worst]}, thrifty)
        return _smallest(task, formulation, needed, min(needed.nbytes[worst], refused.needed), clock)
    limited = np.flatnonzero(formulation.problem.budgets != NO_BUDGET).tolist()
    for device in sorted(limited, key=lambda device: (device != worst, device)):
        found = _found(task, _with_budgets(formulation, {device: NO_BUDGET}), clock.left)
        if found is not None:
            used = peaks(found)[device]
            needed = _widened(task, formulation, {device: used}, found, clock)
            return _smallest(task, formulation, needed, used, clock)
    return _widened(task, formulation, _lacking(refused.least), refused.least, clock)


def _widened(task: _Task, formulation: Formulation, nbytes: dict[int, int], known: Assembly, clock: Clock) -> Needed:
    """``nbytes``, or a little more: the search, asked for just what ``known`` takes, may not come to it."""
    for share in _SPARE:
        wide = {device: int(share * needed) for device, needed in nbytes.items()}
        found = _found(task, _with_budgets(formulation, wide), min(_WIDENING_SECONDS, clock.left))
        if found is not None:
            return Needed(wide, found)
    return Needed(nbytes, known)


def _lacking(found: Assembly) -> dict[int, int]:
    """What every device takes that is given less, that which lacks most first."""
    lacks, needed = excess(found), peaks(found)
    return {device: needed[device] for device in np.argsort(-lacks, kind="stable").tolist() if lacks[device]}


def _smallest(task: _Task, formulation: Formulation, needed: Needed, used: int, clock: Clock) -> Needed:
    """The budget of one device, as small as halving the way to one that does not do finds it; ``used`` may do."""
    (device,) = needed.nbytes
    problem = formulation.problem
    low = max(int(problem.budgets[device]), weight_bytes(problem, forced_placement(problem), device))
    halving = Clock.of(clock.left * _SEARCHED)
    while used - low > used // _NARROW and not halving.expired():
        middle = (low + used) // 2
        found = _found(task, _with_budgets(formulation, {device: middle}), halving.left)
        if found is None:
            low = middle
        else:
            needed, used = Needed({device: middle}, found), peaks(found)[device]
    if used == needed.nbytes[device]:
        return needed
    # Asked for just what it used, the search may come to another placement, which need not fit.
    found = _found(task, _with_budgets(formulation, {device: used}), clock.left)
    return needed if found is None else Needed({device: used}, found)


def _found(task: _Task, formulation: Formulation, time_limit: float) -> Assembly | None:
    """The placement found for ``formulation``; ``None`` where none is."""
    try:
        return task.placed(formulation, time_limit)
    except _RefusedError:
        return None


def _with_budgets(formulation: Formulation, nbytes: dict[int, int]) -> Formulation:
    budgets = formulation.problem.budgets.copy()
    budgets[[*nbytes]] = [*nbytes.values()]
    return replace(formulation, problem=replace(formulation.problem, budgets=budgets))


def _unlimited(problem: PlacementProblem, placement: Placement) -> Solution:
    return solve(replace(problem, budgets=np.full_like(problem.budgets, NO_BUDGET)), source=placement)
