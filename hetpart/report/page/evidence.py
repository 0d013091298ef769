"""What a page shows: a plan, and whatever else is known of its model."""

from __future__ import annotations

from dataclasses import dataclass

from hetpart.devices import Machine
from hetpart.plan.curves import Curve
from hetpart.plan.findings import Finding
from hetpart.plan.model import Plan
from hetpart.plan.traces import MeasuredRun


@dataclass(frozen=True, slots=True)
class Evidence:
    """A plan beside what was found, measured and asked of its model. What is ``None`` is not known."""

    plan: Plan
    machine: Machine | None = None
    """The one the plan was priced for, figures and all."""
    findings: tuple[Finding, ...] | None = None
    no_findings: str = ""
    """Why lint was not asked."""
    run: MeasuredRun | None = None
    curve: Curve | None = None
