"""Tables and bars: how every part of a report looks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hetpart.report.escape import printable
from hetpart.units import format_count

Cell = str | Text
DEFAULT_WIDTH = 100
LEAST_WIDTH = 78
"""Columns of the widest table's numbers: on a narrower page they would be cut."""
INDENT = 2
BAR_CELLS = 24
_EIGHTHS = " ▏▎▍▌▋▊▉"
_NUMBER_MARK = ">"


def heading(title: str, remark: str = "") -> Text:
    """The title of a section, after an empty line."""
    return Text.assemble("\n", (title, "bold"), (f"  {remark}" if remark else "", "dim"))


def line(*parts: Cell | tuple[str, str]) -> Padding:
    """A sentence of a section, wrapped under its own start."""
    return Padding(Text.assemble(*parts), (0, 0, 0, INDENT))


def labelled(rows: Iterable[tuple[Cell, Cell]], indent: int = 0) -> Padding:
    """Labels, or bullets, with the text of each wrapped under its own start."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in rows:
        grid.add_row(label, text)
    return Padding(grid, (0, 0, 0, indent))


def name(text: str, style: str = "") -> Text:
    """A name from a model file: never markup, never a control character."""
    return Text(printable(text), style=style)


def table(headers: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Padding:
    """Rows under ``headers``. A header that starts with ``>`` is of numbers: to the right, and never broken."""
    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for header in headers:
        number = header.startswith(_NUMBER_MARK)
        grid.add_column(
            Text(header.removeprefix(_NUMBER_MARK)),
            justify="right" if number else "left",
            no_wrap=number,
            overflow="fold",
        )
    for row in rows:
        grid.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    return Padding(grid, (0, 0, 0, INDENT))


def bar(share: float) -> Text:
    """A bar as long as ``share`` of the full one."""
    eighths = round(max(0.0, min(1.0, share)) * BAR_CELLS * 8)
    return Text("█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip(), style="cyan")


def more(total: int, shown: int, noun: str) -> list[Padding]:
    """Says how many rows a table leaves out; nothing where it leaves out none."""
    if total <= shown:
        return []
    return [line((f"… and {format_count(total - shown, noun)} more: `hetpart report --json` lists them all", "dim"))]


def print_parts(parts: Iterable[RenderableType], console: Console) -> None:
    """Print the parts of a report as they are: nothing in them is markup."""
    for part in parts:
        console.print(part, highlight=False)


def plain(parts: Iterable[RenderableType], width: int | None = None) -> str:
    """The parts of a report as plain text, ``width`` columns wide, and at least ``LEAST_WIDTH``."""
    file = StringIO()
    columns = max(LEAST_WIDTH, width or DEFAULT_WIDTH)
    print_parts(parts, Console(file=file, width=columns, color_system=None, legacy_windows=False))
    return "".join(f"{text.rstrip()}\n" for text in file.getvalue().split("\n")[:-1])
