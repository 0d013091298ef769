"""Findings as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from hetpart.plan.findings import Finding
from hetpart.report.escape import json_text

SCHEMA = "hetpart.lint"


def as_json(findings: Sequence[Finding]) -> str:
    """One JSON object, in ASCII, so that no terminal obeys a name in it."""
    content = {"schema": SCHEMA, "version": 1, "findings": [_row(found) for found in findings]}
    return json_text(content) + "\n"


def _row(found: Finding) -> dict[str, object]:
    """All but what `hetpart rule` says as well."""
    return {name: value for name, value in asdict(found).items() if name != "explanation"}
