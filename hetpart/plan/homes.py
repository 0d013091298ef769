"""Where a plan hands over its inputs and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hetpart.plan.model import Plan


def home(plan: Plan, name: str) -> str:
    """The device on which the graph input or output ``name`` is handed over."""
    return plan.homes.get(name, plan.devices[0].device)
