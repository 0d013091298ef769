"""How much some op needs on the accelerator while it runs, beside all that is held there: the level of a placement.

What an op reads and makes there, and its scratch, are there at once, and so is a weight that it reads and that is
streamed. So weights that are held leave room for the neediest op of a placement; and no op, and no streamed weight,
that needs more is in it. A price sees half of an op as half of its needs: level by level it does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR, HOST
from hetpart.partitioner.scores.fixing import while_running

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.problem import PlacementProblem
    from hetpart.partitioner.scores.streaming import ThreeStates


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Bytes that ops and streamed weights need."""

    of_op: NDArray[np.int64]
    """(N,)"""
    of_weight: NDArray[np.int64]
    """(holders,) Of a weight that is streamed, with the op that needs least beside it."""
    values: NDArray[np.int64]
    """(holders,) The value that stands for each weight."""

    @classmethod
    def of(cls, states: ThreeStates) -> Levels:
        """The levels of ``states.problem``."""
        problem = states.problem
        assert problem.stands_for_weight is not None
        assert states.own.streaming is not None
        of_op = _beside_weights(problem)
        values = np.flatnonzero(problem.stands_for_weight)
        uses = problem.value_uses
        least = np.full(problem.values, np.iinfo(np.int64).max // 2)
        here = ~uses.on_host & problem.legal()[ACCELERATOR, uses.ops]
        np.minimum.at(least, uses.rows[here], of_op[uses.ops[here]])
        return cls(of_op, states.own.streaming.nbytes[states.weights] + least[values], values)

    @classmethod
    def of_ops(cls, problem: PlacementProblem) -> Levels:
        """The levels of a problem whose weights are all held."""
        none = np.zeros(0, np.int64)
        return cls(_beside_weights(problem), none, none)

    @staticmethod
    def _forbidding(problem: PlacementProblem) -> float:
        """Seconds of a copy that no cheapest placement makes: all else together takes less."""
        return 1.0 + float(problem.seconds[np.isfinite(problem.seconds)].sum() + problem.copy_seconds.sum())

    def known(self) -> NDArray[np.int64]:
        """Every level that a placement can have, 0 for none at all, ascending."""
        return np.unique(np.concatenate([[0], self.of_op, self.of_weight]))

    def within(self, problem: PlacementProblem, least: int, most: int) -> PlacementProblem | None:
        """``problem`` where something needs ``least`` bytes and nothing more than ``most``; nothing where none can."""
        seconds, copies = problem.seconds.copy(), problem.copy_seconds.copy()
        seconds[ACCELERATOR, self.of_op > most] = np.inf
        copies[HOST, ACCELERATOR, self.values[self.of_weight > most]] = self._forbidding(problem)
        budgets = problem.budgets.copy()
        budgets[ACCELERATOR] -= least
        found = replace(problem, seconds=seconds, copy_seconds=copies, budgets=budgets)
        return found if budgets[ACCELERATOR] >= 0 and found.legal().any(axis=0).all() else None


def _beside_weights(problem: PlacementProblem) -> NDArray[np.int64]:
    """(N,) Bytes that each op needs; what the caller holds there is counted with weights."""
    return while_running(replace(problem, value_bytes=np.where(problem.given_there, 0, problem.value_bytes)))
