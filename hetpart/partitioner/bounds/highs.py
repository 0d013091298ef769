# pyright: reportMissingTypeStubs=false, reportMissingModuleSource=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportAttributeAccessIssue=false
"""HiGHS, spoken to as SciPy carries it: SciPy's own functions neither begin where another run ended nor presolve alone.

SciPy promises nothing of this module of its own: where it cannot be imported, callers make do with its functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hetpart.partitioner.bounds.milp import silenced

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.bounds.milp import LinearProgram

DEVEX = 1
"""How HiGHS chooses rows: steepest edges want their weights anew at every start, as long as all else takes."""
NO_LIMIT = 2**31 - 1
OPTIONS = {
    "output_flag": False,
    "parallel": "off",
    "simplex_dual_edge_weight_strategy": DEVEX,
    "mip_feasibility_tolerance": 1e-9,  # in presolve, a byte of a million is none of the usual 1e-6
}
SPOKEN = ("changeColsBounds", "getBasis", "getDualRay", "getPresolvedLp", "getSolution", "presolve", "setBasis")
"""What is asked of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Highs:
    """A program in HiGHS, its costs scaled and without its constant."""

    core: Any
    solver: Any

    @classmethod
    def of(cls, linear: LinearProgram) -> Highs | None:
        """``linear`` in HiGHS; None where this SciPy keeps that to itself."""
        try:
            from scipy.optimize._highspy import _core as core
        except ImportError:
            return None
        if not all(hasattr(getattr(core, "_Highs", None), name) for name in SPOKEN):
            return None
        matrix, program, columns = linear.matrix, core.HighsLp(), core.HighsSparseMatrix()
        for sized in (program, columns):
            sized.num_row_, sized.num_col_ = len(linear.rows.least), len(linear.costs)
        columns.format_ = core.MatrixFormat.kColwise
        columns.start_, columns.index_, columns.value_ = matrix.indptr, matrix.indices, matrix.data
        program.a_matrix_ = columns
        program.col_cost_ = linear.costs * linear.scale
        program.col_lower_, program.col_upper_ = linear.lower, linear.upper
        program.row_lower_ = np.array(linear.rows.least, np.float64)
        program.row_upper_ = np.full(len(linear.rows.least), np.inf)
        if linear.integral.any():
            kinds = core.HighsVarType.kContinuous, core.HighsVarType.kInteger
            program.integrality_ = [kinds[whole] for whole in linear.integral.tolist()]
        return cls.holding(core, program)

    @classmethod
    def holding(cls, core: Any, program: Any) -> Highs:
        """``program`` as HiGHS has it."""
        solver = core._Highs()
        for name, value in OPTIONS.items():
            solver.setOptionValue(name, value)
        solver.passModel(program)
        return cls(core, solver)

    def within(self, lower: NDArray[np.float64], upper: NDArray[np.float64], enough: float) -> None:
        """From now on with these bounds of the variables, and to stop where costs are proven to exceed ``enough``."""
        self.solver.setOptionValue("objective_bound", enough)
        self.solver.changeColsBounds(len(lower), np.arange(len(lower), dtype=np.int32), lower, upper)

    def run(
        self, most: int = NO_LIMIT, start: Any = None, *, seconds: float = np.inf, presolved: bool = True
    ) -> tuple[str, int]:
        """The status, and the steps taken.

        Args:
            most: Steps.
            start: Where another run ended; None to begin anew.
            seconds: The user's limit; reached only where it is short.
            presolved: Whether what is fixed is taken out first, where it begins anew. What proves that there is no
                solution is known only where it is not.
        """
        if start is None:
            self.solver.clearSolver()
        else:
            self.solver.setBasis(start)
        self.solver.setOptionValue("presolve", "choose" if presolved else "off")
        self.solver.setOptionValue("time_limit", self.solver.getRunTime() + seconds)
        # Costs that are perturbed keep a long way from going in circles, and make a short one long.
        self.solver.setOptionValue("dual_simplex_cost_perturbation_multiplier", 1.0 if start is None else 0.0)
        self.solver.setOptionValue("simplex_iteration_limit", most)
        with silenced():
            self.solver.run()
        return self.solver.getModelStatus().name, int(self.solver.getInfo().simplex_iteration_count)

    def presolved(self, seconds: float = np.inf) -> Highs | None:
        """What presolve leaves, with parts of variables allowed; None where it finds that there is no solution."""
        self.solver.setOptionValue("time_limit", seconds)
        with silenced():
            self.solver.presolve()
        if self.solver.getModelPresolveStatus().name == "kInfeasible":
            return None
        left = self.solver.getPresolvedLp()
        left.integrality_ = []
        return Highs.holding(self.core, left)


def refuted(linear: LinearProgram, limit: float, seconds: float = np.inf) -> bool:
    """Whether HiGHS soon finds that no solution costs ``limit`` or less.

    Knowing the limit and which variables are whole, its presolve fixes much and tightens rows, so that what is left may
    have no solution with parts allowed, where the program as it is has many. What nearly breaks a row confuses it:
    ``linear`` should leave room for a little more than there is.
    """
    highs = Highs.of(linear.below(limit))
    if highs is None:
        return False
    left = highs.presolved(seconds)
    return left is None or left.run(seconds=seconds)[0] == "kInfeasible"
