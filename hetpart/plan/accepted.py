"""Findings that a project lives with: a file of them, so that only new ones fail."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from hetpart.errors import InvalidOptionError
from hetpart.files import write_whole
from hetpart.plan.findings import Finding, numberless

SCHEMA, VERSION = "hetpart.linter.baseline", 1


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, order=True):
    path: str
    """Of the model, from the folder that the baseline lies in."""
    rule: str
    anchor: str
    count: int = 1


class _Baseline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    accepted: tuple[_Row, ...]
    schema: str = SCHEMA
    version: int = VERSION


def new_findings(findings: Sequence[Finding], path: Path) -> list[Finding]:
    """Those of ``findings`` beyond the number that the baseline ``path`` accepts of their key.

    Raises:
        InvalidOptionError: the file is not there, or no baseline of this version.
    """
    left: dict[_Row, int] = {}
    for row in _read(path).accepted:
        key = _Row(row.path, row.rule, numberless(row.anchor))
        left[key] = left.get(key, 0) + row.count
    fresh: list[Finding] = []
    for found in findings:
        key = _key(found, path)
        left[key] = left.get(key, 0) - 1
        if left[key] < 0:
            fresh.append(found)
    return fresh


def _read(path: Path) -> _Baseline:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Baseline)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    except msgspec.DecodeError as error:
        raise _unreadable(path, str(error)) from error
    if (found.schema, found.version) != (SCHEMA, VERSION):
        raise _unreadable(path, f"it is a {found.schema!r} of version {found.version}")
    return found


def _unreadable(path: Path, why: str) -> InvalidOptionError:
    return InvalidOptionError(f"the baseline {path} cannot be read: {why}", hint="make one with --write-baseline")


def write_accepted(path: Path, findings: Iterable[Finding]) -> None:
    """Write all of ``findings`` as accepted."""
    counts = Counter(_key(found, path) for found in findings)
    rows = tuple(_Row(key.path, key.rule, key.anchor, count) for key, count in sorted(counts.items()))
    write_whole(path, msgspec.json.format(msgspec.json.encode(_Baseline(rows)), indent=2) + b"\n")


def _key(found: Finding, baseline: Path) -> _Row:
    """The same whatever folder a command runs in, and however the model is named there."""
    model, rule, anchor = found.key
    return _Row(Path(os.path.relpath(model, baseline.parent)).as_posix(), rule, anchor)
