"""Findings as SARIF 2.1.0, as GitHub's code scanning reads it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from urllib.parse import quote

from hetpart import __version__
from hetpart.plan.findings import Finding, Severity
from hetpart.report.escape import json_text, printable
from hetpart.report.findings.place import from_here

Tree = dict[str, object]
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_MOST_LETTERS = 900
"""Of a rule's summary: code scanning takes 1024 of a description."""
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
    results = [_result(found, mark) for found, mark in zip(findings, _fingerprints(findings), strict=True)]
    run: Tree = {"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}
    return json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}) + "\n"


def _rule(found: Finding) -> Tree:
    text = f"{found.rule.replace('-', ' ')}".capitalize() + "."
    told = f"`hetpart rule {found.code}` explains it."
    summary = found.explanation.partition("\n")[0] or text
    return {
        "id": found.code,
        "name": "".join(word.capitalize() for word in found.rule.split("-")),
        "shortDescription": {"text": text},
        "fullDescription": {"text": f"{summary[:_MOST_LETTERS]} {told}"},
        "help": {"text": found.explanation or told, "markdown": found.explanation or told},
        "defaultConfiguration": {"level": _LEVELS[found.severity]},
    }


def _result(found: Finding, fingerprint: str) -> Tree:
    return {
        "ruleId": found.code,
        "level": _LEVELS[found.severity],
        "message": {"text": printable(f"{found.message}. {found.hint}")},
        "locations": [_location(found)],
        "partialFingerprints": {"primaryLocationLineHash": fingerprint},
    }


def _location(found: Finding) -> Tree:
    """The line of Python that the op comes from where it is known; a model has no lines but its first."""
    file, line = (from_here(found.path), 1) if found.source is None else (found.source.file, found.source.line)
    region = {"startLine": line, "startColumn": 1, "endLine": line, "endColumn": 2}
    names = [name for name in (found.op, found.anchor) if name]
    logical = [{"fullyQualifiedName": printable(name)} for name in dict.fromkeys(names)]
    place: Tree = {"physicalLocation": {"artifactLocation": {"uri": quote(file, errors="replace")}, "region": region}}
    return place | ({"logicalLocations": logical} if logical else {})


def _fingerprints(findings: Iterable[Finding]) -> Iterator[str]:
    """A hash of what a finding speaks of, and which of several that speak of the same it is: two are never one."""
    seen: Counter[str] = Counter()
    for found in findings:
        spoken_of = "\0".join((from_here(found.path), *found.key[1:])).encode(errors="surrogatepass")
        digest = hashlib.sha256(spoken_of).hexdigest()
        seen[digest] += 1
        yield f"{digest}:{seen[digest]}"
