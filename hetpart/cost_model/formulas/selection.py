"""Ops that choose elements by what they are: the largest ones, and those that a condition says.

Cycles were measured on an EPYC 9004 taken to run at 3.5 GHz, ONNX Runtime 1.31, of 2^16 to 2^22 numbers by chance:
branches that the processor does not foresee take most of them.
"""

from __future__ import annotations

from math import log, log2, prod

from hetpart.cost_model.formulas.along_axes import far_apart
from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import serial_cycles, spread_cycles

LOOKED_AT, SORTED_IN, FAR = 1.6, 25.0, 17.0
"""Of ``TopK``: each element that is compared; each that a heap takes in, for each of its levels; each element that lies
a page or more from its neighbours. Within two times for 2 to 256 of 64 to 4,096."""
FORESEEN, REMEMBERED = 4096, 3.4
"""Elements that heaps take in, up to which a processor remembers what it did in the last run, and cycles of each
element then at most."""
LEAST_SHARED = 2**17
"""Elements times how many are kept, for each thread: ``FindTopKElements`` of ONNX Runtime's ``top_k.cc``."""
KEPT_OR_NOT, LONE = 6.0, 17.0
"""Of each place that ``Compress`` keeps or leaves out, as a whole: 5 to 7; and of each element where it has no axis."""


def taken_in(o: Operands) -> float:
    """How often an element is among the largest so far: of k at first all, then of every n one in n / k."""
    long, few = width(o), kept(o)
    return o.numel(0) / long * few * (1 + log(long / few))


def width(o: Operands) -> int:
    """Elements of a row."""
    shape = o.shape(0)
    return max(1, shape[o.integer("axis", -1) % len(shape)]) if shape else 1


def kept(o: Operands) -> int:
    """How many of them are kept."""
    made = o.output_shape()
    return max(1, min(width(o), made[o.integer("axis", -1) % len(made)])) if made else 1


def _largest(o: Operands) -> float:
    looked_at = o.numel(0) * (LOOKED_AT + FAR * far_apart(o, -1))
    cycles = looked_at + SORTED_IN * log2(2 * kept(o)) * (taken_in(o) if kept(o) > 1 else 0.0)
    return cycles if taken_in(o) > FORESEEN else min(cycles, REMEMBERED * o.numel(0))


def _is_shared(o: Operands) -> bool:
    """Threads take rows, which are all that lies before the axis."""
    shape = o.shape(0)
    rows = prod(shape[: o.integer("axis", -1) % len(shape)]) if shape else 1
    return rows > 1 and o.numel(0) * kept(o) >= 2 * LEAST_SHARED


@serial_cycles("TopK")
def _alone(o: Operands) -> float:
    return 0.0 if _is_shared(o) else _largest(o)


@spread_cycles("TopK")
def _together(o: Operands) -> float:
    return _largest(o) if _is_shared(o) else 0.0


@serial_cycles("Compress")
def _compressed(o: Operands) -> float:
    """Without an axis, of all elements one by one."""
    shape = o.shape(0)
    if "axis" not in o.op.attributes or not shape:
        return LONE * o.numel(0)
    return KEPT_OR_NOT * o.numel(0) / max(1, prod(shape[o.integer("axis", 0) % len(shape) + 1 :]))
