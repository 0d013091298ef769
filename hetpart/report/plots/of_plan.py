"""The plots that a plan alone is enough for."""

from __future__ import annotations

from pathlib import Path

from hetpart.errors import InvalidOptionError
from hetpart.plan.model import Plan

PLAN_PLOTS = ("timeline", "memory")


def plot_plan(plan: Plan, kind: str, path: Path) -> None:
    """Draw the ``timeline`` or the ``memory`` of ``plan`` into an SVG or a PNG, by the name of ``path``.

    Raises:
        InvalidOptionError: there is no such plot, or the name does not end as a format that is known.
        HetpartError: matplotlib is not installed.
        OSError: it cannot be written.
    """
    from hetpart.report.plots.memory import plot_memory
    from hetpart.report.plots.timeline import plot_timeline

    if kind not in PLAN_PLOTS:
        raise InvalidOptionError(f"a plan has no plot {kind!r}", hint=f"it has {' and '.join(PLAN_PLOTS)}")
    (plot_timeline if kind == "timeline" else plot_memory)(plan, path)
