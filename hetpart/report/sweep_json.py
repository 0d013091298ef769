"""What ``hetpart sweep --json`` says."""

from __future__ import annotations

from typing import Any

from hetpart.plan.curves import Sweep
from hetpart.report.json import to_json


def sweep_content(sweep: Sweep) -> dict[str, Any]:
    """Every curve, and which machine meets the target with the smallest budget."""
    smallest = sweep.smallest
    found = None
    if smallest is not None and smallest.target is not None:
        found = {"hardware": smallest.hardware, "budget_bytes": smallest.target.budget_bytes}
    return {**to_json(sweep), "smallest": found}
