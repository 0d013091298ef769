"""Findings as SARIF 2.1.0, as GitHub's code scanning reads it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote

from hetpart import __version__
from hetpart.plan.findings import Finding, Severity
from hetpart.report.escape import printable

Tree = dict[str, object]
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Mapping[Severity, str] = MappingProxyType(
    {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
)


def as_sarif(findings: Sequence[Finding]) -> str:
    """One run of hetpart. Fingerprints are of model, rule and anchor: they survive a re-export."""
    rules = {found.code: found for found in findings}
    driver = {
        "name": "hetpart",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(rules[code]) for code in sorted(rules)],
    }
    results = [_result(found) for found in findings]
    run: Tree = {"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(found: Finding) -> Tree:
    text = f"{found.rule.replace('-', ' ')}".capitalize() + "."
    return {
        "id": found.code,
        "name": "".join(word.capitalize() for word in found.rule.split("-")),
        "shortDescription": {"text": text},
        "fullDescription": {"text": f"{text} `hetpart rule {found.code}` explains it."},
        "help": {"text": f"{found.hint}. `hetpart rule {found.code}` explains the rule."},
        "defaultConfiguration": {"level": _LEVELS[found.severity]},
    }


def _result(found: Finding) -> Tree:
    return {
        "ruleId": found.code,
        "level": _LEVELS[found.severity],
        "message": {"text": printable(f"{found.message}. {found.hint}")},
        "locations": [_location(found)],
        "partialFingerprints": {"primaryLocationLineHash": _fingerprint(found)},
    }


def _location(found: Finding) -> Tree:
    """The line of Python that the op comes from where it is known; a model has no lines but its first."""
    file, line = (found.path, 1) if found.source is None else (found.source.file, found.source.line)
    region = {"startLine": line, "startColumn": 1, "endLine": line, "endColumn": 2}
    names = [name for name in (found.op, found.anchor) if name]
    logical = [{"fullyQualifiedName": printable(name)} for name in dict.fromkeys(names)]
    place: Tree = {"physicalLocation": {"artifactLocation": {"uri": _uri(file)}, "region": region}}
    return place | ({"logicalLocations": logical} if logical else {})


def _uri(file: str) -> str:
    """Relative to where hetpart runs, which is a repository's root in CI."""
    path = Path(file)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return quote(path.as_posix())


def _fingerprint(found: Finding) -> str:
    return hashlib.sha256("\0".join((*found.key, found.message if not found.anchor else "")).encode()).hexdigest()
