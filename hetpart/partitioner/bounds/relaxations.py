"""One linear program solved again and again, with other bounds of its variables each time.

A few bounds turned leave the last solution nearly right: from where the program with the old bounds ended, the dual
simplex method is there in a few steps.

A bound is computed from the multipliers y ≥ 0 of the rows A x ≥ b alone: whatever they are,

    costs · x ≥ y · b + Σ min(d · lower, d · upper),  d = costs - Aᵀ y

(weak duality). With costs of 0, more than 0 on the right proves that there is no solution. Where SciPy keeps HiGHS to
itself, its own functions solve each program anew, and their bounds are taken as in ``milp``.
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

ROUNDED, CANCELLED = 1e-9, 1e-13
"""Of all that is added up, and of what was taken from each other before: what rounding may take from a bound."""
BEYOND = 1e-6
"""Relative to ``enough``: how much more HiGHS is asked for, so that what is left after rounding is enough."""
MOST_STEPS = 1500
"""From where another ended. Beyond that, beginning anew is quicker: what is fixed by now is taken out first."""
ANEW = 3
"""How much less a step takes then."""
BEGUN, CALLED = 20, 50_000
"""What a program takes beside its steps: as many of those, and work."""


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """One of them, solved."""

    bound: float
    """No solution costs less; infinite where there is none."""
    solution: NDArray[np.float64] | None
    """The best; None where the bound is enough, or there is none."""
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
        self,
        lower: NDArray[np.float64],
        upper: NDArray[np.float64],
        enough: float,
        start: Any = None,
        seconds: float = np.inf,
    ) -> Relaxed:
        """The best solution with ``lower`` and ``upper`` as the variables' bounds.

        Args:
            lower: (N,) Of the variables.
            upper: (N,) Of the variables.
            enough: Of a bound: it is not raised any further.
            start: The ``end`` of another one, which may be near.
            seconds: The user's limit; reached only where it is short.
        """
        if self.highs is None:
            return self._by_scipy(lower, upper, seconds)
        constant, scale = self.linear.constant, self.linear.scale
        self.highs.within(lower, upper, (enough - constant + BEYOND * abs(enough)) * scale)
        status = self._run(self.highs, start, seconds)
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

    def _run(self, highs: Highs, start: Any, seconds: float) -> str:
        status, rows = "kIterationLimit", len(self.least)
        self.work += BEGUN * rows + CALLED
        if start is not None:
            status, steps = highs.run(MOST_STEPS, start, seconds=seconds)
            self.work += steps * rows
        if status == "kIterationLimit":
            status, steps = highs.run(seconds=seconds)
            self.work += steps * rows // ANEW
            if status == "kInfeasible":
                status, steps = highs.run(seconds=seconds, presolved=False)
                self.work += steps * rows
        return status

    def _by_scipy(self, lower: NDArray[np.float64], upper: NDArray[np.float64], seconds: float) -> Relaxed:
        self.work += len(lower) * len(self.least) // ANEW + CALLED
        found = replace(self.linear, lower=lower, upper=upper).solve(Effort(1.0, 1, seconds))
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
        terms = self.factor * held[self.row]
        beside = costs - np.bincount(self.variable, terms, len(costs))
        each = np.concatenate([held * self.least, np.minimum(beside * lower, beside * upper)])
        before = np.abs(costs) + np.bincount(self.variable, np.abs(terms), len(costs))
        gone = ROUNDED * np.abs(each).sum() + CANCELLED * (before @ np.maximum(np.abs(lower), np.abs(upper)))
        return float(each.sum() - gone)
