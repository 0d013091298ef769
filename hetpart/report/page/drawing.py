"""SVG elements and axes. Texts and attributes are escaped here, and nowhere else has to think of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import ceil, floor, log10

from markupsafe import Markup, escape

WIDTH = 760.0
"""Units of a drawing that is as wide as the page allows; a unit is a pixel on a laptop."""
TEXT = 12.5
_CHARACTER = 0.6
"""Width of a character in parts of its size, as far as that can be told without the font."""
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


def tag(element: str, *children: str, **attributes: object) -> Markup:
    """An element; ``_`` in an attribute's name is written ``-``, one at its end left out, and ``None`` left out."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_attribute(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    inner = "".join(escape(child) for child in children)
    return Markup(f"<{element}{written}>{inner}</{element}>" if inner else f"<{element}{written}/>")


def _attribute(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def drawing(width: float, height: float, elements: Iterable[Markup], **more: object) -> Markup:
    """The whole drawing. What it shows in words stands on the figure around it."""
    view = f"0 0 {width:.0f} {height:.0f}"
    return tag("svg", *elements, viewBox=view, width=width, height=height, aria_hidden="true", **more)


def stretched(height: float, elements: Iterable[Markup]) -> Markup:
    """A drawing without texts, as wide as the page whatever its width: the height stays."""
    return drawing(WIDTH, height, elements, class_="stretched", preserveAspectRatio="none")


def text(x: float, y: float, content: str, style: str = "", anchor: str | None = None) -> Markup:
    """A line of text; ``anchor`` is ``middle`` or ``end`` where it does not start at ``x``."""
    return tag("text", content, x=x, y=y, class_=style or None, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> Markup:
    """A straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=style)


def box(x: float, y: float, width: float, height: float, style: str, title: str = "", **more: object) -> Markup:
    """A rectangle; ``title`` shows where the pointer rests on it."""
    inner = (tag("title", title),) if title else ()
    return tag("rect", *inner, x=x, y=y, width=max(0.0, width), height=max(0.0, height), class_=style, **more)


def path(points: Iterable[tuple[float, float]], style: str) -> Markup:
    """A line through ``points``."""
    written = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return tag("path", d=f"M{written}", class_=style)


def text_width(content: str) -> float:
    """About as wide as ``content`` will be."""
    return len(content) * TEXT * _CHARACTER


def cut(content: str, width: float) -> str:
    """As much of the start of ``content`` as fits."""
    most = max(1, int(width / (TEXT * _CHARACTER)))
    return content if len(content) <= most else f"{content[: most - 1]}…"


def shortened(content: str, width: float) -> str:
    """As much of the end of ``content`` as fits; the end of a name tells more than its start."""
    most = max(2, int(width / (TEXT * _CHARACTER)))
    return content if len(content) <= most else f"…{content[1 - most :]}"


@dataclass(frozen=True, slots=True)
class Axis:
    """From figures to units of the drawing."""

    low: float
    high: float
    start: float
    end: float

    def at(self, figure: float) -> float:
        share = (figure - self.low) / (self.high - self.low) if self.high > self.low else 0.0
        return self.start + (self.end - self.start) * share

    def ticks(self, most: int = 6) -> list[float]:
        """Round figures from low to high, about as many as ``most``."""
        if not self.high > self.low:
            return [self.low]
        step = _round_step((self.high - self.low) / most)
        first, last = ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def _round_step(least: float) -> float:
    scale = 10.0 ** floor(log10(least))
    return next(step * scale for step in _STEPS if step * scale >= least * 0.999)


@dataclass(frozen=True, slots=True)
class LogAxis:
    """The same on a logarithmic scale."""

    low: float
    high: float
    start: float
    end: float

    def at(self, figure: float) -> float:
        share = log10(figure / self.low) / log10(self.high / self.low)
        return self.start + (self.end - self.start) * share

    def ticks(self) -> list[float]:
        """Powers of ten, every third where there are many."""
        first, last = ceil(log10(self.low) - 1e-9), floor(log10(self.high) + 1e-9)
        step = 1 if last - first <= 7 else 3
        return [10.0**power for power in range(first, last + 1) if power % step == 0]


@dataclass(frozen=True, slots=True)
class Frame:
    """The room of a plot inside a drawing."""

    left: float
    top: float
    right: float
    bottom: float

    def across(self, axis: Axis | LogAxis, word: Callable[[float], str]) -> Iterator[Markup]:
        """The horizontal axis: its ticks and their figures."""
        for tick in axis.ticks():
            x, said = axis.at(tick), word(tick)
            yield line(x, self.top, x, self.bottom, "grid")
            yield text(min(x, WIDTH - text_width(said) / 2), self.bottom + 17, said, "tick", "middle")

    def up(self, axis: Axis | LogAxis, word: Callable[[float], str]) -> Iterator[Markup]:
        """The vertical axis."""
        for tick in axis.ticks():
            y = axis.at(tick)
            yield line(self.left, y, self.right, y, "grid")
            yield text(self.left - 8, y + 4, word(tick), "tick", "end")
