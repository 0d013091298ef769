"""Ops that provably cannot run on a device because they alone do not fit it.

Whatever the placement, a device that runs an op holds the weights its group reads there, what the op reads and makes
there, and its scratch, all at once. A group that needs more than the budget is off that device in every placement that
fits: shutting it out loses none of them and raises the bound.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import HOST
from hetpart.partitioner.problem import NO_BUDGET, NO_OP, PlacementProblem
from hetpart.partitioner.uses import unique_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray


def without_misfits(problem: PlacementProblem) -> PlacementProblem:
    """``problem`` with every group shut out of the accelerators whose budgets it breaks alone.

    A group that may run nowhere else stays: then nothing fits, and the search says by how much.
    """
    needed = least_bytes(problem)
    legal = problem.legal()
    seconds = problem.seconds.copy()
    for device in range(HOST + 1, len(problem.devices)):
        elsewhere = np.delete(legal, device, axis=0).any(axis=0)
        if problem.budgets[device] != NO_BUDGET:
            seconds[device, (needed > problem.budgets[device]) & elsewhere] = np.inf
    return replace(problem, seconds=seconds)


def least_bytes(problem: PlacementProblem) -> NDArray[np.int64]:
    """(N,) Bytes an accelerator holds at least if it runs the op's group, sessions left out."""
    groups, group = np.unique(problem.groups, return_inverse=True)
    at_once = np.zeros(len(groups), np.int64)
    np.maximum.at(at_once, group, while_running(problem))
    uses = problem.weight_uses
    here = ~uses.on_host
    readers, held = unique_pairs(group[uses.ops[here]], uses.rows[here])
    np.add.at(at_once, readers, problem.weight_bytes[held])
    return at_once[group]


def while_running(problem: PlacementProblem) -> NDArray[np.int64]:
    """(N,) Bytes of what each op reads and makes on its own device, and of its scratch.

    What a kernel leaves on the host may stay there: inside one session its way to the next op is ONNX Runtime's.
    """
    nbytes = problem.scratch_bytes.copy()
    uses = problem.value_uses
    here = ~uses.on_host & ~problem.value_left_on_host[uses.rows]
    readers, read = unique_pairs(uses.ops[here].astype(np.int64), uses.rows[here])
    np.add.at(nbytes, readers, problem.value_bytes[read])
    made = (problem.value_producer != NO_OP) & ~problem.value_left_on_host
    np.add.at(nbytes, problem.value_producer[made], problem.value_bytes[made])
    return np.maximum(nbytes, 0)
