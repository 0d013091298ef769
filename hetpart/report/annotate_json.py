"""What ``hetpart annotate --json`` and ``--csv`` say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hetpart.cost_model.annotate import Costs
from hetpart.cost_model.breakdown import Row, total_of
from hetpart.report.csv_text import csv_text
from hetpart.report.json import to_json


def costs_content(costs: Costs, rows: Sequence[Row]) -> dict[str, Any]:
    """The machine, the total and every row."""
    machine = costs.machine
    return {
        "graph": costs.graph.name,
        "dimensions": dict(costs.graph.dimensions),
        "machine": {
            "name": machine.name,
            "origin": machine.origin,
            "devices": [{"name": device.name, "model": device.model} for device in machine.devices],
        },
        "notes": list(costs.notes),
        "total": to_json(total_of(costs)),
        "rows": [to_json(row) for row in rows],
    }


def rows_csv(rows: Sequence[Row]) -> str:
    """A line for every row, under one of headers. Names are made safe for terminals and spreadsheets."""
    return csv_text(row.flat() for row in rows)
