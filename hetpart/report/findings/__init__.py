"""Findings of lint in the formats that people and CI systems read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from hetpart.plan.findings import Finding
from hetpart.report.findings.github import as_github
from hetpart.report.findings.junit import as_junit
from hetpart.report.findings.markdown import as_markdown
from hetpart.report.findings.plain_json import as_json
from hetpart.report.findings.sarif import as_sarif
from hetpart.report.findings.statistics import statistics_json, statistics_text
from hetpart.report.findings.text import as_text

Format = Callable[[Sequence[Finding]], str]
FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "text": as_text, "json": as_json, "github": as_github, "sarif": as_sarif, "markdown": as_markdown,
        "junit": as_junit,
    }
)  # fmt: skip
"""Each makes the whole text, a line end at its end."""
STATISTICS: Mapping[str, Format] = MappingProxyType({"text": statistics_text, "json": statistics_json})
"""The same of how often every rule fired."""
