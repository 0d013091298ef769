"""Solve a formulated problem so that what is packed into real arenas fits too, and word what does not fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from hetpart.errors import InfeasibleError
from hetpart.partitioner.assembly.activations import packing
from hetpart.partitioner.assembly.assemble import Assembly
from hetpart.partitioner.assembly.device_use import device_uses
from hetpart.partitioner.problem import NO_BUDGET
from hetpart.partitioner.scores.scoring import forced_placement, weight_bytes
from hetpart.partitioner.search.solve import OPTIMAL, NothingFitsError, solve
from hetpart.partitioner.search.three_states import solve_three_states
from hetpart.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hetpart.cost_model.annotate import Costs
    from hetpart.graph.ir import Graph
    from hetpart.partitioner.formulate import Formulation
    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.search.solve import Shortage, Solution
    from hetpart.plan.figures import DeviceUse

_OPS_SHOWN = 3
_NARROW = 200
"""The smallest budget is looked for down to this part of it."""
_SEARCHED = 1 / 3
"""Part of the time limit for that."""


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
            raise _refusal(refused, refused.needed) from refused
        thrifty = _thriftiest(task, refused, time_limit)
        if not _excess(thrifty).any():
            return thrifty
        raise _refusal(refused, _least_found(task, refused, thrifty, time_limit)) from refused


def _thriftiest(task: _Task, refused: _RefusedError, time_limit: float) -> Assembly:
    """What is found where the device that fits worst has no memory, under the budgets that there are.

    A search that is given a budget may miss what one with a smaller budget comes to, whose refusal named this budget.
    """
    formulation, device = refused.least.formulation, refused.device
    try:
        placement = task.placed(_with_budget(formulation, device, 0), time_limit).solution.placement
    except _RefusedError as without:
        placement = without.shortage.placement
    found = task.arranged(formulation, placement)
    return refused.least if np.delete(_excess(found), device).any() else found


def _least_found(task: _Task, refused: _RefusedError, thrifty: Assembly, time_limit: float) -> int:
    """A budget that does, of the device that fits worst, as small as halving the way to one that does not finds it."""
    formulation, device = refused.least.formulation, refused.device
    problem = formulation.problem
    low = max(int(problem.budgets[device]), weight_bytes(problem, forced_placement(problem), device))
    does = _peaks(thrifty)[device]
    used = min(does, refused.needed)
    end = monotonic() + time_limit * _SEARCHED
    while used - low > used // _NARROW and monotonic() < end:
        middle = (low + used) // 2
        found = _used(task, formulation, device, middle, end - monotonic())
        if found is None:
            low = middle
        else:
            does, used = middle, found
    # Asked for just what it used, the search may come to another placement, which need not fit.
    return does if used == does or _used(task, formulation, device, used, time_limit) is None else used


def _used(task: _Task, formulation: Formulation, device: int, budget: int, time_limit: float) -> int | None:
    """Bytes of ``device`` that the placement found under ``budget`` takes; ``None`` where none is found."""
    try:
        return _peaks(task.placed(_with_budget(formulation, device, budget), max(time_limit, 0.0)))[device]
    except _RefusedError:
        return None


def _with_budget(formulation: Formulation, device: int, budget: int) -> Formulation:
    budgets = formulation.problem.budgets.copy()
    budgets[device] = budget
    return replace(formulation, problem=replace(formulation.problem, budgets=budgets))


def _unlimited(problem: PlacementProblem, placement: Placement) -> Solution:
    return solve(replace(problem, budgets=np.full_like(problem.budgets, NO_BUDGET)), source=placement)


def _excess(assembly: Assembly) -> NDArray[np.int64]:
    budgets = assembly.formulation.problem.budgets
    peaks = np.array(_peaks(assembly), np.int64)
    return np.where(budgets == NO_BUDGET, 0, np.maximum(peaks - budgets, 0))


def _peaks(assembly: Assembly) -> list[int]:
    return [use.peak_bytes for use in device_uses(assembly)]


def _refusal(refused: _RefusedError, needed: int) -> InfeasibleError:
    """The smallest budget found of the device that fits worst, and why that much is needed."""
    least, shortage = refused.least, refused.shortage
    graph, use = least.graph, device_uses(least)[refused.device]
    ops = [graph.ops[op] for op in shortage.ops if use.device == least.device_names[shortage.device]]
    named = ", ".join(f"{op.name!r} ({op.op_type})" for op in ops[:_OPS_SHOWN])
    more = f" and {len(ops) - _OPS_SHOWN} more" if len(ops) > _OPS_SHOWN else ""
    why = f"; it must hold {named}{more}" if ops else ""
    budget = use.budget_bytes or 0
    return InfeasibleError(
        f"{graph.name!r} needs {needed:,} bytes ({format_bytes(needed)}) on {use.device} as far as is found, "
        f"its budget is {budget:,} ({format_bytes(budget)}){why}",
        required_bytes=needed,
        hint=_way_out(use, needed, pinned=bool(ops)),
    )


def _way_out(use: DeviceUse, needed: int, *, pinned: bool) -> str:
    if needed > use.memory_bytes:
        memory = f"{use.device} ({use.model}) has {format_bytes(use.memory_bytes)}"
        return f"no budget would do, for {memory}: {'loosen the pins or ' if pinned else ''}name larger --hardware"
    loosen = "; or loosen the pins" if pinned else ""
    return f"the smallest budget found that would do is --budget {use.device}={needed}{loosen}"
