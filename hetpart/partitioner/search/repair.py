"""Take groups off an overfull accelerator, least seconds lost per byte first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.scores.peaks import Peaks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.scores.ledger import Ledger
    from hetpart.partitioner.scores.scoring import Scored, Scorer

MOMENTS = 12
"""Moments over the budget that one round looks at."""
HASTE = 16
"""After so many rounds each frees twice what it sees is too much: what is moved off leaves buffers behind."""
TINY = 1e-12


def repaired(scorer: Scorer, start: Scored, ledger: Ledger, rounds: int) -> Scored:
    """``start`` with groups taken off the accelerator until it fits, or ``rounds`` are over.

    Args:
        scorer: Of the problem.
        start: Where ``ledger`` stands.
        ledger: Holds what a copy and a byte of weights cost, activations aside.
        rounds: Each takes down the worst moments of one run.
    """
    relief = Relief(ledger)
    for done in range(rounds):
        if start.fits:
            break
        found = scorer.score(relief.round(scorer.problem, start, 1.0 + done / HASTE))
        if found is start:
            break
        start = found
    return start


class Relief:
    """What every group would cost and free if it left the accelerator, kept up to date while groups leave."""

    __slots__ = ("_ledger", "_nbytes", "_open", "_seconds")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._open = np.zeros(len(ledger.side), np.bool_)
        self._seconds = np.zeros(len(ledger.side))
        self._nbytes = np.zeros(len(ledger.side), np.int64)
        for group in ledger.wiring.movable:
            if ledger.side[group]:
                self._open[group] = True
                self._price(group)

    def round(self, problem: PlacementProblem, start: Scored, haste: float) -> Placement:
        """Groups leave until no moment of ``start`` among the worst is over the budget."""
        taken: list[int] = []
        before = self._ledger.nbytes
        for overload in Peaks.of(problem, start).overloads(MOMENTS):
            pressure = np.array(self._ledger.wiring.groups.sums(overload.of_op), np.int64)
            freed = before - self._ledger.nbytes + int(pressure[taken].sum())
            taken += self.drop(pressure, int(overload.excess * haste) - freed)
        return self._ledger.placement()

    def drop(self, pressure: NDArray[np.int64], needed: int) -> list[int]:
        """Groups leave until ``needed`` bytes are free, their weights and their ``pressure`` counted."""
        taken: list[int] = []
        while needed > 0:
            loss = self._loss(pressure)
            group = int(loss.argmin()) if len(loss) else 0
            if not len(loss) or loss[group] == np.inf:
                break
            before = self._ledger.nbytes
            self._leave(group)
            needed -= before - self._ledger.nbytes + int(pressure[group])
            taken.append(group)
        return taken

    def _loss(self, pressure: NDArray[np.int64]) -> NDArray[np.float64]:
        """Seconds per byte. What frees nothing leaves only where that saves seconds, and then at once."""
        freed = pressure - self._nbytes
        for_nothing = np.where(self._seconds < -TINY, -np.inf, np.inf)
        loss = np.where(freed > 0, self._seconds / np.maximum(freed, 1), for_nothing)
        return np.where(self._open, loss, np.inf)

    def _leave(self, group: int) -> None:
        self._ledger.flip(group)
        self._open[group] = False
        for near in self._ledger.wiring.neighbours[group]:
            if self._open[near]:
                self._price(near)

    def _price(self, group: int) -> None:
        self._seconds[group], self._nbytes[group] = self._ledger.delta(group)
