"""Cut partitions in two where lanes that work at the same time gain by it: an early copy, or an early start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetpart.partitioner.scores.liveness import usage
from hetpart.partitioner.timeline.op_order import OpOrder
from hetpart.partitioner.timeline.parts import Parting
from hetpart.partitioner.timeline.timed import Timed

if TYPE_CHECKING:
    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.scores.cut import Cut

_TRIED = 24
"""Splits that are timed before one is taken."""
_VISITS = 60_000
"""Tasks in all that are timed: with it the time is bounded, and alike on every machine."""
_LEAST_SHARE = 1e-3
"""Of the latency, that a split must save whatever it costs."""


@dataclass(frozen=True, slots=True)
class Worth:
    """What is asked of a split."""

    partitions: int | None = None
    """How many there may be at most."""
    seconds: float = 0.0
    """What it must save at least."""
    share: float = 0.0
    """The same, of the latency before it."""

    def least(self, latency: float, overhead: float) -> float:
        """Seconds that a split must save, whose session costs ``overhead``."""
        return max(overhead, self.seconds, latency * max(self.share, _LEAST_SHARE))


def splits(
    problem: PlacementProblem, placement: Placement, cut: Cut, atoms: Sequence[int], worth: Worth
) -> list[Timed]:
    """``cut`` and what it becomes split by split, each faster than the one before it by what is asked.

    Ops that share a number in ``atoms`` stay in one partition.
    """
    parting = Parting(problem, placement, OpOrder.of(problem, atoms))
    found, visits = [Timed.of(problem, placement, cut)], _VISITS
    while visits > 0 and (worth.partitions is None or found[-1].cut.partitions < worth.partitions):
        tried = _tried(parting, found[-1], worth)
        better = [one for one in tried if usage(problem, placement, one.cut).fits(problem)]
        visits -= sum(len(one.found.tasks) for one in tried)
        if not better:
            break
        found.append(min(better, key=lambda one: one.seconds))
    return found


def _tried(parting: Parting, before: Timed, worth: Worth) -> list[Timed]:
    """What ``before`` becomes with one split, for those that save enough."""
    problem, saved = parting.problem, list[Timed]()
    for split in parting.splits(before)[:_TRIED]:
        overhead = float(problem.session_seconds[before.cut.devices[split.partition]])
        least = worth.least(before.seconds, overhead)
        if split.saving > least:
            after = Timed.of(problem, parting.placement, split.of(before.cut))
            if before.seconds - after.seconds > least:
                saved.append(after)
    return saved
