"""Pools whose CPU kernels go window by window: those that do not compute channels in blocks.

Cycles of ONNX Runtime 1.31 on an EPYC 9004, taken to run at 3.5 GHz, but for places of the largest.
"""

from __future__ import annotations

from math import prod

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import serial_cycles, spread_cycles
from hetpart.cost_model.session.layout import BLOCK, CHANNEL, IMAGE_RANK

DILATED_AVERAGES = 19
"""Opset from which ``AveragePool`` has dilations, and a kernel of plain loops: ``AveragePoolV19`` in ``pool.cc``."""
ADDED_CYCLES, ADDED_ROW_CYCLES = 4.4, 1.6
"""Of each element of a window that those loops add, and of each of its rows: 9.6 to 175 cycles a window of 2 to 27
elements, within 30 %."""
LINE_CYCLES, LINE_STEP_CYCLES = 3.0, 0.85
"""Of each window along a line, and of each of its elements: MLAS has ``MlasPool1DKernel`` alone for them, without
vectors. 4.4, 4.9 and 10.8 cycles for windows of 2, 3 and 9 elements."""
IMAGE_CYCLES = 4.5
"""Of each window of an image or a volume, whose rows ``MlasPool2DVectorKernel`` and ``3D`` reduce by vectors: 3.2 to
7.2 cycles for windows of 4 to 27 elements."""
PLACE_CYCLES, STEP_CYCLES, LARGER_CYCLES = 7.0, 1.3, 42.0
"""Of a ``MaxPool`` that says where the largest are: of each place, of each element of a window, and of each that is
larger than all before it, which the processor does not foresee. Measured at 4.1 GHz, windows of 1 to 49 elements drawn
by chance: within 17 %."""


def is_blocked(o: Operands) -> bool:
    """Whether the pool ``o`` computes channels in blocks, as calibrations measure it."""
    source, shape = o.input(0), o.shape(0)
    images = source is not None and source.dtype == "float32" and len(shape) == IMAGE_RANK
    return images and shape[CHANNEL] % BLOCK == 0 and o.output(1) is None


def _cycles(o: Operands) -> float:
    if is_blocked(o):
        return 0.0
    window = o.integers("kernel_shape") or (1,)
    area = prod(window)
    if o.op.op_type == "AveragePool":
        if o.op.version >= DILATED_AVERAGES:
            return o.output_numel() * (ADDED_CYCLES * area + ADDED_ROW_CYCLES * area / window[-1])
    elif o.output(1) is not None or any(step > 1 for step in o.integers("dilations")):
        return o.output_numel() * _looked_for(area)
    return o.output_numel() * (LINE_CYCLES + LINE_STEP_CYCLES * area if len(window) == 1 else IMAGE_CYCLES)


def _looked_for(area: int) -> float:
    """By chance, element i of a window is larger than those before it once in i times."""
    larger = sum(1 / place for place in range(2, area + 1))
    return PLACE_CYCLES + STEP_CYCLES * area + LARGER_CYCLES * larger


def _is_alone(o: Operands) -> bool:
    """Threads share channels."""
    return prod(o.shape(0)[:2]) == 1


@serial_cycles("AveragePool", "MaxPool")
def _by_one(o: Operands) -> float:
    return _cycles(o) if _is_alone(o) else 0.0


@spread_cycles("AveragePool", "MaxPool")
def _by_all(o: Operands) -> float:
    return 0.0 if _is_alone(o) else _cycles(o)
