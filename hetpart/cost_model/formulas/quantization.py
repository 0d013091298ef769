"""Between floats and small integers, and arithmetic on quantized tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import (
    CONTRIB,
    ONNX,
    per_input_element,
    per_output_element,
    serial_cycles,
    spread_cycles,
)

PER_ELEMENT: dict[str, float] = {"DequantizeLinear": 2, "QuantizeLinear": 4}
CONTRIB_PER_ELEMENT: dict[str, float] = {
    "DequantizeBFP": 2, "DequantizeLinear": 2, "DequantizeWithOrder": 2, "QLinearAdd": 6, "QLinearLeakyRelu": 6,
    "QLinearMul": 6, "QLinearSigmoid": 8, "QLinearWhere": 4, "QOrderedGelu": 14, "QuantizeBFP": 4,
    "QuantizeLinear": 4, "QuantizeWithOrder": 4,
}  # fmt: skip

per_output_element(PER_ELEMENT)
per_output_element(CONTRIB_PER_ELEMENT, CONTRIB)
# It looks for the range first, then quantizes.
per_input_element({"DynamicQuantizeLinear": 6})


@dataclass(frozen=True, slots=True)
class Pace:
    """Cycles of a kernel, measured on an EPYC 9004 taken to run at 3.5 GHz, ONNX Runtime 1.31."""

    run: float
    """Of each run of elements with one scale, which are handed out one after another."""
    half: float
    """Of each element from or to float16, which has no vector code."""
    across: float
    """Of each element with a scale a block, of blocks along another axis than the last."""
    along: float
    """The same along the last axis."""


PACES: Mapping[str, Pace] = {
    "DequantizeLinear": Pace(run=5.3, half=5.9, across=0.0, along=3.6),
    "QuantizeLinear": Pace(run=65.0, half=31.0, across=8.0, along=0.0),
}
"""Of runs of 16 and 64 elements as of single ones. Threads share elements and blocks of ``QuantizeLinear`` alone."""
HALF = "float16"


def _runs(o: Operands) -> int:
    """How many runs have one scale: all is one where one scale is all."""
    shape, scales = o.shape(0), o.numel(1)
    if scales <= 1 or not shape:
        return 1
    axis = o.integer("axis", 1) % len(shape)
    return o.numel(0) // max(1, prod(shape[axis + 1 :]))


def _by_block(o: Operands, pace: Pace) -> float:
    along = o.integer("axis", 1) in (-1, len(o.shape(0)) - 1)
    return (pace.along if along else pace.across) * o.numel(0)


def _in_half(o: Operands, pace: Pace) -> float:
    values = o.input(0), o.output()
    return pace.half * o.numel(0) if any(v is not None and v.dtype == HALF for v in values) else 0.0


def _dequantized(o: Operands) -> float:
    pace = PACES["DequantizeLinear"]
    blocks = o.integer("block_size", 0) > 0
    return _in_half(o, pace) + (_by_block(o, pace) if blocks else pace.run * (_runs(o) - 1))


def _quantized_apart(o: Operands) -> float:
    return 0.0 if o.integer("block_size", 0) else PACES["QuantizeLinear"].run * (_runs(o) - 1)


def _quantized_together(o: Operands) -> float:
    pace = PACES["QuantizeLinear"]
    return _in_half(o, pace) if not o.integer("block_size", 0) else _by_block(o, pace)


for domain in (ONNX, CONTRIB):
    serial_cycles.add(_dequantized, ("DequantizeLinear",), domain)
    serial_cycles.add(_quantized_apart, ("QuantizeLinear",), domain)
    spread_cycles.add(_quantized_together, ("QuantizeLinear",), domain)
