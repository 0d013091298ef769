"""Pools whose CPU kernels go window by window: those that do not compute channels in blocks.

Cycles of ONNX Runtime 1.31 on an EPYC 9004, taken to run at 3.5 GHz, but for places of the largest.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import CONTRIB, serial_cycles, spread_cycles
from hetpart.cost_model.session.layout import CHANNEL, IMAGE_RANK
from hetpart.devices import CHANNEL_BLOCK

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

OTHER_CYCLES: Mapping[int, tuple[float, float]] = {1: (12.0, 3.0), 2: (24.0, 3.8), 3: (35.0, 5.5)}
"""By axes of it, of each window of a ``MaxPool`` of bytes or float64, which have the loops of the one before, and of
each of its elements: 18, 25 and 36 to 41 cycles for 2, 4 and 9 elements of a line, 40, 60 and 119 for 4, 9 and 25 of
an image, and of a volume 75 and 147 for 8 and 27 bytes, 100 and 228 for float64."""
HALF = "float16"
"""What has vectors too."""
NORM_CYCLES, WHOLE_NORM_CYCLES = 50.0, 41.0
"""Of each element of a window of ``LpPool``, and of one of ``GlobalLpPool``: a power by the C library, whatever ``p``
is. 55, 48, 47 and 50 for windows of 4, 9, 25 and 49 elements."""
QUANTIZED_CYCLES: Mapping[int, tuple[float, float]] = {0: (20.0, 1.45), 1: (9.0, 1.15)}
"""Of each window of ``QLinearAveragePool``, whose result is rounded by itself, and of each of its elements, channels
first and last: 27, 33 and 56 cycles for 4, 9 and 25 elements, and 13, 19 and 37."""


def is_blocked(o: Operands) -> bool:
    """Whether the pool ``o`` computes channels in blocks, as calibrations measure it."""
    source, shape = o.input(0), o.shape(0)
    images = source is not None and source.dtype == "float32" and len(shape) == IMAGE_RANK
    return images and shape[CHANNEL] % CHANNEL_BLOCK == 0 and o.output(1) is None


def _cycles(o: Operands) -> float:
    if is_blocked(o):
        return 0.0
    window = o.integers("kernel_shape") or (1,)
    area = prod(window)
    if o.op.op_type == "AveragePool":
        if o.op.version >= DILATED_AVERAGES:
            return o.output_numel() * (ADDED_CYCLES * area + ADDED_ROW_CYCLES * area / max(1, window[-1]))
    elif _is_other(o):
        each, step = OTHER_CYCLES[min(len(window), max(OTHER_CYCLES))]
        return o.output_numel() * (each + step * area)
    elif o.output(1) is not None or any(step > 1 for step in o.integers("dilations")):
        return o.output_numel() * _looked_for(area)
    return o.output_numel() * (LINE_CYCLES + LINE_STEP_CYCLES * area if len(window) == 1 else IMAGE_CYCLES)


def _is_other(o: Operands) -> bool:
    source = o.input(0)
    return source is not None and source.dtype not in ("", "float32", HALF) and o.output(1) is None


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


@spread_cycles("LpPool")
def _norms(o: Operands) -> float:
    return NORM_CYCLES * o.output_numel() * prod(o.integers("kernel_shape"))


@spread_cycles("GlobalLpPool")
def _whole_norms(o: Operands) -> float:
    return WHOLE_NORM_CYCLES * o.numel(0)


@spread_cycles("QLinearAveragePool", domain=CONTRIB)
def _quantized(o: Operands) -> float:
    """One window of all of an image is summed by vectors."""
    window, last = o.integers("kernel_shape"), o.integer("channels_last", 0)
    if window == (o.shape(0)[1:-1] if last else o.shape(0)[2:]):
        return 0.0
    each, step = QUANTIZED_CYCLES[bool(last)]
    return o.output_numel() * (each + step * prod(window))
