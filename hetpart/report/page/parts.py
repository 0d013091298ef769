"""What a section of the page is made of. Every text is plain: the template escapes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from markupsafe import Markup

from hetpart.plan.figures import DeviceUse
from hetpart.plan.model import Plan
from hetpart.report.escape import printable
from hetpart.report.page.drawing import tag

MARKS = ("●", "■", "▲", "◆")
"""One for each colour of a device, so that no figure speaks by colour alone."""
NUMBER_MARK = ">"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table that is more than text."""

    text: str
    tone: str = ""
    """``good``, ``bad``, ``dim``, ``strong``, ``name``, ``type`` or, dim, a ``reason``."""
    device: int | None = None
    """Place of the device whose mark stands before the text."""
    below: str = ""
    """What stands under the text."""

    @property
    def mark(self) -> str:
        return "" if self.device is None else mark_of(self.device)

    @property
    def hue(self) -> str:
        return "" if self.device is None else hue_of(self.device)


@dataclass(frozen=True, slots=True)
class Words:
    """A paragraph."""

    kind: ClassVar[str] = "words"
    text: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure that people look for first."""

    label: str
    value: str
    remark: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Figures side by side."""

    kind: ClassVar[str] = "tiles"
    tiles: tuple[Tile, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows under headers. A header that starts with ``>`` is of numbers."""

    kind: ClassVar[str] = "grid"
    label: str
    headers: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @classmethod
    def of(cls, label: str, headers: Sequence[str], rows: Sequence[Sequence[Cell | str]]) -> Grid:
        """Rows whose cells may be plain texts."""
        cells = tuple(tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in row) for row in rows)
        return cls(label, tuple(headers), cells)

    @property
    def columns(self) -> list[Column]:
        return [Column(header.removeprefix(NUMBER_MARK), header.startswith(NUMBER_MARK)) for header in self.headers]


@dataclass(frozen=True, slots=True)
class Column:
    """How a column of a table is headed."""

    title: str
    is_number: bool


@dataclass(frozen=True, slots=True)
class Key:
    """What a colour or a stroke of a drawing stands for."""

    style: str
    """Its class in the style sheet."""
    text: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure with what it says in words, for those who cannot see it."""

    kind: ClassVar[str] = "drawing"
    svg: Markup
    label: str
    caption: str = ""
    keys: tuple[Key, ...] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    """A device's bar, under its name and its figures: texts wrap and keep their size on a narrow screen."""

    device: Cell
    model: str
    said: str
    svg: Markup


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar for every device."""

    kind: ClassVar[str] = "bars"
    bars: tuple[Bar, ...]
    label: str
    caption: str
    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """Parts that are shown on demand."""

    kind: ClassVar[str] = "fold"
    summary: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class OpTable:
    """The table of ops: its data as JSON, and the first rows for those who run no script."""

    kind: ClassVar[str] = "ops"
    json: Markup
    total: int
    """Ops of the model."""
    listed: int
    """Of these, in the table."""
    devices: tuple[str, ...]
    first: Grid


Part = Words | Tiles | Grid | Drawing | Bars | Fold | OpTable


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page with a heading."""

    anchor: str
    title: str
    remark: str
    parts: tuple[Part, ...]


def device_cell(plan: Plan, device: str) -> Cell:
    """The device's name behind its mark."""
    place = next((place for place, use in enumerate(plan.devices) if use.device == device), None)
    return Cell(printable(device), device=place)


def hue_of(device: int) -> str:
    """The class in the style sheet that carries a device's colour."""
    return f"d{device % len(MARKS)}"


def mark_of(device: int) -> str:
    """The shape that stands for a device."""
    return MARKS[device % len(MARKS)]


def device_head(use: DeviceUse, place: int, x: float, y: float) -> Markup:
    """The device's name in a drawing, in its colour and behind its mark, with its model."""
    model = tag("tspan", f"  {printable(use.model)}", class_="faint")
    return tag(
        "text", f"{mark_of(place)} {printable(use.device)}", model, x=x, y=y, class_=f"strong ink {hue_of(place)}"
    )
