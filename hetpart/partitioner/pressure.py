"""Which groups fill the accelerator at its peak beyond their weights, so that a search can price them for it.

An estimate that steers: when a group moves, the peak moves too. It never enters a bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import HOST
from hetpart.partitioner.liveness import Buffers, Inside, buffers, crossing_values, inside
from hetpart.partitioner.mincut import ACCELERATOR
from hetpart.partitioner.problem import NO_BUDGET, NO_OP, PlacementProblem, Uses

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.scoring import Scored


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
    def of(cls, problem: PlacementProblem, scored: Scored) -> Pressure:
        """What ``scored`` holds at its peak."""
        crossing = crossing_values(problem, scored.cut)
        held = buffers(problem, scored.placement, scored.cut, crossing)
        of_op = _of_buffers(problem, scored, held) + _of_inside(problem, scored, inside(problem, scored.cut, crossing))
        return cls(of_op, int(scored.usage.sessions[ACCELERATOR]))


def levels(problem: PlacementProblem, whole: Scored) -> list[Pressure]:
    """Ways to split the budget between weights and activations, the most for activations first.

    Activations peak once: room for so many bytes at an op lets every op run that needs no more, and shuts out the
    others. What an op needs is read from ``whole``, a placement with everything on the accelerator.
    """
    budget = int(problem.budgets[ACCELERATOR])
    if budget == NO_BUDGET:
        return [Pressure(np.zeros(problem.ops, np.int64), 0)]
    crossing = crossing_values(problem, whole.cut)
    borders = _of_buffers(problem, whole, buffers(problem, whole.placement, whole.cut, crossing))
    held = inside(problem, whole.cut, crossing)
    alive = np.zeros(problem.ops, np.int64)
    alive[held.order] = held.alive
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


def _of_buffers(problem: PlacementProblem, scored: Scored, held: Buffers) -> NDArray[np.int64]:
    """A buffer goes with the op that makes its value there, or is shared by the ops it was copied there for."""
    live = held.live(len(problem.devices), scored.cut.partitions)[ACCELERATOR]
    step = int(live.argmax())
    there = (held.device == ACCELERATOR) & (held.first <= step) & (step <= held.last)
    alive = np.zeros(problem.values, np.bool_)
    alive[held.value[there]] = True
    made_there = problem.home(scored.placement) == ACCELERATOR
    of_op = np.zeros(problem.ops, np.int64)
    made = np.flatnonzero(alive & made_there)
    np.add.at(of_op, problem.value_producer[made], problem.value_bytes[made])
    uses = problem.value_uses
    copied = (alive & ~made_there)[uses.rows] & ~uses.on_host & (scored.placement[uses.ops] == ACCELERATOR)
    readers = np.bincount(uses.rows[copied], minlength=problem.values)
    np.add.at(of_op, uses.ops[copied], (problem.value_bytes // np.maximum(readers, 1))[uses.rows[copied]])
    return of_op


def _of_inside(problem: PlacementProblem, scored: Scored, held: Inside) -> NDArray[np.int64]:
    """What is alive in the fullest partition goes with the ops that made it."""
    of_op = np.zeros(problem.ops, np.int64)
    here = scored.cut.devices == ACCELERATOR
    if not here.any():
        return of_op
    partition = int(np.where(here, held.peaks, -1).argmax())
    end = held.starts[partition + 1] if partition + 1 < len(held.starts) else problem.ops
    position = int(held.starts[partition] + held.alive[held.starts[partition] : end].argmax())
    alive = held.value[(held.first <= position) & (position <= held.last)]
    np.add.at(of_op, problem.value_producer[alive], problem.value_bytes[alive])
    of_op[held.order[position]] += problem.scratch_bytes[held.order[position]]
    return of_op


def steered(problem: PlacementProblem, pressure: Pressure, price: float) -> PlacementProblem:
    """``problem`` as the search should see it: what fills the peak weighs, and every copy may start a partition.

    An op under more than the whole budget may not run there. The bytes become weights of their ops, and what no op
    answers for leaves the budget. Each copy between ops pays half of what another partition costs, since a partition
    comes with a copy in and a copy out.
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
    partition = float(problem.session_seconds.sum()) + price * float(problem.session_bytes[ACCELERATOR])
    between = problem.value_producer != NO_OP
    between &= np.diff(problem.value_uses.offsets) > 0
    added = np.zeros_like(problem.copy_seconds)
    added[[HOST, ACCELERATOR], [ACCELERATOR, HOST]] = np.where(between, partition / 2, 0.0)
    return added
