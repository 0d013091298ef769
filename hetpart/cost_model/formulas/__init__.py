"""Operator → Work, a file per family. An op without a formula has no Work: never a silent zero."""

from __future__ import annotations

from hetpart.cost_model.formulas import (
    convolution,
    elementwise,
    gathering,
    matmul,
    movement,
    normalization,
)
from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import bytes_read, bytes_scattered, bytes_written, flops, launches, scratch
from hetpart.cost_model.work import Work
from hetpart.graph.ir import Graph, Op

FAMILIES = (convolution, elementwise, gathering, matmul, movement, normalization)


def work_of(op: Op, graph: Graph) -> Work | None:
    """What ``op`` does in one run, from shapes, dtypes and attributes alone; None where no formula is known."""
    key = (op.domain, op.op_type)
    arithmetic = flops.get(key)
    if arithmetic is None:
        return None
    operands = Operands.of(op, graph)
    read, written = bytes_read.get(key), bytes_written.get(key)
    workspace, scattered, started = scratch.get(key), bytes_scattered.get(key), launches.get(key)
    return Work(
        arithmetic(operands),
        operands.input_bytes if read is None else read(operands),
        operands.output_bytes if written is None else written(operands),
        scratch=0 if workspace is None else workspace(operands),
        bytes_scattered=0 if scattered is None else scattered(operands),
        launches=1 if started is None else started(operands),
    )
