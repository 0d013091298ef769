"""If, Loop and Scan: the work of their bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hetpart.cost_model.formulas.lookup import unknown_work, work_of
from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import whole
from hetpart.cost_model.work import NO_WORK, Work
from hetpart.graph.ir import Graph

UNKNOWN_TRIPS = 16
"""How often a Loop is taken to run where no shape says how often it does."""
OWN = Work(0.0, 0, 0)
"""What the op costs beside its bodies: to look at a condition or a counter."""


def body_work(body: Graph) -> Work:
    """Work of one run of a body. An op without a formula counts as it does outside."""
    total = NO_WORK
    for op in body.ops:
        known = work_of(op, body)
        total += unknown_work(op, body) if known is None else known
    return total


@whole("If")
def _branch(o: Operands) -> Work:
    """The dearer branch, by the bytes and flops it takes together."""
    return OWN + max(map(body_work, o.op.bodies), key=lambda w: (w.flops + w.bytes_moved, w.launches), default=NO_WORK)


@whole("Loop", "Scan", "SequenceMap")
def _repeated(o: Operands) -> Work:
    once = sum(map(body_work, o.op.bodies), OWN)
    return once.repeated(TRIPS[o.op.op_type](o))


def _loop_trips(o: Operands) -> int:
    """A scan output has one slice for each trip; they stand behind the carried values, which are inputs 2 and on."""
    carried = max(0, len(o.inputs) - 2)
    shapes = [value.shape for value in o.outputs[carried:] if value is not None and value.shape]
    return next((shape[0] for shape in shapes if shape[0] is not None), UNKNOWN_TRIPS)


def _scan_trips(o: Operands) -> int:
    """The length of a scanned input along its scan axis."""
    scanned = max(1, o.integer("num_scan_inputs", 1))
    first = max(0, len(o.inputs) - scanned)
    axis = (o.integers("scan_input_axes") or (0,))[0]
    shape = o.shape(first)
    return shape[axis] if -len(shape) <= axis < len(shape) else UNKNOWN_TRIPS


TRIPS: Mapping[str, Callable[[Operands], int]] = {
    "Loop": _loop_trips,
    "Scan": _scan_trips,
    "SequenceMap": lambda _: UNKNOWN_TRIPS,
}
