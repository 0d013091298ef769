"""Findings as GitHub's workflow commands, which annotate a pull request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from hetpart.plan.findings import Finding, Severity
from hetpart.report.findings.place import from_here

_LEVELS: Mapping[Severity, str] = MappingProxyType(
    {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
)
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = _DATA | {":": "%3A", ",": "%2C"}
"""What a name must not contain, lest it end the command or begin another (GitHub's ``toCommandProperties``)."""


def as_github(findings: Sequence[Finding]) -> str:
    """A workflow command for every finding, at the line of Python that its op comes from where that is known."""
    return "".join(map(_command, findings))


def _command(found: Finding) -> str:
    place = {"title": f"hetpart {found.code} {found.rule}", "file": from_here(found.path)}
    if found.source is not None:
        place |= {"file": found.source.file, "line": str(found.source.line)}
    properties = ",".join(f"{key}={_escaped(value, _PROPERTY)}" for key, value in place.items())
    text = _escaped(f"{found.path}: {found.message}. {found.hint}", _DATA)
    return f"::{_LEVELS[found.severity]} {properties}::{text}\n"


def _escaped(text: str, table: Mapping[str, str]) -> str:
    """``text`` with what the runner reads as its own in percent codes, and other control characters spelt out."""
    return "".join(table.get(c, c if c.isprintable() else c.encode("unicode_escape").decode()) for c in text)
