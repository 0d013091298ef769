"""Solve a formulated problem so that what is packed into real arenas fits too, and word what does not fit."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hetpart.errors import InfeasibleError
from hetpart.partitioner.assemble import Assembly
from hetpart.partitioner.device_use import device_uses
from hetpart.partitioner.problem import NO_BUDGET
from hetpart.partitioner.solve import NothingFitsError, solve
from hetpart.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hetpart.cost_model.annotate import Costs
    from hetpart.graph.ir import Graph
    from hetpart.partitioner.formulate import Formulation
    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.solve import Shortage, Solution

_ATTEMPTS, _HASTE = 5, 4
_OPS_SHOWN = 3


def place(
    graph: Graph, costs: Costs, formulation: Formulation, source: str | Placement, pins: Mapping[int, str],
    time_limit: float,
) -> Assembly:  # fmt: skip
    """The solved placement, whose arenas fit the budgets.

    What is packed into real arenas can be a little larger than the most bytes alive at once. Where that breaks a budget
    the problem is solved again with the excess taken off, more every time; the certificate stays that of the whole.

    Raises:
        InfeasibleError: nothing fits.
    """
    problem = formulation.problem
    tried: list[Solution] = []

    rule = source if isinstance(source, str) else "the placement file"
    assembled = partial(Assembly.of, graph, costs, formulation, pins, rule)
    for attempt in range(_ATTEMPTS):
        try:
            tried.append(solve(problem, source=source, time_limit=time_limit))
        except NothingFitsError as error:
            least = assembled(_unlimited(formulation.problem, error.shortage.placement))
            if tried and not _excess(least).any():
                return replace(least, solution=_certified(least.solution, tried))
            raise _refused(least, error.shortage) from error
        found = assembled(_certified(tried[-1], tried))
        over = _excess(found)
        if not over.any():
            return found
        problem = _tightened(problem, over * _HASTE**attempt, last=attempt == _ATTEMPTS - 2)
    raise AssertionError("with nothing on a device nothing is over its budget")


def _tightened(problem: PlacementProblem, over: NDArray[np.int64], *, last: bool) -> PlacementProblem:
    less = np.zeros_like(over) if last else np.maximum(problem.budgets - over, 0)
    return replace(problem, budgets=np.where(over > 0, less, problem.budgets))


def _unlimited(problem: PlacementProblem, placement: Placement) -> Solution:
    return solve(replace(problem, budgets=np.full_like(problem.budgets, NO_BUDGET)), source=placement)


def _certified(solution: Solution, tried: list[Solution]) -> Solution:
    """``solution`` with the certificate of the first, whose budgets were whole."""
    first = tried[0]
    bound = min(first.lower_bound, solution.cost)
    gap = (solution.cost - bound) / solution.cost if solution.cost > 0 else 0.0
    return replace(solution, lower_bound=bound, gap=gap, price=first.price)


def _excess(assembly: Assembly) -> NDArray[np.int64]:
    budgets = assembly.formulation.problem.budgets
    peaks = np.array([use.peak_bytes for use in device_uses(assembly)], np.int64)
    return np.where(budgets == NO_BUDGET, 0, np.maximum(peaks - budgets, 0))


def _refused(least: Assembly, shortage: Shortage) -> InfeasibleError:
    """What the placement that takes least needs on the device it fits worst, packed, and why it needs it."""
    graph, use = least.graph, device_uses(least)[int(_excess(least).argmax())]
    ops = [graph.ops[op] for op in shortage.ops if use.device == least.device_names[shortage.device]]
    named = ", ".join(f"{op.name!r} ({op.op_type})" for op in ops[:_OPS_SHOWN])
    more = f" and {len(ops) - _OPS_SHOWN} more" if len(ops) > _OPS_SHOWN else ""
    why = f"; it must hold {named}{more}" if ops else ""
    needed, budget = use.peak_bytes, use.budget_bytes or 0
    return InfeasibleError(
        f"{graph.name!r} needs {needed:,} bytes ({format_bytes(needed)}) on {use.device}, "
        f"its budget is {budget:,} ({format_bytes(budget)}){why}",
        required_bytes=needed,
        hint=f"the smallest budget found that would do is {use.device}={needed}{'; or loosen the pins' if ops else ''}",
    )
