"""Products of bytes on processors of x86: how many cycles they take by the signs of what is multiplied.

ONNX Runtime multiplies unsigned bytes on the left with signed ones on the right by the processor's own instructions,
unsigned ones with each other by wider ones, and has for signed ones on the left a loop in C++ alone. Measured on an
EPYC 9004 at 3.6 GHz, one thread, ONNX Runtime 1.31: within a third for products of 1 to 3,136 rows, 24 to 2,048 deep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from hetpart.cost_model.formulas.matmul import transposed_inner
from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import CONTRIB, spread_cycles

UNSIGNED = "uint8"
SYMMETRIC = (UNSIGNED, "int8")
"""Left and right of the products that processors have instructions for."""
SCALED = 1.0
"""Cycles of each sum that is scaled to a byte."""
CHANNELS = 4
"""Input channels that the kernel for symmetric weights multiplies together."""
COPIED_ROW = 40.0
"""Cycles of each row of a window that is copied to unfold an image."""
FOUND_TAP, IMAGE_AXES = 30.0, 2
"""Cycles of each place of a window of more axes, which is looked up by itself: 17 to 44."""
UNFOLDED = 2.2
"""Cycles of each element of those that is unfolded with channels first."""
LOOKED_UP = 13.0
"""Cycles of each element of a QLinearSoftmax: 4.2 to 4.4 ns on a Xeon of 2019 at about 3 GHz, in rows of 64 to 256."""
RIGHT = 3
"""Where QLinearConv, QLinearMatMul and QGemm have their right side."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Cycles of a product of bytes."""

    multiplied: float
    """Of each multiply-add."""
    made: float
    """Of each element of the result."""
    weight: float = 0.0
    """Of each element of the right side, whatever the rows on the left."""
    by_channel: float = 0.0
    """Of each multiply-add of a convolution of every channel by itself."""


RATES: Mapping[tuple[str, str], Rate] = {
    SYMMETRIC: Rate(0.0, 1.1, by_channel=0.14),
    ("uint8", "uint8"): Rate(0.043, 1.3, by_channel=0.22),
    ("int8", "int8"): Rate(0.17, 12.0, 2.3, by_channel=0.28),
    ("int8", "uint8"): Rate(0.17, 12.0, 2.3, by_channel=0.28),
}
"""By the dtypes left and right. The peak of the processor says what a multiply-add takes that has an instruction."""


def held_as(o: Operands, position: int) -> str:
    """The dtype that the kernel of ``o`` between quantizations reads: that of what DequantizeLinear reads.

    Weights that are floats are quantized to signed bytes for it.
    """
    value = o.input(position)
    maker = None if value is None or value.producer is None else o.graph.ops[value.producer]
    if maker is not None and maker.op_type == "DequantizeLinear" and maker.inputs[0] is not None:
        return o.graph.values[maker.inputs[0]].dtype
    if value is not None and value.is_constant and value.dtype == "float32":
        return SYMMETRIC[1]
    return "" if value is None else value.dtype


def integer_cycles(o: Operands) -> float:
    """Cycles of what an op computes on integers for the quantization around it.

    There ONNX Runtime makes signed bytes on the left unsigned ones, or leaves the op on floats.
    """
    rule = _RULES.get(o.op.op_type)
    return 0.0 if rule is None else rule(o, 1, (UNSIGNED, held_as(o, 1)))


def _held(o: Operands, left: int, right: int) -> tuple[str, str]:
    first, second = o.input(left), o.input(right)
    return "" if first is None else first.dtype, "" if second is None else second.dtype


def _product(o: Operands, right: int, dtypes: tuple[str, str]) -> float:
    rate = RATES.get(dtypes)
    if rate is None:
        return 0.0
    return o.output_numel() * (rate.multiplied * transposed_inner(o) + rate.made) + rate.weight * o.numel(right)


def _convolution(o: Operands, weight: int, dtypes: tuple[str, str]) -> float:
    """Channels last: pixels are on the left."""
    rate = RATES.get(dtypes)
    filters, inner, *window = (*o.shape(weight), 1, 1)[: max(2, len(o.shape(weight)))]
    if rate is None:
        return 0.0
    made, taps, groups = o.output_numel(), prod(window), o.integer("group", 1)
    if inner == 1 and filters == groups:
        return made * (rate.by_channel * taps + SCALED)
    plain = taps == 1 and o.shape(0)[2:] == o.output_shape()[2:]
    where_it_lies = rate is RATES[SYMMETRIC] and groups == 1 and inner % CHANNELS == 0
    found, pixels = 0.0, groups * made // max(1, filters)
    if not plain and len(window) > IMAGE_AXES:
        found = FOUND_TAP * pixels * taps
    elif not plain and not where_it_lies:
        found = COPIED_ROW * pixels * prod(window[:-1])
    return made * (rate.multiplied * inner * taps + rate.made) + rate.weight * o.numel(weight) + found


@spread_cycles("ConvInteger")
def _channels_first(o: Operands) -> float:
    """Filters are on the left."""
    rate = RATES.get(_held(o, 1, 0))
    if rate is None:
        return 0.0
    filters, *rest = o.shape(1) or (1,)
    unfolded = o.integer("group", 1) * o.output_numel() // max(1, filters) * prod(rest)
    each = rate.weight + (UNFOLDED if len(rest) - 1 > IMAGE_AXES else 0.0)
    return o.output_numel() * (rate.multiplied * prod(rest) + rate.made) + each * unfolded


def _by_table(o: Operands) -> float:
    """Of a QLinearSoftmax, whose powers are looked up one by one and divided one by one."""
    return LOOKED_UP * o.output_numel()


def _looked_up(o: Operands, right: int, dtypes: tuple[str, str]) -> float:
    del right, dtypes
    return _by_table(o)


_Rule = Callable[[Operands, int, tuple[str, str]], float]
_RULES: Mapping[str, _Rule] = {
    "Conv": _convolution, "Gemm": _product, "MatMul": _product, "Softmax": _looked_up,
}  # fmt: skip
"""Of ops that quantization around them makes ops of integers."""


def _of_bytes(rule: _Rule, right: int) -> Callable[[Operands], float]:
    return lambda o: rule(o, right, _held(o, 0, right))


spread_cycles.add(_of_bytes(_product, 1), ("MatMulInteger",))
spread_cycles.add(_of_bytes(_product, RIGHT), ("QLinearMatMul",))
spread_cycles.add(_of_bytes(_product, 1), ("MatMulIntegerToFloat",), CONTRIB)
spread_cycles.add(_of_bytes(_product, RIGHT), ("QGemm",), CONTRIB)
spread_cycles.add(_by_table, ("QLinearSoftmax",), CONTRIB)
spread_cycles.add(_of_bytes(_convolution, RIGHT), ("QLinearConv",))
