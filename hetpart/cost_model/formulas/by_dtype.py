"""Ops whose CPU kernels have vector code for some dtypes, and go element by element for others.

Cycles per element of the result, measured on an EPYC 9004 taken to run at 3.5 GHz, one thread, ONNX Runtime 1.31, of
10^5 to 10^6 numbers by chance; an op belongs to ``SPREAD`` where a second thread worked as long as the first. What is
missing takes about as long as its bytes move.
"""

from __future__ import annotations

from collections.abc import Mapping

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.scalar import spelled_cycles
from hetpart.cost_model.formulas.table import CONTRIB, Table, serial_cycles, spread_cycles

Cycles = Mapping[str, float]
"""By the dtype of the result."""
_BITWISE: Cycles = dict.fromkeys(("int8", "uint8", "int16", "uint16", "int32", "uint32"), 1.9)
_NORMALIZED: Cycles = {"float16": 1.0, "float64": 5.2}
SERIAL: Mapping[str, Cycles] = {
    "Max": {"float16": 17.0},
    "Min": {"float16": 18.0},
    "Shrink": {
        "float16": 31.0,
        "float32": 23.0,
        "float64": 23.0,
        **dict.fromkeys(("int8", "int16", "int32", "int64"), 3.8),
    },
    "Sign": {"float32": 4.0},
    "Where": {"float64": 5.0, "int64": 5.0},
}
"""Of ``Shrink`` the floats take branches that the processor does not foresee."""
SPREAD: Mapping[str, Cycles] = {
    "BitShift": dict.fromkeys(("uint8", "uint16", "uint32"), 1.45),
    "BitwiseAnd": _BITWISE,
    "BitwiseOr": _BITWISE,
    "BitwiseXor": _BITWISE,
    "Clip": {"float16": 16.0},
    "Div": {
        "int8": 6.7, "int16": 6.7, "int32": 3.1, "int64": 7.7,
        "uint8": 4.8, "uint16": 4.8, "uint32": 6.7, "uint64": 7.7,
    },
    "Exp": {"float64": 14.0},
    "LayerNormalization": {"float16": 1.8, "float64": 21.5},
    "RMSNormalization": _NORMALIZED,
    "Sigmoid": {"float64": 32.0},
    "SimplifiedLayerNormalization": _NORMALIZED,
    "Tanh": {"float64": 11.0},
}  # fmt: skip
CONTRIB_SPREAD: Mapping[str, Cycles] = {
    "SkipLayerNormalization": {"float16": 18.5},
    "SkipSimplifiedLayerNormalization": {"float16": 4.7, "float32": 3.6},
}
HALF = "float16"
TO_HALF, FROM_HALF, BOOLEAN_TO_HALF = 5.3, 4.1, 12.3
"""Of conversions to and from it, but for float32, which the processor has instructions for: 4.8 to 5.6, 3.5 to 6.4."""


def _add(table: Table[float], rows: Mapping[str, Cycles], domain: str = "") -> None:
    for op_type, cycles in rows.items():
        table.add(lambda o, cycles=cycles: cycles.get(_made(o), 0.0) * o.output_numel(), (op_type,), domain)


def _made(o: Operands) -> str:
    value = o.output()
    return "" if value is None else value.dtype


@serial_cycles("Cast", "CastLike")
def _converted(o: Operands) -> float:
    first = o.input(0)
    dtypes = "" if first is None else first.dtype, _made(o)
    if "string" in dtypes:
        return spelled_cycles(o)
    if HALF not in dtypes or "float32" in dtypes or dtypes[0] == dtypes[1]:
        return 0.0
    if dtypes[0] == HALF:
        return FROM_HALF * o.output_numel()
    return (BOOLEAN_TO_HALF if dtypes[0] == "bool" else TO_HALF) * o.output_numel()


_add(serial_cycles, SERIAL)
_add(spread_cycles, SPREAD)
_add(spread_cycles, CONTRIB_SPREAD, CONTRIB)
