"""Findings that a project lives with: a file of them, so that only new ones fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from hetpart.errors import InvalidOptionError
from hetpart.files import write_whole
from hetpart.plan.findings import Finding

SCHEMA, VERSION = "hetpart.linter.baseline", 1
Key = tuple[str, str, str]


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    rule: str
    anchor: str
    count: int


class _Baseline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    accepted: tuple[_Row, ...]
    schema: str = SCHEMA
    version: int = VERSION


def read_accepted(path: Path) -> Counter[Key]:
    """How many findings of every key are accepted.

    Raises:
        InvalidOptionError: the file is not there, or no baseline of this version.
    """
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Baseline)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    except msgspec.DecodeError as error:
        raise _unreadable(path, str(error)) from error
    if (found.schema, found.version) != (SCHEMA, VERSION):
        raise _unreadable(path, f"it is a {found.schema!r} of version {found.version}")
    return Counter({(row.path, row.rule, row.anchor): row.count for row in found.accepted})


def _unreadable(path: Path, why: str) -> InvalidOptionError:
    return InvalidOptionError(f"the baseline {path} cannot be read: {why}", hint="make one with --write-baseline")


def write_accepted(path: Path, findings: Iterable[Finding]) -> None:
    """Write all of ``findings`` as accepted."""
    counts = Counter(found.key for found in findings)
    rows = tuple(_Row(*key, count) for key, count in sorted(counts.items()))
    write_whole(path, msgspec.json.format(msgspec.json.encode(_Baseline(rows)), indent=2) + b"\n")


def new_findings(findings: Sequence[Finding], accepted: Counter[Key]) -> list[Finding]:
    """Those of ``findings`` beyond the number accepted of their key."""
    left = Counter(accepted)
    fresh: list[Finding] = []
    for found in findings:
        if left[found.key] > 0:
            left[found.key] -= 1
        else:
            fresh.append(found)
    return fresh
