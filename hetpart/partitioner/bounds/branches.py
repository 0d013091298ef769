"""A problem split by how many sessions run on the accelerator, since each holds bytes there.

None, one, or more: with none there is one placement, unless ops run apart there; with one it leaves the budget before
anything else, and what it holds can be written down exactly; with more at least two do. A bound on each bounds all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.apart import between_and_inside
from hetpart.partitioner.bounds.by_number import by_number
from hetpart.partitioner.bounds.by_passage import by_one_session, by_passage
from hetpart.partitioner.bounds.by_sweep import by_sweep
from hetpart.partitioner.bounds.certain import Sweep
from hetpart.partitioner.bounds.moments import moments
from hetpart.partitioner.bounds.several import several
from hetpart.partitioner.bounds.single import single
from hetpart.partitioner.bounds.staged import staged
from hetpart.partitioner.bounds.streaming_rows import streaming_moments
from hetpart.partitioner.problem import NO_BUDGET
from hetpart.partitioner.scores.finer import may_be_cut_finer
from hetpart.partitioner.scores.fixing import without_misfits
from hetpart.partitioner.scores.scoring import forced_placement
from hetpart.partitioner.scores.sessions import most_others
from hetpart.partitioner.scores.streaming import least_partitions, least_sessions

if TYPE_CHECKING:
    from hetpart.partitioner.bounds.by_passage import ByPassage
    from hetpart.partitioner.bounds.moments import Moments
    from hetpart.partitioner.bounds.program import Program
    from hetpart.partitioner.problem import PlacementProblem


MOST_APART = 2000
"""Ops up to which what lies between partitions is told from what is inside them: a dozen rows for each."""


def no_passage(_: PlacementProblem) -> tuple[ByPassage, ...]:
    """Of no problem."""
    return ()


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """Some of a problem's placements."""

    problem: PlacementProblem
    """What is left when the sessions it is about are off the budget."""
    rows: Callable[[Program], Moments]
    """What they hold beside weights."""
    counted: bool = False
    """Whether they have two sessions at least, and stream nothing."""
    parts: tuple[Callable[[Program], Moments], ...] = ()
    """Rows that tell more, each of some of the placements, all together of all."""
    stages: Callable[[Program], Moments] | None = None
    """The same rows with stages of ops that a program can be halved by, where there are such."""
    passages: Callable[[PlacementProblem], tuple[ByPassage, ...]] = no_passage
    """Through narrow problems, each of some of the placements, all together of all; none of others."""


def branches(problem: PlacementProblem) -> tuple[Branch, ...]:
    """What may have partitions on the accelerator. Where sessions hold nothing there it is all one.

    Of a problem of three states, what streams something.
    """
    session = int(problem.session_bytes[ACCELERATOR])
    if problem.stands_for_weight is not None:
        within = _less(problem, least_sessions(problem, least_partitions(problem)) * session)
        return () if within is None else (Branch(within, streaming_moments),)
    any_number = between_and_inside if problem.ops <= MOST_APART else moments
    if problem.budgets[ACCELERATOR] == NO_BUDGET or not session:
        if problem.ops > MOST_APART or may_be_cut_finer(problem):
            return (Branch(problem, any_number, passages=by_passage),)
        parts = by_sweep(Sweep.ALONG), by_sweep(Sweep.AGAINST)
        return (Branch(problem, any_number, parts=parts, passages=by_passage),)
    called = most_others(problem) > 0
    one = staged(1)
    left = (
        (_without_sessions(problem) if called else None, any_number, False, None, no_passage),
        (_less(problem, session), one if called else single, False, one, by_one_session),
        (_less(problem, 2 * session), several(session), True, None, no_passage),
    )
    return tuple(
        Branch(within, rows, counted, stages=stages, passages=passages)
        for within, rows, counted, stages, passages in left
        if within is not None
    )


def branch_of(problem: PlacementProblem, sessions: int) -> Branch | None:
    """What has so many sessions on the accelerator, and streams nothing; nothing where they do not fit."""
    within = _less(problem, sessions * int(problem.session_bytes[ACCELERATOR]))
    return None if within is None else Branch(within, staged(sessions))


def branch_between(problem: PlacementProblem, fewest: int, most: int) -> Branch | None:
    """As ``branch_of``, from one number of sessions to another, by rows that are fewer and tell less."""
    within = _less(problem, fewest * int(problem.session_bytes[ACCELERATOR]))
    return None if within is None else Branch(within, by_number(fewest, most))


def _without_sessions(problem: PlacementProblem) -> PlacementProblem | None:
    """What runs only ops apart on the accelerator."""
    seconds = problem.seconds.copy()
    seconds[ACCELERATOR, problem.in_sessions] = np.inf
    found = replace(problem, seconds=seconds)
    return found if found.legal().any(axis=0).all() else None


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
