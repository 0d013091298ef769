"""Tables as CSV that neither a terminal nor a spreadsheet takes for anything but text and numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

from hetpart.report.escape import printable

_FORMULA_STARTS = ("=", "+", "-", "@")


def csv_text(rows: Iterable[Mapping[str, Any]]) -> str:
    """A line for every row, under one of headers."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    for number, row in enumerate(rows):
        if not number:
            writer.writerow(row)
        writer.writerow([_cell(value) for value in row.values()])
    return file.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text
