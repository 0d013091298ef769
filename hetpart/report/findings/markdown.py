"""Findings as a Markdown table, for a step's summary or a comment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hetpart.plan.findings import Finding
from hetpart.report.escape import markdown_text
from hetpart.report.findings.text import summary
from hetpart.units import format_count

MOST_BYTES = 500_000
"""Of the table: GitHub takes 1 MiB of all of a step's summary, and shows nothing of a longer one."""


def as_markdown(findings: Sequence[Finding]) -> str:
    """A table, the worst first. Nothing in a name is markup, nor calls anybody."""
    if not findings:
        return "hetpart: no findings.\n"
    head = ["| severity | rule | model | finding | what to do |", "|---|---|---|---|---|"]
    rows = _most([_row(found) for found in findings])
    left = len(findings) - len(rows)
    rest = ["", f"{format_count(left, 'finding')} more."] if left else []
    return "\n".join((f"hetpart: {summary(findings)}", "", *head, *rows, *rest, ""))


def _most(rows: Iterable[str]) -> list[str]:
    """The first of ``rows``, as many as there is room for."""
    kept: list[str] = []
    left = MOST_BYTES
    for row in rows:
        left -= len(row.encode()) + 1
        if left < 0:
            break
        kept.append(row)
    return kept


def _row(found: Finding) -> str:
    cells = (found.path, found.message, found.hint)
    return f"| {found.severity} | {found.code} {found.rule} | " + " | ".join(map(markdown_text, cells)) + " |"
