"""Every format that a plan is exported in, by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from hetpart.plan.io import write_plan
from hetpart.report.csv_text import csv_text
from hetpart.report.exports.exported import Exported
from hetpart.report.exports.graphviz import op_dot, partition_dot
from hetpart.report.exports.model_explorer import node_data
from hetpart.report.exports.netron import attachment
from hetpart.report.exports.perfetto import trace
from hetpart.report.op_rows import op_rows


def ops_csv(exported: Exported) -> str:
    """A line for every op."""
    return csv_text(op_rows(exported.plan))


def plan_json(exported: Exported) -> str:
    """The plan itself, which obeys ``docs/plan.schema.json``."""
    return write_plan(exported.plan).decode()


FILES: Mapping[str, Callable[[Exported], str]] = MappingProxyType(
    {
        "csv": ops_csv,
        "graphviz": partition_dot,
        "graphviz-ops": op_dot,
        "json": plan_json,
        "netron": attachment,
        "perfetto": trace,
    }
)
"""Formats of one file."""
FOLDERS: Mapping[str, Callable[[Exported], Mapping[str, str]]] = MappingProxyType({"model-explorer": node_data})
"""Formats of several files, by their names."""
