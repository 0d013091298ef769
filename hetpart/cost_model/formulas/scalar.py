"""Ops whose CPU kernels compute one element after another, by calls of the C library or in plain loops.

Cycles are nanoseconds measured on a 2.5 GHz Xeon with AVX-512, 2^19 elements of float32, ONNX Runtime 1.31, times 2.5;
an op belongs to ``SPREAD`` where a second thread made it faster. What is missing takes about as long as its bytes move.
"""

from __future__ import annotations

from collections.abc import Mapping

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import CONTRIB, Table, serial_cycles, spread_cycles

SERIAL: Mapping[str, float] = {
    "Acosh": 45, "Asin": 5, "Asinh": 39, "Atan": 7, "Atanh": 37, "Cos": 8, "Cosh": 36, "CumSum": 7.5, "Mod": 21,
    "NonZero": 47, "RandomNormalLike": 40, "RandomUniformLike": 13, "Sign": 4, "Sin": 8, "Sinh": 39, "Softplus": 50,
    "TopK": 3.4, "Unique": 300,
}  # fmt: skip
SPREAD: Mapping[str, float] = {
    "Celu": 10.5, "Elu": 9, "Log": 8, "Mish": 54, "Pow": 23, "ReduceLogSumExp": 20, "ReduceProd": 4, "Selu": 9,
    "Tan": 48,
}  # fmt: skip
"""Both per element of the largest input."""
UNPACKED_WEIGHT, UNPACKED_BLOCK = 3.0, 350.0
"""Of each weight, and of each block with a scale of its own, that ``MatMulNBits`` turns into floats in every run: of
2 and 8 bits, of which no kernel multiplies floats with the weights as they are."""
_KEPT_PACKED, _INTEGERS = 4, 4


def _per_element(table: Table[float], rows: Mapping[str, float]) -> None:
    for op_type, cycles in rows.items():
        table.add(lambda o, cycles=cycles: cycles * _elements(o), (op_type,))


def _elements(o: Operands) -> int:
    return max((value.numel for value in o.inputs if value is not None), default=0)


@spread_cycles("MatMulNBits", domain=CONTRIB)
def _unpacked(o: Operands) -> float:
    if o.integer("bits", _KEPT_PACKED) == _KEPT_PACKED or o.integer("accuracy_level", 0) >= _INTEGERS:
        return 0.0
    weights = o.integer("K", 1) * o.integer("N", 1)
    return weights * (UNPACKED_WEIGHT + UNPACKED_BLOCK / max(1, o.integer("block_size", 32)))


_per_element(serial_cycles, SERIAL)
_per_element(spread_cycles, SPREAD)
