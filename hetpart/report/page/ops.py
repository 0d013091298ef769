"""The table of ops: all of them as data that the page's script sorts and filters, the largest as rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from markupsafe import Markup

from hetpart.plan.model import Decision, Plan
from hetpart.report.escape import printable
from hetpart.report.page.compact import formed, front_coded, numbered
from hetpart.report.page.evidence import Evidence
from hetpart.report.page.parts import Cell, Grid, OpTable, Part, Section, Words, device_cell
from hetpart.report.sentences import code_of, elsewhere_seconds, own_seconds
from hetpart.units import format_bytes, format_seconds

FIRST = 20
"""Rows that are there before the script runs."""
MOST_BYTES = 760_000
"""Of the data: with the rest of the page it stays under a megabyte."""
_LONGEST_NAME = 160
_HEADERS = ("op", "type", "device", ">#", ">predicted", ">elsewhere", ">bytes", ">FLOP/B", "reason")
_NO_KERNEL = "no kernel"


@dataclass(frozen=True, slots=True)
class _Row:
    """An op as it is shown: names escaped, figures with three digits."""

    name: str
    op_type: str
    scope: str
    code: str
    """File and line."""
    device: str
    partition: int
    microseconds: float
    elsewhere: float | None
    """Microseconds on the fastest other device; ``None`` where none has a kernel."""
    nbytes: int
    intensity: float
    reason: str


def ops(evidence: Evidence) -> Section:
    """Every op with device, seconds, bytes, intensity and the reason, as far as there is room for."""
    plan = evidence.plan
    remark = "predicted; sort by a column's head, filter by any word"
    if not plan.decisions:
        return Section("ops", "Operators", remark, (Words("The model has no operator."),))
    rows = sorted(map(_row, plan.decisions), key=lambda row: (-row.microseconds, row.name))
    text, listed = _fitting(plan, rows)
    first = Grid.of("Operators, those that take longest first", _HEADERS, [_cells(plan, row) for row in rows[:FIRST]])
    devices = tuple(printable(use.device) for use in plan.devices)
    table: Part = OpTable(Markup(text), len(rows), listed, devices, first)
    return Section("ops", "Operators", remark, (table,))


def _row(decision: Decision) -> _Row:
    elsewhere = elsewhere_seconds(decision)
    return _Row(
        name=_shown(decision.op),
        op_type=_shown(decision.op_type),
        scope=_shown(decision.scope),
        code=_shown(code_of(decision)),
        device=decision.device,
        partition=decision.partition,
        microseconds=_rounded(own_seconds(decision) * 1e6),
        elsewhere=None if elsewhere is None else _rounded(elsewhere * 1e6),
        nbytes=int(_rounded(decision.bytes_moved)),
        intensity=_rounded(decision.intensity),
        reason=_shown(decision.reason),
    )


def _shown(text: str) -> str:
    """``text`` escaped; of a very long one both ends."""
    if len(text) > _LONGEST_NAME:
        text = f"{text[: _LONGEST_NAME // 2]}…{text[-_LONGEST_NAME // 2 :]}"
    return printable(text)


def _rounded(figure: float) -> float:
    return float(f"{figure:.3g}") if isfinite(figure) else 0.0


def _cells(plan: Plan, row: _Row) -> tuple[Cell | str, ...]:
    elsewhere = Cell(_NO_KERNEL, "dim") if row.elsewhere is None else Cell(format_seconds(row.elsewhere / 1e6))
    return (
        Cell(row.name, "name", below=" · ".join(filter(None, (_module(row), row.code)))),
        Cell(row.op_type, "type"),
        device_cell(plan, row.device),
        f"{row.partition}",
        format_seconds(row.microseconds / 1e6),
        elsewhere,
        format_bytes(row.nbytes),
        _ratio(row.intensity),
        Cell(row.reason, "dim reason"),
    )


def _module(row: _Row) -> str:
    """The module, where the name does not say it; the page's script does as much."""
    return "" if row.name.strip("/").replace("/", ".").startswith(row.scope) else row.scope


def _ratio(figure: float) -> str:
    if figure >= 1000:
        return f"{figure:,.0f}"
    return "<0.001" if 0 < figure < 0.001 else f"{figure:g}"


def _fitting(plan: Plan, rows: Sequence[_Row]) -> tuple[str, int]:
    """The data of as many rows as there is room for, those that take longest first; and how many these are."""
    kept = len(rows)
    while True:
        text = script_json(_data(plan, rows[:kept]))
        if len(text.encode()) <= MOST_BYTES or kept <= FIRST:
            return text, kept
        kept = max(FIRST, int(kept * MOST_BYTES / len(text.encode()) * 0.95))


def _data(plan: Plan, rows: Sequence[_Row]) -> Mapping[str, Any]:
    """Column by column. Names are sorted, each with as much as it shares with the one before left out."""
    named = sorted(rows, key=lambda row: row.name)
    places = {use.device: place for place, use in enumerate(plan.devices)}
    types, scopes = numbered(row.op_type for row in named), numbered(row.scope for row in named)
    reasons, lines = numbered(row.reason for row in named), numbered(row.code for row in named)
    said = formed(reasons.texts)
    return {
        "names": front_coded([row.name for row in named]),
        "types": front_coded(types.texts),
        "scopes": front_coded(scopes.texts),
        "lines": front_coded(lines.texts),
        "forms": said.forms,
        "reasons": said.filled,
        "devices": [printable(use.device) for use in plan.devices],
        "type": types.numbers,
        "scope": scopes.numbers,
        "line": lines.numbers,
        "reason": reasons.numbers,
        "device": {str(row.partition): places[row.device] for row in named},
        "partition": [row.partition for row in named],
        "time": [_short(row.microseconds) for row in named],
        "elsewhere": [None if row.elsewhere is None else _short(row.elsewhere) for row in named],
        "kilobytes": [_short(row.nbytes / 1000) for row in named],
        "intensity": [_short(row.intensity) for row in named],
    }


def _short(figure: float) -> float | int:
    """A whole number is written without its point."""
    return int(figure) if figure == int(figure) else figure


def script_json(content: object) -> str:
    """``content`` as JSON that no HTML parser finds an end or a comment in."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
