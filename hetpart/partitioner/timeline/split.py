"""Cut partitions in two where lanes that work at the same time gain by it: an early copy, or an early start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetpart.partitioner.scores.liveness import usage
from hetpart.partitioner.timeline.op_order import OpOrder
from hetpart.partitioner.timeline.parts import LEAST_SHARE, Parting
from hetpart.partitioner.timeline.timed import Timed

if TYPE_CHECKING:
    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.scores.cut import Cut

_HALFWAY = 4
"""Splits not worth it alone that are tried with another."""
_TRIED = 30
"""Splits that are timed before one is taken."""
_VISITS = 200_000
"""Tasks in all that are timed: with it the time is bounded, and alike on every machine."""


@dataclass(frozen=True, slots=True)
class Worth:
    """What is asked of a split."""

    partitions: int | None = None
    """How many there may be at most."""
    seconds: float = 0.0
    """What it must save at least."""
    share: float = 0.0
    """The same, of the latency before it."""

    def least(self, latency: float) -> float:
        """Seconds that a split must save, whatever its session costs."""
        return max(self.seconds, latency * max(self.share, LEAST_SHARE))


def splits(
    problem: PlacementProblem, placement: Placement, cut: Cut, atoms: Sequence[int], worth: Worth
) -> list[Timed]:
    """``cut`` and what it becomes split by split, each faster than the one before it by what is asked.

    Ops that share a number in ``atoms`` stay in one partition.
    """
    search = _Search(Parting(problem, placement, OpOrder.of(problem, atoms)), worth)
    found = [Timed.of(problem, placement, cut)]
    while (better := search.better(found[-1])) is not None:
        found.append(better)
    return found


@dataclass(slots=True)
class _Search:
    parting: Parting
    worth: Worth
    visits: int = _VISITS
    """Left to be timed."""

    def better(self, before: Timed) -> Timed | None:
        """``before`` with one split more, or two of which neither is worth it alone."""
        tried = self._tried(before)
        saved = [after for after in tried if self._is_worth_it(before, after)]
        if saved:
            return min(saved, key=lambda after: after.seconds)
        for halfway in sorted(tried, key=lambda after: after.seconds)[:_HALFWAY]:
            saved = [after for after in self._tried(halfway) if self._is_worth_it(before, after)]
            if saved:
                return min(saved, key=lambda after: after.seconds)
        return None

    def _tried(self, before: Timed) -> list[Timed]:
        """What ``before`` becomes with one split, where that is allowed and fits."""
        most, problem = self.worth.partitions, self.parting.problem
        if self.visits <= 0 or (most is not None and before.cut.partitions >= most):
            return []
        cuts = [split.of(before.cut) for split in self.parting.splits(before)[:_TRIED]]
        placement = self.parting.placement
        fitting = [cut for cut in cuts if usage(problem, placement, cut).fits(problem)]
        self.visits -= len(fitting) * (len(before.found.tasks) + 1)
        return [Timed.of(problem, placement, cut) for cut in fitting]

    def _is_worth_it(self, before: Timed, after: Timed) -> bool:
        sessions = self.parting.problem.session_seconds
        overhead = float(sessions[after.cut.devices].sum() - sessions[before.cut.devices].sum())
        number = after.cut.partitions - before.cut.partitions
        return before.seconds - after.seconds > max(overhead, self.worth.least(before.seconds) * number)
