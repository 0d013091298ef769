"""The report on a plan as people read it."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType

from hetpart.plan.model import Plan
from hetpart.report import sections, verdict
from hetpart.report.layout import plain, print_parts
from hetpart.report.overlap_text import overlap
from hetpart.report.training_text import training

_SECTIONS = (
    verdict.opening,
    sections.latency,
    overlap,
    sections.memory,
    training,
    sections.partitions,
    sections.copies,
    sections.largest_ops,
    verdict.baselines,
    verdict.certificate,
    verdict.notes,
)


def plan_parts(plan: Plan) -> Iterator[RenderableType]:
    """Everything a plan predicts, section by section."""
    for section in _SECTIONS:
        yield from section(plan)


def print_report(plan: Plan, console: Console) -> None:
    """Print the report as wide as ``console`` is."""
    print_parts(plan_parts(plan), console)


def render(plan: Plan, *, width: int | None = None) -> str:
    """The report as plain text, ``width`` columns wide."""
    return plain(plan_parts(plan), width)
