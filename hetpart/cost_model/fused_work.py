"""Op × Fusions → what its kernel does: its work without what a fused kernel spares, and the arithmetic it runs at."""

from __future__ import annotations

from dataclasses import replace

from hetpart.cost_model.formulas.integers import integer_cycles
from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.fusion import Fusions
from hetpart.cost_model.kernels import gate_of
from hetpart.cost_model.session.integers import QUANTIZERS
from hetpart.cost_model.work import NO_WORK, Work
from hetpart.devices import Provider
from hetpart.graph.ir import Graph, Op, Value


def fused_work(work: Work, op: Op, graph: Graph, fusions: Fusions, provider: Provider) -> Work:
    """What is left of ``work`` when values inside a fused kernel, and what stays as it is, are not written and read."""
    if op.id in fusions.gone:
        return NO_WORK
    work = changed_work(work, op, graph, fusions, provider)
    if gate_of(provider, op):
        gate = graph.values[op.results[0]].nbytes
        work += Work(0.0, bytes_read=2 * gate, bytes_written=gate)
    if _is_dequantized(op, graph, fusions, provider):
        work = replace(work, spread_cycles=integer_cycles(Operands.of(op, graph)), serial_cycles=0.0)
    inner = 0
    for number in op.uses:
        value = graph.values[number]
        inner += value.nbytes if _is_inner(value, fusions, provider) else 0
    if not inner and provider not in fusions.absorbed[op.id]:
        return work
    if provider in fusions.absorbed[op.id] and op.op_type in QUANTIZERS:
        work = replace(work, serial_cycles=0.0, spread_cycles=0.0)
    written, launches = (0, 0) if provider in fusions.absorbed[op.id] else (work.bytes_written, work.launches)
    return Work(
        work.flops,
        max(0, work.bytes_read - inner),
        written,
        work.bytes_scattered,
        launches,
        work.serial_cycles,
        work.spread_cycles,
    )


def changed_work(work: Work, op: Op, graph: Graph, fusions: Fusions, provider: Provider) -> Work:
    """``work`` without the copy of what stays as it is, where the op updates what is its own."""
    if provider not in fusions.in_place[op.id]:
        return work
    kept = graph.values[op.uses[0]].nbytes
    return replace(work, bytes_read=work.bytes_read - kept, bytes_written=max(0, work.bytes_written - kept))


def _is_inner(value: Value, fusions: Fusions, provider: Provider) -> bool:
    return value.producer is not None and provider in fusions.absorbed[value.producer]


def compute_dtype(op: Op, graph: Graph, fusions: Fusions, provider: Provider) -> str:
    """The dtype whose arithmetic rate the op runs at: that of its first input, or of its output where it has none.

    An op between fused quantization ops runs at the rate of the integers they hold.
    """
    first = next((graph.values[v] for v in (*op.inputs, *op.outputs) if v is not None), None)
    if first is not None and first.producer is not None and _is_dequantized(op, graph, fusions, provider):
        return compute_dtype(graph.ops[first.producer], graph, fusions, provider)
    return "" if first is None else first.dtype


def _is_dequantized(op: Op, graph: Graph, fusions: Fusions, provider: Provider) -> bool:
    """Whether the kernel of ``op`` reads integers where ``op`` reads what they stand for."""
    first = next((graph.values[v] for v in op.inputs if v is not None), None)
    if first is None or first.producer is None or not _is_inner(first, fusions, provider):
        return False
    return graph.ops[first.producer].op_type == "DequantizeLinear"
