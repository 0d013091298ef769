"""How often every rule fired, the most frequent first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hetpart.plan.findings import Finding
from hetpart.report.escape import json_text

SCHEMA = "hetpart.lint.statistics"


def statistics_text(findings: Sequence[Finding]) -> str:
    """A line for every rule."""
    return "".join(f"{number:7,}  {code}  {name}\n" for code, name, number in _rows(findings))


def statistics_json(findings: Sequence[Finding]) -> str:
    """One JSON object."""
    rules = [{"code": code, "rule": name, "findings": number} for code, name, number in _rows(findings)]
    return json_text({"schema": SCHEMA, "version": 1, "rules": rules}) + "\n"


def _rows(findings: Sequence[Finding]) -> list[tuple[str, str, int]]:
    counts = Counter((found.code, found.rule) for found in findings)
    return [(*rule, number) for rule, number in sorted(counts.items(), key=lambda row: (-row[1], row[0]))]
