"""Solve a formulated problem so that what is packed into real arenas fits too, and word what does not fit."""

from __future__ import annotations

from dataclasses import replace
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
    from hetpart.partitioner.problem import Placement
    from hetpart.partitioner.solve import Solution

_ATTEMPTS = 4
_OPS_SHOWN = 3
_SMALLEST = "the smallest budget found that would do is {device}={nbytes}; or loosen the pins"


def place(
    graph: Graph, costs: Costs, formulation: Formulation, source: str | Placement, pins: Mapping[int, str],
    time_limit: float,
) -> Assembly:  # fmt: skip
    """The solved placement, whose arenas fit the budgets.

    A packed arena can be a little larger than the most bytes alive at once. Where that breaks a budget the problem is
    solved again with the excess taken off; the certificate stays that of the whole budget.

    Raises:
        InfeasibleError: nothing fits.
    """
    problem = formulation.problem
    tried: list[Assembly] = []
    for _ in range(_ATTEMPTS):
        try:
            solution = solve(problem, source=source, time_limit=time_limit)
        except NothingFitsError as error:
            raise (_unpackable(tried[-1]) if tried else _worded(error, graph, formulation)) from error
        tried.append(Assembly.of(graph, costs, formulation, _certified(solution, tried), pins))
        over = _excess(tried[-1])
        if not over.any():
            return tried[-1]
        problem = replace(problem, budgets=np.where(over > 0, np.maximum(problem.budgets - over, 0), problem.budgets))
    raise _unpackable(tried[-1])


def _certified(solution: Solution, earlier: list[Assembly]) -> Solution:
    """``solution`` with the certificate of the first, whose budgets were whole."""
    if not earlier:
        return solution
    first = earlier[0].solution
    bound = min(first.lower_bound, solution.cost)
    gap = (solution.cost - bound) / solution.cost if solution.cost > 0 else 0.0
    return replace(solution, lower_bound=bound, gap=gap, price=first.price)


def _excess(assembly: Assembly) -> NDArray[np.int64]:
    budgets = assembly.formulation.problem.budgets
    peaks = np.array([use.peak_bytes for use in device_uses(assembly)], np.int64)
    return np.where(budgets == NO_BUDGET, 0, np.maximum(peaks - budgets, 0))


def _unpackable(assembly: Assembly) -> InfeasibleError:
    """What no attempt could pack into its budget."""
    use = device_uses(assembly)[int(_excess(assembly).argmax())]
    return InfeasibleError(
        f"{assembly.graph.name!r} needs {use.peak_bytes:,} bytes ({format_bytes(use.peak_bytes)}) on {use.device} once "
        f"the values between partitions are packed, its budget is {use.budget_bytes:,}",
        required_bytes=use.peak_bytes,
        hint=_SMALLEST.format(device=use.device, nbytes=use.peak_bytes),
    )


def _worded(error: NothingFitsError, graph: Graph, formulation: Formulation) -> InfeasibleError:
    """The solver's refusal with names in place of numbers."""
    shortage = error.shortage
    device = formulation.problem.devices[shortage.device]
    ops = [graph.ops[op] for op in shortage.ops]
    named = ", ".join(f"{op.name!r} ({op.op_type})" for op in ops[:_OPS_SHOWN])
    more = f" and {len(ops) - _OPS_SHOWN} more" if len(ops) > _OPS_SHOWN else ""
    why = f"; it must hold {named}{more}" if ops else ""
    needed, budget = shortage.required_bytes, shortage.budget_bytes
    return InfeasibleError(
        f"{graph.name!r} needs {needed:,} bytes ({format_bytes(needed)}) on {device}, "
        f"its budget is {budget:,} ({format_bytes(budget)}){why}",
        required_bytes=needed,
        hint=_SMALLEST.format(device=device, nbytes=needed),
    )
