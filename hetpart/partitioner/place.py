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

_ATTEMPTS = 4
_OPS_SHOWN = 3


def place(
    graph: Graph, costs: Costs, formulation: Formulation, source: str | Placement, pins: Mapping[int, str],
    time_limit: float,
) -> Assembly:  # fmt: skip
    """The solved placement, whose arenas fit the budgets.

    A packed arena can be a little larger than the most bytes alive at once. Where that breaks a budget the problem is
    solved again with the excess taken off.

    Raises:
        InfeasibleError: nothing fits.
    """
    problem = formulation.problem
    excess = np.zeros_like(problem.budgets)
    for _ in range(_ATTEMPTS):
        try:
            solution = solve(problem, source=source, time_limit=time_limit)
        except NothingFitsError as error:
            raise _worded(error, graph, formulation) from error
        assembly = Assembly.of(graph, costs, formulation, solution, pins)
        excess = _excess(assembly, formulation.problem.budgets)
        if not excess.any():
            return assembly
        problem = replace(
            problem, budgets=np.where(excess > 0, np.maximum(problem.budgets - excess, 0), problem.budgets)
        )
    raise InfeasibleError(
        f"values between partitions of {graph.name!r} cannot be packed into the budget",
        required_bytes=int(formulation.problem.budgets.max() + excess.max()),
        hint=f"raise the budget by {format_bytes(int(excess.max()))}",
    )


def _excess(assembly: Assembly, budgets: NDArray[np.int64]) -> NDArray[np.int64]:
    peaks = np.array([use.peak_bytes for use in device_uses(assembly)], np.int64)
    return np.where(budgets == NO_BUDGET, 0, np.maximum(peaks - budgets, 0))


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
        required_bytes=shortage.required_bytes,
        hint=f"the smallest budget found that would do is {device}={shortage.required_bytes}; or loosen the pins",
    )
