"""The table a benchmark prints for people, on standard error: its JSON goes to standard output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from benchmarks.measure import say

Cell = Callable[[Mapping[str, Any]], str]
"""What a row shows in a column."""
GAP = "  "


def figure(key: str, form: str = "{}", scale: float = 1.0) -> Cell:
    """The number ``key`` of a row times ``scale``, as ``form`` writes it; nothing where there is none."""

    def cell(row: Mapping[str, Any]) -> str:
        found = row[key]
        return "" if found is None else form.format(found * scale if scale != 1 else found)

    return cell


def print_table(columns: Mapping[str, Cell], rows: Iterable[Mapping[str, Any]]) -> None:
    """Rows in the order given, the first column to the left and the others to the right."""
    cells = [list(columns), *([cell(row) for cell in columns.values()] for row in rows)]
    for line in laid_out(cells):
        say(line)


def laid_out(cells: Sequence[Sequence[str]]) -> list[str]:
    """Lines whose columns stand under each other."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        GAP.join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in cells
    ]
