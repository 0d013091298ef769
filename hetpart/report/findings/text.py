"""Findings as lines for a terminal, as other linters print them."""

from __future__ import annotations

from collections.abc import Sequence

from hetpart.plan.findings import Finding, Severity
from hetpart.report.escape import printable
from hetpart.units import format_count


def as_text(findings: Sequence[Finding]) -> str:
    """A line for each finding, what to do under the last of a rule, and how many there are."""
    if not findings:
        return "No findings.\n"
    lines: list[str] = []
    for place, found in enumerate(findings):
        lines.append(f"{printable(found.path)}: {found.severity} {found.code} {found.rule}: {printable(found.message)}")
        if found.source is not None:
            lines.append(f"    at: {printable(found.source.file)}:{found.source.line}")
        following = findings[place + 1] if place + 1 < len(findings) else None
        if following is None or (following.code, following.hint) != (found.code, found.hint):
            lines.append(f"    hint: {printable(found.hint)}")
    return "\n".join((*lines, "", summary(findings), ""))


def summary(findings: Sequence[Finding]) -> str:
    """How many findings there are, by severity, as in ``2 errors, 1 note``, with a full stop."""
    counts = [(severity, sum(found.severity is severity for found in findings)) for severity in Severity]
    return ", ".join(format_count(number, severity) for severity, number in counts if number) + "."
