"""A small part of a large problem that looks like the whole: what it says steers a search and never enters a bound."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.problem import NO_OP, PlacementProblem
from hetpart.partitioner.uses import Uses

if TYPE_CHECKING:
    from numpy.typing import NDArray

STRETCHES = 4
"""Stretches of the model that are taken, evenly apart."""


def sampled(problem: PlacementProblem, ops: int) -> PlacementProblem:
    """``ops`` of the problem's ops, what they make and hold, and their share of the accelerator's budget."""
    begins = np.linspace(0, problem.ops - ops // STRETCHES, STRETCHES).astype(np.int64)
    chosen = np.unique((begins[:, None] + np.arange(ops // STRETCHES)).ravel())
    number = np.full(problem.ops, -1, np.int64)
    number[chosen] = np.arange(len(chosen))
    made = problem.value_producer != NO_OP
    made[made] = number[problem.value_producer[made]] >= 0
    values, weights = np.flatnonzero(made), np.flatnonzero(_used(problem.weight_uses, number))
    budgets = problem.budgets.copy()
    share = float(problem.weight_bytes[weights].sum()) / max(1.0, float(problem.weight_bytes.sum()))
    budgets[ACCELERATOR] = int(budgets[ACCELERATOR] * share)
    return replace(
        problem,
        seconds=problem.seconds[:, chosen],
        groups=np.unique(problem.groups[chosen], return_inverse=True)[1].astype(np.int32),
        scratch_bytes=problem.scratch_bytes[chosen],
        apart=None if problem.apart is None else problem.apart[chosen],
        value_producer=number[problem.value_producer[values]].astype(np.int32),
        value_left_on_host=problem.value_left_on_host[values],
        value_returned=problem.value_returned[values],
        value_kept=None if problem.value_kept is None else problem.value_kept[values],
        value_bytes=problem.value_bytes[values],
        states=None if problem.states is None else problem.states.among(values, number),
        value_uses=_restricted(problem.value_uses, values, number),
        copy_seconds=problem.copy_seconds[:, :, values],
        weight_bytes=problem.weight_bytes[weights],
        weight_uses=_restricted(problem.weight_uses, weights, number),
        budgets=budgets,
        host_more=None,
        reorders=None,
    )


def _used(uses: Uses, number: NDArray[np.int64]) -> NDArray[np.bool_]:
    found = np.zeros(len(uses.offsets) - 1, np.bool_)
    found[uses.rows[number[uses.ops] >= 0]] = True
    return found


def _restricted(uses: Uses, rows: NDArray[np.int64], number: NDArray[np.int64]) -> Uses:
    """The chosen rows with the uses by chosen ops."""
    place = np.full(len(uses.offsets) - 1, -1, np.int64)
    place[rows] = np.arange(len(rows))
    kept = (place[uses.rows] >= 0) & (number[uses.ops] >= 0)
    offsets = np.searchsorted(place[uses.rows[kept]], np.arange(len(rows) + 1))
    return Uses(offsets, number[uses.ops[kept]].astype(np.int32), uses.on_host[kept])
