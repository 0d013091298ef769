"""Graphs in Graphviz's DOT language: of the partitions, which is small, and of all ops."""

from __future__ import annotations

from collections import Counter, defaultdict

from hetpart.plan.edges import PartitionEdge, partition_edges
from hetpart.plan.model import Decision, Partition, Plan
from hetpart.report.escape import printable
from hetpart.report.exports.exported import Exported, decisions_by_op, own_seconds
from hetpart.units import format_bytes, format_count, format_seconds

_HEAD = (
    '  graph [rankdir=TB, fontname="Helvetica", labelloc=t]',
    '  node [shape=box, style="filled,rounded", fontname="Helvetica", fontsize=10]',
    '  edge [fontname="Helvetica", fontsize=9]',
)
_COPY_STYLE = 'color="#d55e00", penwidth=2, style=dashed'
_TYPES_SHOWN = 3


def partition_dot(exported: Exported) -> str:
    """A box for every partition, an arrow for what flows from one to another; copies between devices are dashed."""
    plan = exported.plan
    types: dict[int, Counter[str]] = defaultdict(Counter)
    for decision in plan.decisions:
        types[decision.partition][decision.op_type] += 1
    lines = _opened(plan)
    lines += (f"  {_box(exported, number, part, types[part.id])}" for number, part in enumerate(plan.partitions))
    grouped: dict[tuple[int, int], list[PartitionEdge]] = defaultdict(list)
    for edge in partition_edges(plan):
        grouped[edge.source, edge.target].append(edge)
    lines += (f"  p{source} -> p{target} [{_flow(plan, edges)}]" for (source, target), edges in sorted(grouped.items()))
    return "\n".join([*lines, "}"]) + "\n"


def op_dot(exported: Exported) -> str:
    """A box for every op, in a frame for its partition; what is copied between devices is dashed."""
    plan, graph, decisions = exported.plan, exported.ops, decisions_by_op(exported.plan)
    numbers = {op: number for number, op in enumerate(graph.ops)}
    lines = _opened(plan)
    for number, part in enumerate(plan.partitions):
        lines += (f"  subgraph cluster_{number} {{", f"    label={quoted(_title(part))}")
        lines += (f"    {_op_box(exported, numbers[op], decisions[op])}" for op in part.ops if op in numbers)
        lines.append("  }")
    for edge in graph.edges:
        ends = decisions.get(edge.source), decisions.get(edge.target)
        if ends[0] is not None and ends[1] is not None:
            style = f" [{_COPY_STYLE}]" if ends[0].device != ends[1].device else ""
            lines.append(f"  n{numbers[edge.source]} -> n{numbers[edge.target]}{style}")
    return "\n".join([*lines, "}"]) + "\n"


def _opened(plan: Plan) -> list[str]:
    title = f"{plan.model.name} on {plan.machine.name}, {format_seconds(plan.prediction.seconds)} predicted"
    return [f"digraph {quoted(plan.model.name)} {{", *_HEAD, f"  label={quoted(title)}"]


def _box(exported: Exported, number: int, part: Partition, types: Counter[str]) -> str:
    shown = (f"{op_type} ×{times}" if times > 1 else op_type for op_type, times in types.most_common(_TYPES_SHOWN))
    label = quoted(
        _title(part),
        f"{format_count(len(part.ops), 'op')}, {format_seconds(part.seconds)}",
        ", ".join(shown),
        f"{format_bytes(part.weight_bytes)} of weights",
    )
    return f'p{number} [label={label}, fillcolor="{exported.fill(part.device)}"]'


def _title(part: Partition) -> str:
    return f"#{part.id} on {part.device}"


def _flow(plan: Plan, edges: list[PartitionEdge]) -> str:
    copied = [plan.transfers[edge.copy] for edge in edges if edge.copy is not None]
    nbytes = format_bytes(sum(edge.nbytes for edge in edges))
    values = edges[0].value if len(edges) == 1 else format_count(len(edges), "value")
    seconds = f", {format_seconds(sum(copy.seconds for copy in copied))}" if copied else ""
    style = f", {_COPY_STYLE}" if copied else ""
    return f"label={quoted(values, f'{nbytes}{seconds}')}{style}"


def _op_box(exported: Exported, number: int, decision: Decision) -> str:
    label = quoted(decision.op_type, decision.op, format_seconds(own_seconds(decision)))
    return f'n{number} [label={label}, fillcolor="{exported.fill(decision.device)}"]'


def quoted(*lines: str) -> str:
    """``lines``, one under another, as a string of DOT: nothing in them ends it or is an escape of its own."""
    return '"' + "\\n".join(_escaped(line) for line in lines) + '"'


def _escaped(line: str) -> str:
    return printable(line).replace("\\", "\\\\").replace('"', '\\"')
