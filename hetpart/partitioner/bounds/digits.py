"""A sum of whole numbers that may not exceed a limit, told to a solver of floating point without rounding.

HiGHS takes a row as kept that is exceeded by a millionth, and of weights that differ by some bytes of a terabyte, those
that exceed a budget by a few bytes are within that. Written in digits, every row has small numbers. With base ``U``,
``Σ size · x ≤ limit`` holds for whole ``x`` just where there are carries ``t ≥ 0`` such that

    Σ digit 0 · x       ≤ limit 0 + U · t1
    Σ digit 1 · x + t1  ≤ limit 1 + U · t2    and so on, without a carry from the last.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hetpart.partitioner.bounds.milp import LinearProgram

BASE = 2**14
"""What a millionth of a variable is of a digit stays far from one."""


def kept_exactly(program: LinearProgram, sizes: list[tuple[int, int]], limit: int) -> LinearProgram:
    """``program`` with rows that keep the sum of (variable, size) within ``limit``, to the last unit.

    Args:
        program: What the rows are added to.
        sizes: Of variables that are 0 or 1 in every solution that counts.
        limit: Of the sum.
    """
    rows, count, carries = program.rows.copy(), len(program.costs), 0
    while limit >= BASE:
        digits = [(at, -float(size % BASE)) for at, size in sizes if size % BASE]
        came = [(count + carries - 1, -1.0)] if carries else []
        rows.add([*digits, *came, (count + carries, BASE)], -(limit % BASE))
        sizes, limit = [(at, size // BASE) for at, size in sizes], limit // BASE
        carries += 1
    came = [(count + carries - 1, -1.0)] if carries else []
    rows.add([*((at, -float(size)) for at, size in sizes if size), *came], -limit)
    none = np.zeros(carries)
    return replace(
        program,
        costs=np.append(program.costs, none),
        lower=np.append(program.lower, none),
        upper=np.append(program.upper, none + len(sizes) + 1),
        integral=np.append(program.integral, none == 0),
        rows=rows,
    )
