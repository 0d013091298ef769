"""Solve a formulated problem so that what is packed into real arenas fits too, and say which budgets would do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.assembly.activations import packing
from hetpart.partitioner.assembly.assemble import Assembly
from hetpart.partitioner.assembly.device_use import device_uses
from hetpart.partitioner.problem import NO_BUDGET
from hetpart.partitioner.refusal import Needed, refusal
from hetpart.partitioner.scores.scoring import forced_placement, weight_bytes
from hetpart.partitioner.search.solve import OPTIMAL, NothingFitsError, solve
from hetpart.partitioner.search.three_states import solve_three_states

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hetpart.cost_model.annotate import Costs
    from hetpart.graph.ir import Graph
    from hetpart.partitioner.formulate import Formulation
    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.search.solve import Shortage, Solution

_NARROW = 200
"""The smallest budget is looked for down to this part of it."""
_SEARCHED = 1 / 3
"""Part of the time limit for that."""
_WIDENING_SECONDS = 5.0
_SPARE = (1.0, 1.01, 1.05, 1.25, 1.5, 2.0)
"""Times what a placement takes, tried until the search comes to one that fits."""


class _RefusedError(Exception):
    """Nothing that was found fits. ``least`` takes least of the device it fits worst."""

    def __init__(self, least: Assembly, shortage: Shortage) -> None:
        super().__init__()
        self.least = least
        self.shortage = shortage
        self.device = int(_excess(least).argmax())
        self.needed = _peaks(least)[self.device]
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
        problem, laid_out = formulation.problem, packing(self.graph, self.costs, formulation)
        try:
            found = solve_three_states(
                problem, source=self.source, time_limit=time_limit, packing=laid_out, known=formulation.known
            )
        except NothingFitsError as error:
            least = self.arranged(formulation, error.shortage.placement)
            if not _excess(least).any():  # values that take each other's place can need less than what is alive
                return least
            raise _RefusedError(least, error.shortage) from error
        return self._assembled(formulation, found)

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
    task = _Task(graph, costs, source, pins)
    try:
        return task.placed(formulation, time_limit)
    except _RefusedError as refused:
        if not (isinstance(source, str) and source == OPTIMAL):
            raise refusal(refused.least, Needed(_lacking(refused.least), refused.least)) from refused
        thrifty = _thriftiest(task, refused, time_limit)
        if not _excess(thrifty).any():
            return thrifty
        raise refusal(refused.least, _least_found(task, refused, thrifty, time_limit)) from refused


def _thriftiest(task: _Task, refused: _RefusedError, time_limit: float) -> Assembly:
    """What is found where the device that fits worst has no memory, under the budgets that there are.

    A search that is given a budget may miss what one with a smaller budget comes to, whose refusal named this budget.
    """
    formulation, device = refused.least.formulation, refused.device
    try:
        placement = task.placed(_with_budgets(formulation, {device: 0}), time_limit).solution.placement
    except _RefusedError as without:
        placement = without.shortage.placement
    found = task.arranged(formulation, placement)
    return refused.least if np.delete(_excess(found), device).any() else found


def _least_found(task: _Task, refused: _RefusedError, thrifty: Assembly, time_limit: float) -> Needed:
    """Budgets that do together: of the device that fits worst, or of another alone, the others' kept; else of all."""
    formulation, worst = refused.least.formulation, refused.device
    if not np.delete(_excess(thrifty), worst).any():
        needed = Needed({worst: _peaks(thrifty)[worst]}, thrifty)
        return _smallest(task, formulation, needed, min(needed.nbytes[worst], refused.needed), time_limit)
    limited = np.flatnonzero(formulation.problem.budgets != NO_BUDGET).tolist()
    for device in sorted(limited, key=lambda device: (device != worst, device)):
        found = _found(task, _with_budgets(formulation, {device: NO_BUDGET}), time_limit)
        if found is not None:
            used = _peaks(found)[device]
            return _smallest(task, formulation, _widened(task, formulation, {device: used}, found), used, time_limit)
    return _widened(task, formulation, _lacking(refused.least), refused.least)


def _widened(task: _Task, formulation: Formulation, nbytes: dict[int, int], known: Assembly) -> Needed:
    """``nbytes``, or a little more: the search, asked for just what ``known`` takes, may not come to it."""
    for share in _SPARE:
        wide = {device: int(share * needed) for device, needed in nbytes.items()}
        found = _found(task, _with_budgets(formulation, wide), _WIDENING_SECONDS)
        if found is not None:
            return Needed(wide, found)
    return Needed(nbytes, known)


def _lacking(found: Assembly) -> dict[int, int]:
    """What every device takes that is given less, that which lacks most first."""
    excess, peaks = _excess(found), _peaks(found)
    return {device: peaks[device] for device in np.argsort(-excess, kind="stable").tolist() if excess[device]}


def _smallest(task: _Task, formulation: Formulation, needed: Needed, used: int, time_limit: float) -> Needed:
    """The budget of one device, as small as halving the way to one that does not do finds it; ``used`` may do."""
    (device,) = needed.nbytes
    problem = formulation.problem
    low = max(int(problem.budgets[device]), weight_bytes(problem, forced_placement(problem), device))
    end = monotonic() + time_limit * _SEARCHED
    while used - low > used // _NARROW and monotonic() < end:
        middle = (low + used) // 2
        found = _found(task, _with_budgets(formulation, {device: middle}), end - monotonic())
        if found is None:
            low = middle
        else:
            needed, used = Needed({device: middle}, found), _peaks(found)[device]
    if used == needed.nbytes[device]:
        return needed
    # Asked for just what it used, the search may come to another placement, which need not fit.
    found = _found(task, _with_budgets(formulation, {device: used}), time_limit)
    return needed if found is None else Needed({device: used}, found)


def _found(task: _Task, formulation: Formulation, time_limit: float) -> Assembly | None:
    """The placement found for ``formulation``; ``None`` where none is."""
    try:
        return task.placed(formulation, max(time_limit, 0.0))
    except _RefusedError:
        return None


def _with_budgets(formulation: Formulation, nbytes: dict[int, int]) -> Formulation:
    budgets = formulation.problem.budgets.copy()
    budgets[[*nbytes]] = [*nbytes.values()]
    return replace(formulation, problem=replace(formulation.problem, budgets=budgets))


def _unlimited(problem: PlacementProblem, placement: Placement) -> Solution:
    return solve(replace(problem, budgets=np.full_like(problem.budgets, NO_BUDGET)), source=placement)


def _excess(assembly: Assembly) -> NDArray[np.int64]:
    budgets = assembly.formulation.problem.budgets
    peaks = np.array(_peaks(assembly), np.int64)
    return np.where(budgets == NO_BUDGET, 0, np.maximum(peaks - budgets, 0))


def _peaks(assembly: Assembly) -> list[int]:
    return [use.peak_bytes for use in device_uses(assembly)]
