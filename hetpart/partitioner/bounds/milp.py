# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportArgumentType=false
"""Mixed-integer programs on HiGHS, which SciPy carries.

HiGHS now and then prints to the process's standard output: it is closed to it while it runs, or ``--json`` would break.
Its relative gap leaves a constant term out, and its tolerances are absolute: the constant is a variable fixed at 1, and
costs are scaled.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Generator

    from numpy.typing import NDArray
    from scipy.sparse import csc_array

SCALE = 1e4
"""What the costs of a program add up to when HiGHS sees them."""
CAUTION = 1e-7
"""Of the scale: what HiGHS's tolerances and rounding may take from a bound, many times over."""
SMALL = 1e-4
"""Scaled; costs below that are left out of the row that limits costs."""
STDOUT = 1
INFEASIBLE = 2


@dataclass(frozen=True, slots=True)
class Effort:
    """When to stop."""

    gap: float
    """Relative, the constant term counted."""
    nodes: int
    """A count, not a clock: equal inputs stop at equal places."""
    seconds: float
    """The user's limit; reached only where it is short."""


@dataclass(slots=True, eq=False)
class Rows:
    """Linear rows ``Σ factor × variable ≥ least``, built one by one."""

    row: list[int] = field(default_factory=list[int])
    variable: list[int] = field(default_factory=list[int])
    factor: list[float] = field(default_factory=list[float])
    least: list[float] = field(default_factory=list[float])

    def add(self, terms: list[tuple[int, float]], least: float) -> None:
        count = len(self.least)
        for variable, factor in terms:
            self.row.append(count)
            self.variable.append(variable)
            self.factor.append(factor)
        self.least.append(least)

    def extend(self, row: int, variable: int, factor: float) -> None:
        """One more term of a row that is there."""
        self.row.append(row)
        self.variable.append(variable)
        self.factor.append(factor)

    def copy(self) -> Rows:
        return Rows([*self.row], [*self.variable], [*self.factor], [*self.least])


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What HiGHS made of a program."""

    bound: float
    """No solution costs less; infinite where there is none."""
    solution: NDArray[np.float64] | None
    """The best it met."""


@dataclass(frozen=True, slots=True, eq=False)
class LinearProgram:
    """Minimise ``constant + costs · x`` over ``rows`` and ``lower ≤ x ≤ upper``, ``integral`` variables whole."""

    constant: float
    costs: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    integral: NDArray[np.bool_]
    rows: Rows

    def relaxed(self) -> LinearProgram:
        """The same with parts of variables allowed."""
        return replace(self, integral=np.zeros_like(self.integral))

    def below(self, limit: float) -> LinearProgram:
        """Its solutions that cost no more than ``limit``, and few that cost a little more.

        Costs that are too small to matter are at their least: HiGHS divides rows by them, and its tolerances are
        absolute.
        """
        rows, scaled = self.rows.copy(), self.scale * self.costs
        paid, small = np.flatnonzero(np.abs(scaled) >= SMALL), (scaled != 0.0) & (np.abs(scaled) < SMALL)
        at_least = np.minimum(scaled[small] * self.lower[small], scaled[small] * self.upper[small])
        least = self.scale * (self.constant - limit) + float(at_least.sum()) - SCALE * CAUTION
        rows.add([*zip(paid.tolist(), (-scaled[paid]).tolist(), strict=True)], least)
        return replace(self, rows=rows)

    @property
    def scale(self) -> float:
        """What HiGHS sees costs times."""
        return SCALE / (float(np.abs(self.costs).sum()) + abs(self.constant) or 1.0)

    @property
    def matrix(self) -> csc_array:
        """(R, N) Factors of its rows."""
        from scipy.sparse import csc_array

        rows, shape = self.rows, (len(self.rows.least), len(self.costs))
        found = csc_array((np.array(rows.factor), (np.array(rows.row), np.array(rows.variable))), shape=shape)
        found.sum_duplicates()
        return found

    def solve(self, effort: Effort) -> Outcome:
        """The best solution that ``effort`` finds, and a bound on all."""
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        count, rows, scale = len(self.costs), self.rows, self.scale
        shape = (len(rows.least), count + 1)
        matrix = csr_array((np.array(rows.factor), (np.array(rows.row), np.array(rows.variable))), shape=shape)
        with silenced():
            found = milp(
                np.append(self.costs, self.constant) * scale,
                integrality=np.append(self.integral, False).astype(np.uint8),
                bounds=Bounds(np.append(self.lower, 1.0), np.append(self.upper, 1.0)),
                constraints=LinearConstraint(matrix, np.array(rows.least), np.inf) if rows.least else None,
                options={"mip_rel_gap": effort.gap, "node_limit": effort.nodes, "time_limit": effort.seconds},
            )
        if found.status == INFEASIBLE:
            return Outcome(np.inf, None)
        told = found.mip_dual_bound if self.integral.any() else found.fun if found.success else None
        bound = -np.inf if told is None else (float(told) - SCALE * CAUTION) / scale
        return Outcome(bound, None if found.x is None else np.asarray(found.x[:count], np.float64))


@contextmanager
def silenced() -> Generator[None]:
    """Nothing written to the file descriptor of standard output goes anywhere, until the last thread is done."""
    with _silence.lock:
        if not _silence.threads:
            sys.stdout.flush()
            _silence.kept = os.dup(STDOUT)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, STDOUT)
            os.close(nowhere)
        _silence.threads += 1
    try:
        yield
    finally:
        with _silence.lock:
            _silence.threads -= 1
            if not _silence.threads:
                os.dup2(_silence.kept, STDOUT)
                os.close(_silence.kept)


@dataclass(slots=True)
class _Silence:
    """Of the process: it has one standard output."""

    lock: Lock = field(default_factory=Lock)
    threads: int = 0
    """That want it."""
    kept: int = -1
    """Where output went before."""


_silence = _Silence()
