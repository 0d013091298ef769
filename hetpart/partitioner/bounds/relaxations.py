"""One linear program solved again and again, with other bounds of its variables each time.

A few bounds turned leave the last solution nearly right: from where the program with the old bounds ended, the dual
simplex method is there in a few steps.

Whoever solved it, a bound is computed from the multipliers y ≥ 0 of the rows A x ≥ b alone: whatever they are,

    costs · x ≥ y · b + Σ min(d · lower, d · upper),  d = costs - Aᵀ y

(weak duality). With costs of 0, more than 0 on the right proves that there is no solution.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hetpart.partitioner.bounds.highs import Highs
from hetpart.partitioner.bounds.milp import Effort

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.bounds.milp import LinearProgram

ROUNDED = 1e-9
"""Of all that is added up: what rounding may take from a bound."""
BEYOND = 1e-6
"""Relative to ``enough``: how much more HiGHS is asked for, so that what is left after rounding is enough."""
MOST_STEPS = 1500
"""From where another ended. Beyond that, beginning anew is quicker: what is fixed by now is taken out first."""
ANEW = 3
"""How much less a step takes then."""


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """One of them, solved."""

    bound: float
    """No solution costs less; infinite where there is none."""
    solution: NDArray[np.float64] | None
    """The best, where it costs less than is enough."""
    end: Any
    """Where another may begin; None where that is nowhere."""


@dataclass(slots=True, eq=False)
class Relaxations:
    """A program with parts of all variables allowed, whose bounds are finite."""

    linear: LinearProgram
    row: NDArray[np.int64]
    variable: NDArray[np.int64]
    factor: NDArray[np.float64]
    """Of every term of the rows."""
    least: NDArray[np.float64]
    """(R,) Right sides of the rows."""
    highs: Highs | None
    work: int = 0
    """Done so far: steps of the simplex method times rows, of which a core of 2023 does 50 million a second."""

    @classmethod
    def of(cls, linear: LinearProgram) -> Relaxations:
        """Of ``linear``."""
        linear, rows = linear.relaxed(), linear.rows
        row, variable = np.array(rows.row, np.int64), np.array(rows.variable, np.int64)
        return cls(linear, row, variable, np.array(rows.factor), np.array(rows.least), Highs.of(linear))

    def solved(
        self, lower: NDArray[np.float64], upper: NDArray[np.float64], enough: float, start: Any = None
    ) -> Relaxed:
        """The best solution with ``lower`` and ``upper`` as the variables' bounds.

        Args:
            lower: (N,) Of the variables.
            upper: (N,) Of the variables.
            enough: Of a bound: it is not raised any further.
            start: The ``end`` of another one, which may be near.
        """
        if self.highs is None:
            return self._by_scipy(lower, upper)
        constant, scale = self.linear.constant, self.linear.scale
        self.highs.within(lower, upper, (enough - constant + BEYOND * abs(enough)) * scale)
        status = self._run(self.highs, start)
        if status == "kInfeasible":
            return Relaxed(np.inf if self._none(self.highs, lower, upper) else -np.inf, None, None)
        found = self.highs.solver.getSolution()
        if not found.dual_valid:
            return Relaxed(-np.inf, None, None)
        multipliers = np.array(found.row_dual) / scale
        bound = self._told(multipliers, self.linear.costs, lower, upper) + constant
        if status != "kOptimal":  # whatever its multipliers are, what they prove holds
            return Relaxed(bound, None, None)
        return Relaxed(bound, np.array(found.col_value), self.highs.solver.getBasis())

    def _run(self, highs: Highs, start: Any) -> str:
        status, rows = "kIterationLimit", len(self.least)
        if start is not None:
            status, steps = highs.run(MOST_STEPS, start)
            self.work += steps * rows
        if status == "kIterationLimit":
            status, steps = highs.run()
            self.work += steps * rows // ANEW
        return status

    def _by_scipy(self, lower: NDArray[np.float64], upper: NDArray[np.float64]) -> Relaxed:
        self.work += len(lower) * len(self.least) // ANEW
        found = replace(self.linear, lower=lower, upper=upper).solve(Effort(1.0, 1, np.inf))
        return Relaxed(found.bound, found.solution, None)

    def _none(self, highs: Highs, lower: NDArray[np.float64], upper: NDArray[np.float64]) -> bool:
        """Whether what HiGHS proves by that there is no solution does prove it."""
        _, there, ray = highs.solver.getDualRay()
        if not there:
            return False
        told = (self._told(sign * np.array(ray), np.zeros_like(lower), lower, upper) for sign in (1.0, -1.0))
        return max(told) > 0.0

    def _told(
        self,
        multipliers: NDArray[np.float64],
        costs: NDArray[np.float64],
        lower: NDArray[np.float64],
        upper: NDArray[np.float64],
    ) -> float:
        """What ``multipliers`` of the rows prove that ``costs`` add up to at least; those below 0 are left out."""
        held = np.maximum(multipliers, 0.0)
        taken = np.bincount(self.variable, self.factor * held[self.row], len(costs))
        beside = costs - taken
        each = np.concatenate([held * self.least, np.minimum(beside * lower, beside * upper)])
        return float(each.sum() - ROUNDED * np.abs(each).sum())
