"""Which groups fill the accelerator at its peak beyond their weights, so that a search can price them for it.

An estimate that steers: when a group moves, the peak moves too. It never enters a bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR, HOST
from hetpart.partitioner.problem import NO_BUDGET, NO_OP, PlacementProblem
from hetpart.partitioner.scores.peaks import Peaks
from hetpart.partitioner.uses import Uses

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.scores.scoring import Scored

FINEST_SPLIT = 24
"""Activation levels closer than this share of the budget are one."""
MOST_LEVELS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Pressure:
    """Bytes at the accelerator's peak that are not weights."""

    of_op: NDArray[np.int64]
    """(N,) Bytes that would go with each op."""
    reserve: int
    """Bytes that go with no single op: sessions."""

    @classmethod
    def none(cls, problem: PlacementProblem) -> Pressure:
        return cls(np.zeros(problem.ops, np.int64), 0)

    @classmethod
    def of(cls, problem: PlacementProblem, scored: Scored) -> Pressure:
        """What ``scored`` holds at its peak."""
        return cls(Peaks.of(problem, scored).at_peak, int(scored.usage.sessions[ACCELERATOR]))


def levels(problem: PlacementProblem, whole: Scored) -> list[Pressure]:
    """Ways to split the budget between weights and activations, the most for activations first.

    Activations peak once: room for so many bytes at an op lets every op run that needs no more, and shuts out the
    others. What an op needs is read from ``whole``, a placement with everything on the accelerator.
    """
    budget = int(problem.budgets[ACCELERATOR])
    if budget == NO_BUDGET:
        return [Pressure.none(problem)]
    peaks = Peaks.of(problem, whole)
    borders = peaks.buffered(int(peaks.live.argmax()))
    alive = np.zeros(problem.ops, np.int64)
    alive[peaks.inner.order] = peaks.inner.alive
    may = problem.legal().all(axis=0)
    session = int(problem.session_bytes[ACCELERATOR])
    rooms = _apart(np.unique(alive[may & (alive <= budget)]).tolist(), budget // FINEST_SPLIT)
    return [Pressure(np.where(may & (alive > room), budget + 1, borders), session + room) for room in rooms]


def _apart(rooms: list[int], finest: int) -> list[int]:
    """From the largest on, those well below the last one taken."""
    taken: list[int] = []
    for room in reversed(rooms):
        if not taken or taken[-1] - room >= max(finest, taken[0] // MOST_LEVELS):
            taken.append(room)
    return taken


def steered(problem: PlacementProblem, pressure: Pressure, price: float) -> PlacementProblem:
    """``problem`` as the search should see it: what fills the peak weighs, and every copy may start a partition.

    An op under more than the whole budget may not run there. The bytes become weights of their ops, and what no op
    answers for leaves the budget. Each copy between ops pays half of what another partition costs, since a partition
    comes with a copy in and a copy out. What only ops that run apart read begins no session.
    """
    budgets = problem.budgets.copy()
    shut = problem.legal().all(axis=0) & (pressure.of_op > budgets[ACCELERATOR])
    shut &= budgets[ACCELERATOR] != NO_BUDGET
    heavy = np.flatnonzero((pressure.of_op > 0) & ~shut)
    seconds = problem.seconds.copy()
    seconds[ACCELERATOR, shut] = np.inf
    if budgets[ACCELERATOR] != NO_BUDGET:
        budgets[ACCELERATOR] = max(0, int(budgets[ACCELERATOR]) - pressure.reserve)
    return replace(
        problem,
        seconds=seconds,
        budgets=budgets,
        weight_bytes=np.concatenate([problem.weight_bytes, pressure.of_op[heavy]]),
        weight_uses=_with_own_rows(problem.weight_uses, heavy),
        copy_seconds=problem.copy_seconds + _surcharge(problem, price),
    )


def _with_own_rows(uses: Uses, ops: NDArray[np.int64]) -> Uses:
    return Uses(
        np.concatenate([uses.offsets, uses.offsets[-1] + 1 + np.arange(len(ops))]),
        np.concatenate([uses.ops, ops.astype(np.int32)]),
        np.concatenate([uses.on_host, np.zeros(len(ops), np.bool_)]),
    )


def _surcharge(problem: PlacementProblem, price: float) -> NDArray[np.float64]:
    """(D, D, V) Seconds added to copies of values that run between ops."""
    seconds, nbytes = float(problem.session_seconds.sum()), float(problem.session_bytes[ACCELERATOR])
    between, into_session = problem.value_producer != NO_OP, np.zeros(problem.values, np.bool_)
    into_session[problem.value_uses.rows[problem.in_sessions[problem.value_uses.ops]]] = True
    between &= np.diff(problem.value_uses.offsets) > 0
    added = np.zeros_like(problem.copy_seconds)
    partition = seconds + price * nbytes * into_session
    added[[HOST, ACCELERATOR], [ACCELERATOR, HOST]] = np.where(between, partition / 2, 0.0)
    return added
