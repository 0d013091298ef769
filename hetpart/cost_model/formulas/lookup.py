"""An op's work, from whichever tables speak of it."""

from __future__ import annotations

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import (
    bytes_read,
    bytes_scattered,
    bytes_written,
    flops,
    launches,
    serial_cycles,
    spread_cycles,
    whole,
)
from hetpart.cost_model.work import Work
from hetpart.graph.ir import Graph, Op

UNKNOWN_FLOPS_PER_ELEMENT = 10.0
"""Arithmetic charged to an op without a formula, per element it reads or writes."""


def work_of(op: Op, graph: Graph) -> Work | None:
    """What ``op`` does in one run, from shapes, dtypes and attributes alone; None where no formula is known."""
    key = (op.domain, op.op_type)
    entire, arithmetic = whole.get(key), flops.get(key)
    if entire is not None:
        return entire(Operands.of(op, graph))
    if arithmetic is None:
        return None
    operands = Operands.of(op, graph)
    return Work(
        arithmetic(operands),
        bytes_read.answer(key, operands, operands.input_bytes),
        bytes_written.answer(key, operands, operands.output_bytes),
        bytes_scattered=bytes_scattered.answer(key, operands, 0),
        launches=launches.answer(key, operands, 1),
        serial_cycles=serial_cycles.answer(key, operands, 0.0),
        spread_cycles=spread_cycles.answer(key, operands, 0.0),
    )


def unknown_work(op: Op, graph: Graph) -> Work:
    """A conservative guess for an op without a formula: all inputs read, all outputs written, some flops an element."""
    operands = Operands.of(op, graph)
    elements = sum(graph.values[v].numel for v in (*op.uses, *op.results))
    return Work(UNKNOWN_FLOPS_PER_ELEMENT * elements, operands.input_bytes, operands.output_bytes)
