"""If, Loop and Scan: the work of their bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import reduce

from hetpart.cost_model.formulas.lookup import unknown_work, work_of
from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import whole
from hetpart.cost_model.work import NO_WORK, Work
from hetpart.graph.ir import AS_USUAL, Graph, Op
from hetpart.graph.trips import UNKNOWN_TRIPS

OWN = Work(0.0, 0, 0)
"""What the op costs beside its bodies: to look at a condition or a counter."""


def expected_work(op: Op, work: Work) -> Work:
    """``work`` of ``op`` in an average run, as the user's access profile has it; its kernels start in every run."""
    usage = op.usage
    if usage is AS_USUAL:
        return work
    limit = work.bytes_read if usage.most_bytes_read is None else usage.most_bytes_read
    spared = max(0, work.bytes_read - limit)
    return replace(
        work,
        flops=work.flops * usage.probability,
        bytes_read=round((work.bytes_read - spared) * usage.probability),
        bytes_written=round(work.bytes_written * usage.probability),
        bytes_scattered=round(max(0, work.bytes_scattered - spared) * usage.probability),
        serial_cycles=work.serial_cycles * usage.probability,
        spread_cycles=work.spread_cycles * usage.probability,
    )


def body_work(body: Graph) -> Work:
    """Work of one run of a body. An op without a formula counts as it does outside."""
    total = NO_WORK
    for op in body.ops:
        known = work_of(op, body)
        total += expected_work(op, unknown_work(op, body) if known is None else known)
    return total


@whole("If")
def _branch(o: Operands) -> Work:
    """The dearer branch, whichever that is: a device may take longer for one's bytes than for the other's flops."""
    return OWN + reduce(Work.dearer, map(body_work, o.op.bodies), NO_WORK)


@whole("Loop", "Scan", "SequenceMap")
def _repeated(o: Operands) -> Work:
    once = sum(map(body_work, o.op.bodies), OWN)
    trips = trips_of(o)
    return once.repeated(UNKNOWN_TRIPS if trips is None else trips)


def trips_of(o: Operands) -> int | None:
    """How often the body runs, by the user, by a shape or by a constant of the model; None where none says."""
    told = o.op.usage.trip_count
    return LOOPS[o.op.op_type](o) if told is None else told


def loops_guessed(op: Op, graph: Graph) -> Iterator[Op]:
    """``op`` and the loops in its bodies that are priced at ``UNKNOWN_TRIPS``."""
    if is_loop(op) and trips_of(Operands.of(op, graph)) is None:
        yield op
    for body in op.bodies:
        for inner in body.ops:
            if inner.bodies:
                yield from loops_guessed(inner, body)


def loops_limited(op: Op, graph: Graph) -> Iterator[Op]:
    """``op`` and the loops in its bodies that are priced at their limit, though a condition may end them before."""
    limit = op.trip_limit if op.usage.trip_count is None else None
    if limit is not None and not limit.always and _slices(Operands.of(op, graph)) is None:
        yield op
    for body in op.bodies:
        for inner in body.ops:
            if inner.bodies:
                yield from loops_limited(inner, body)


def is_loop(op: Op) -> bool:
    """Whether the op runs its body as often as a trip count says."""
    return not op.domain and op.op_type in LOOPS


def _loop_trips(o: Operands) -> int | None:
    """As many as a scan output has slices; else as the model limits it to, also where a condition may end it before."""
    limit, slices = o.op.trip_limit, _slices(o)
    return limit.count if slices is None and limit is not None else slices


def _slices(o: Operands) -> int | None:
    """A scan output has one for each trip; they stand behind the carried values, which are inputs 2 and on."""
    carried = max(0, len(o.inputs) - 2)
    shapes = [value.shape for value in o.outputs[carried:] if value is not None and value.shape]
    return next((shape[0] for shape in shapes if shape[0] is not None), None)


BATCHED_BEFORE = 9
"""Opset before which a Scan ran for each sequence of a batch: its inputs are [batch, length, …], and name no axes."""


def _scan_trips(o: Operands) -> int | None:
    """The length of a scanned input along its scan axis, once for each sequence where there is a batch of them."""
    shape = _scanned_shape(o)
    axis = 1 if o.op.version < BATCHED_BEFORE else (o.integers("scan_input_axes") or (0,))[0]
    length = shape[axis] if -len(shape) <= axis < len(shape) else None
    sequences = sequences_of(o)
    return None if length is None or sequences is None else length * sequences


def sequences_of(o: Operands) -> int | None:
    """How many sequences a Scan goes through one after the other, each from its own states; None where not known."""
    return (*_scanned_shape(o), None)[0] if o.op.version < BATCHED_BEFORE else 1


def _scanned_shape(o: Operands) -> tuple[int | None, ...]:
    """Of the first input that is scanned."""
    value = o.input(max(0, len(o.inputs) - max(1, o.integer("num_scan_inputs", 1))))
    return (value.shape if value is not None else None) or ()


LOOPS: Mapping[str, Callable[[Operands], int | None]] = {
    "Loop": _loop_trips,
    "Scan": _scan_trips,
    "SequenceMap": lambda _: None,
}
"""Ops that repeat their bodies, and what their shapes say of how often."""
