"""Partitions and copies as tables."""

from __future__ import annotations

from heapq import nsmallest

from hetpart.plan.model import Plan, Transfer
from hetpart.report.escape import printable
from hetpart.report.page.parts import Cell, Grid, device_cell
from hetpart.report.sentences import mostly, when
from hetpart.units import format_bytes, format_seconds

MOST_ROWS = 200


def partition_rows(plan: Plan) -> Grid:
    """The first partitions, in running order."""
    by_op = {decision.op: decision for decision in plan.decisions}
    rows = [
        (
            str(partition.id),
            device_cell(plan, partition.device),
            f"{len(partition.ops):,}",
            format_seconds(partition.seconds),
            format_bytes(partition.weight_bytes),
            format_bytes(partition.peak_bytes),
            printable(mostly(partition, by_op)),
        )
        for partition in plan.partitions[:MOST_ROWS]
    ]
    return Grid.of("Partitions", (">#", "device", ">ops", ">predicted", ">weights", ">live", "mostly"), rows)


def copy_rows(plan: Plan) -> Grid:
    """The largest copies."""
    rows = [
        (
            format_bytes(copy.nbytes),
            f"{copy.seconds * 1e3:,.3f}",
            f"{printable(copy.source)} → {printable(copy.target)}",
            when(copy, plan),
            Cell(printable(copy.value), "name"),
        )
        for copy in nsmallest(MOST_ROWS, plan.transfers, key=_by_size)
    ]
    return Grid.of("Copies, the largest first", (">bytes", ">ms", "from → to", "when", "value"), rows)


def _by_size(copy: Transfer) -> tuple[int, int, str, str]:
    return -copy.nbytes, copy.step, copy.value, copy.target
