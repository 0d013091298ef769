"""Kernels without vector code for a dtype take the time that they were measured to take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from hetpart.cost_model.formulas import by_dtype
from tests.cost_model.one_op import CONTRIB, OneOp

FACTOR = 1.5
MANY, FEW = (1000, 1000), (100, 1000)


def alike(op_type: str, sizes: tuple[int, ...], dtype: str, inputs: int = 1, **attributes: Any) -> OneOp:
    return OneOp(op_type, ((sizes, dtype),) * inputs, attributes=attributes)


def cast(first: str, made: int, sizes: tuple[int, ...] = MANY) -> OneOp:
    return alike("Cast", sizes, first, to=made)


def normalized(op_type: str, sizes: tuple[int, ...], dtype: str) -> OneOp:
    """With weights, and what is added before where the op's name says so."""
    skips = op_type.startswith("Skip")
    inputs = ((sizes, dtype),) * (2 if skips else 1)
    return OneOp(op_type, (*inputs, np.ones(sizes[-1], dtype)), domain=CONTRIB if skips else "")


HALF_BOUNDS = np.array(0, "float16"), np.array(1, "float16")
MEASURED = {
    "largest of halves": (alike("Max", MANY, "float16", 2), 4.76),
    "largest of few halves": (alike("Max", FEW, "float16", 2), 0.471),
    "least of halves": (alike("Min", MANY, "float16", 2), 4.76),
    "halves within": (OneOp("Clip", ((MANY, "float16"), *HALF_BOUNDS)), 4.41),
    "few halves within": (OneOp("Clip", ((FEW, "float16"), *HALF_BOUNDS)), 0.433),
    "quotients of int8": (alike("Div", MANY, "int8", 2), 1.90),
    "quotients of uint8": (alike("Div", MANY, "uint8", 2), 1.36),
    "quotients of int32": (alike("Div", MANY, "int32", 2), 0.889),
    "quotients of int64": (alike("Div", MANY, "int64", 2), 2.18),
    "few quotients of int64": (alike("Div", FEW, "int64", 2), 0.223),
    "bits of int8": (alike("BitwiseAnd", MANY, "int8", 2), 0.546),
    "bits shifted": (alike("BitShift", MANY, "uint8", 2, direction="LEFT"), 0.407),
    "signs": (alike("Sign", MANY, "float32"), 1.00),
    "int32 of halves": (cast("float16", TensorProto.INT32), 1.16),
    "few int32 of halves": (cast("float16", TensorProto.INT32, FEW), 0.118),
    "float64 of halves": (cast("float16", TensorProto.DOUBLE), 0.989),
    "halves of int64": (cast("int64", TensorProto.FLOAT16), 1.60),
    "halves of bool": (cast("bool", TensorProto.FLOAT16), 3.54),
    "halves of float32": (cast("float32", TensorProto.FLOAT16), 0.066),
    "normalized float64": (normalized("LayerNormalization", MANY, "float64"), 6.04),
    "normalized few float64": (normalized("LayerNormalization", FEW, "float64"), 0.602),
    "normalized halves": (normalized("LayerNormalization", MANY, "float16"), 0.450),
    "normalized by squares": (normalized("RMSNormalization", MANY, "float64"), 1.53),
    "normalized sums of halves": (normalized("SkipLayerNormalization", MANY, "float16"), 5.41),
    "normalized few sums of halves": (normalized("SkipLayerNormalization", FEW, "float16"), 0.517),
    "normalized sums by squares": (normalized("SkipSimplifiedLayerNormalization", MANY, "float32"), 1.04),
    "shrunk": (alike("Shrink", MANY, "float32"), 6.45),
    "shrunk int32": (alike("Shrink", MANY, "int32"), 0.940),
    "chosen int64": (OneOp("Where", ((MANY, "bool"), (MANY, "int64"), (MANY, "int64"))), 1.83),
    "exponentials of float64": (alike("Exp", MANY, "float64"), 3.86),
    "few exponentials of float64": (alike("Exp", FEW, "float64"), 0.391),
    "sigmoids of float64": (alike("Sigmoid", MANY, "float64"), 8.95),
}
"""Milliseconds of ONNX Runtime 1.31 on one core of an EPYC 9004, of numbers by chance."""


@pytest.mark.parametrize("name", MEASURED)
def test_seconds_are_those_measured(name: str) -> None:
    op, milliseconds = MEASURED[name]
    assert milliseconds / FACTOR < op.milliseconds() < FACTOR * milliseconds


@pytest.mark.parametrize("op_type", ["Sign", "Div", "BitwiseAnd", "BitShift", "Max", "Clip"])
def test_what_has_vector_code_takes_as_long_as_its_bytes(op_type: str) -> None:
    """Signs of a million bytes took 0.027 ms, those of as many floats 1.0."""
    dtype = {"Max": "int32", "Clip": "int32", "Div": "float32", "BitwiseAnd": "int64", "BitShift": "uint64"}
    tables = (by_dtype.SERIAL, by_dtype.SPREAD)
    assert all(dtype.get(op_type, "int8") not in table.get(op_type, {}) for table in tables)


HALVES = [
    OneOp("Max", ((FEW, "float16"),) * 2),
    OneOp("Min", ((FEW, "float16"),) * 2),
    OneOp("Clip", ((FEW, "float16"), *HALF_BOUNDS)),
    OneOp("Shrink", ((FEW, "float16"),)),
    *(
        normalized(name, FEW, "float16")
        for name in ("LayerNormalization", "RMSNormalization", "SkipLayerNormalization")
    ),
    normalized("SkipSimplifiedLayerNormalization", FEW, "float16"),
]


@pytest.mark.parametrize("op", HALVES, ids=lambda op: op.op_type)
def test_halves_that_cost_cycles_are_computed_as_they_are(op: OneOp, tmp_path: Path) -> None:
    """ONNX Runtime has kernels of their own for them, without vector code, and converts nothing."""
    assert op.kernels(tmp_path) == [op.op_type]
    tables = (by_dtype.SERIAL, by_dtype.SPREAD, by_dtype.CONTRIB_SPREAD)
    assert any("float16" in table.get(op.op_type, {}) for table in tables)
