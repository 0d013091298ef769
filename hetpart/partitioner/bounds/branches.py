"""A problem split by how many partitions run on the accelerator, since each holds a session's bytes there.

None, one, or more: with none there is one placement; with one its session leaves the budget before anything else, and
what it holds can be written down exactly; with more at least two sessions do. A bound on each bounds all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.apart import between_and_inside
from hetpart.partitioner.bounds.moments import moments
from hetpart.partitioner.bounds.several import several
from hetpart.partitioner.bounds.single import single
from hetpart.partitioner.bounds.staged import staged
from hetpart.partitioner.bounds.streaming_rows import streaming_moments
from hetpart.partitioner.problem import NO_BUDGET
from hetpart.partitioner.scores.fixing import without_misfits
from hetpart.partitioner.scores.scoring import forced_placement
from hetpart.partitioner.scores.streaming import LEAST_PARTITIONS

if TYPE_CHECKING:
    from hetpart.partitioner.bounds.moments import Moments
    from hetpart.partitioner.bounds.program import Program
    from hetpart.partitioner.problem import PlacementProblem


MOST_APART = 2000
"""Ops up to which what lies between partitions is told from what is inside them: a dozen rows for each."""


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """Some of a problem's placements."""

    problem: PlacementProblem
    """What is left when the sessions it is about are off the budget."""
    rows: Callable[[Program], Moments]
    """What they hold beside weights."""
    counted: bool = False
    """Whether they have two partitions at least, and stream nothing."""


def branches(problem: PlacementProblem) -> tuple[Branch, ...]:
    """What may have partitions on the accelerator. Where sessions hold nothing there it is all one.

    Of a problem of three states, what streams something: then there are two at least.
    """
    session = int(problem.session_bytes[ACCELERATOR])
    if problem.stands_for_weight is not None:
        within = _less(problem, LEAST_PARTITIONS * session)
        return () if within is None else (Branch(within, streaming_moments),)
    if problem.budgets[ACCELERATOR] == NO_BUDGET or not session:
        return (Branch(problem, between_and_inside if problem.ops <= MOST_APART else moments),)
    left = (_less(problem, session), _less(problem, 2 * session))
    return tuple(
        Branch(within, rows, counted=rows is not single)
        for within, rows in zip(left, (single, several(session)), strict=True)
        if within is not None
    )


def branch_of(problem: PlacementProblem, partitions: int) -> Branch | None:
    """What has so many partitions on the accelerator, which stream nothing; nothing where they do not fit."""
    within = _less(problem, partitions * int(problem.session_bytes[ACCELERATOR]))
    return None if within is None else Branch(within, staged(partitions))


def host_seconds(problem: PlacementProblem) -> float:
    """Cost of running everything on the host; infinite where something cannot."""
    placement = forced_placement(problem)
    return np.inf if placement.any() else problem.cost(placement)


def _less(problem: PlacementProblem, nbytes: int) -> PlacementProblem | None:
    budgets = problem.budgets.copy()
    budgets[ACCELERATOR] -= nbytes
    if budgets[ACCELERATOR] < 0:
        return None
    return without_misfits(replace(problem, budgets=budgets))
