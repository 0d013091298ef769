"""The report on a plan as people read it."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from hetpart.plan.model import Plan
from hetpart.report import sections, verdict

DEFAULT_WIDTH = 100

_SECTIONS = (
    verdict.opening,
    sections.latency,
    sections.memory,
    sections.partitions,
    sections.copies,
    sections.largest_ops,
    verdict.baselines,
    verdict.certificate,
    verdict.notes,
)


def print_report(plan: Plan, console: Console) -> None:
    """Print everything a plan predicts, as wide as ``console`` is."""
    for section in _SECTIONS:
        for part in section(plan):
            console.print(part, highlight=False)


def render(plan: Plan, *, width: int | None = None) -> str:
    """The report as plain text, ``width`` columns wide."""
    file = StringIO()
    print_report(plan, Console(file=file, width=width or DEFAULT_WIDTH, color_system=None, legacy_windows=False))
    return "".join(f"{text.rstrip()}\n" for text in file.getvalue().splitlines())
