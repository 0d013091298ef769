"""Findings as a Markdown table, for a step's summary or a comment."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hetpart.plan.findings import Finding
from hetpart.report.escape import printable
from hetpart.report.findings.text import summary

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~$@:&-])")


def as_markdown(findings: Sequence[Finding]) -> str:
    """A table, the worst first. Nothing in a name is markup."""
    if not findings:
        return "hetpart: no findings.\n"
    rows = [
        f"| {found.severity} | {found.code} {found.rule} | " + " | ".join(map(_text, _cells(found))) + " |"
        for found in findings
    ]
    head = ["| severity | rule | model | finding | what to do |", "|---|---|---|---|---|"]
    return "\n".join((f"hetpart: {summary(findings)}", "", *head, *rows, ""))


def _cells(found: Finding) -> tuple[str, ...]:
    return (found.path, found.message, found.hint)


def _text(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", printable(text))
