"""What is chosen, repeated, normed and reduced element by element takes the time that it was measured to take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hetpart.cost_model.formulas import work_of
from tests.cost_model.build import single
from tests.cost_model.one_op import OneOp

FACTOR = 2.2
CUBE, SMALL = (64, 256, 256), (64, 128, 64)
Sizes = tuple[int, ...]


def largest(sizes: Sizes, kept: int, axis: int = -1) -> OneOp:
    return OneOp("TopK", ((sizes, "float32"), np.array([kept])), made=2, attributes={"axis": axis})


def repeated(sizes: Sizes, times: int, dtype: str = "float32") -> OneOp:
    return OneOp("Tile", ((sizes, dtype), np.array([1, 1, times])))


def reduced(op_type: str, sizes: Sizes, dtype: str, *axes: int) -> OneOp:
    return OneOp(op_type, ((sizes, dtype), *([np.array(axes)] if axes else [])))


def along(op_type: str, sizes: Sizes, axis: int, *inputs: Any) -> OneOp:
    return OneOp(op_type, ((sizes, "float32"), *inputs), version=21, attributes={"axis": axis})


MEASURED = {
    "few of many rows": (largest(CUBE, 5), 10.5),
    "some of many rows": (largest(CUBE, 32), 63.8),
    "half of many rows": (largest(CUBE, 128), 132.0),
    "few of short columns": (largest(CUBE, 5, axis=0), 49.3),
    "half of short columns": (largest(CUBE, 32, axis=0), 172.0),
    "few of columns": (largest(CUBE, 5, axis=1), 13.4),
    "few of few columns": (largest(SMALL, 5, axis=0), 6.12),
    "few of long rows": (largest((256, 4096), 8), 0.711),
    "many of long rows": (largest((256, 4096), 256), 15.6),
    "all of short rows": (largest((4096, 64), 64), 10.4),
    "few of a long row": (largest((1, 100_000), 8), 0.039),
    "many of a long row": (largest((1, 100_000), 256), 0.088),
    "elements again": (repeated((64, 256, 1), 256), 11.7),
    "few elements again": (repeated((64, 128, 1), 64), 1.48),
    "bytes again": (repeated((64, 256, 1), 256, "int8"), 11.6),
    "pairs again": (repeated((64, 256, 2), 128), 6.06),
    "runs of bytes again": (repeated((64, 256, 16), 16, "int8"), 0.798),
    "rows kept": (along("Compress", CUBE, 2, ((256,), "bool")), 8.40),
    "few rows kept": (along("Compress", SMALL, 2, ((64,), "bool")), 0.770),
    "elements kept": (OneOp("Compress", ((SMALL, "float32"), ((2**19,), "bool"))), 2.62),
    "normed": (along("LpNormalization", CUBE, 2), 4.12),
    "normed near": (along("LpNormalization", SMALL, 1), 0.619),
    "normed farther": (along("LpNormalization", CUBE, 1), 13.9),
    "normed far": (along("LpNormalization", CUBE, 0), 36.4),
    "normed far, few": (along("LpNormalization", SMALL, 0), 3.58),
    "sums of int64": (reduced("ReduceSum", CUBE, "int64"), 13.8),
    "sums of int64, few": (reduced("ReduceSum", SMALL, "int64"), 1.72),
    "sums of int64 in rows": (reduced("ReduceSum", CUBE, "int64", 2), 13.2),
    "sums of int64 in between": (reduced("ReduceSum", CUBE, "int64", 1), 8.24),
    "sums of int64 across": (reduced("ReduceSum", CUBE, "int64", 0), 11.1),
    "means of int64 in rows": (reduced("ReduceMean", CUBE, "int64", 2), 3.07),
    "means of int32": (reduced("ReduceMean", CUBE, "int32"), 3.47),
    "means of int32 across": (reduced("ReduceMean", SMALL, "int32", 0), 1.59),
    "largest of int64 across": (reduced("ReduceMax", CUBE, "int64", 0), 4.13),
    "largest bytes in between": (reduced("ReduceMax", CUBE, "int8", 1), 2.41),
    "sums of float64 in between": (reduced("ReduceSum", CUBE, "float64", 1), 4.59),
    "largest of float64 across": (reduced("ReduceMax", CUBE, "float64", 0), 4.74),
}
"""Milliseconds of ONNX Runtime 1.31 on one core of an EPYC 9004, of numbers by chance."""


@pytest.mark.parametrize("name", MEASURED)
def test_seconds_are_of_the_order_measured(name: str) -> None:
    op, milliseconds = MEASURED[name]
    assert milliseconds / FACTOR < op.milliseconds() < FACTOR * milliseconds


@pytest.mark.parametrize(("axis", "is_shared"), [(0, False), (1, True), (2, True)])
def test_threads_share_rows(axis: int, is_shared: bool) -> None:
    """All that lies before the axis: a second thread worked as long as the first, or not at all."""
    made = tuple(5 if place == axis else size for place, size in enumerate(CUBE))
    graph = single("TopK", [(CUBE, "float32"), ((1,), "int64")], [made, made], axis=axis)
    work = work_of(graph.ops[0], graph)
    assert work is not None
    assert (work.spread_cycles > 0, work.serial_cycles > 0) == (is_shared, not is_shared)


@pytest.mark.parametrize("axes", [(), (0,), (1,), (2,)])
def test_threads_share_what_is_reduced_but_for_a_whole(axes: Sizes) -> None:
    made = tuple(1 if place in axes or not axes else size for place, size in enumerate(CUBE))
    graph = single("ReduceSum", [(CUBE, "int64")], made, dtype="int64", version=11, axes=axes)
    work = work_of(graph.ops[0], graph)
    assert work is not None
    assert (work.spread_cycles > 0, work.serial_cycles > 0) == (bool(axes), not axes)
