"""Latency against budget as curves, each over the lower bound that no placement passes."""

# matplotlib's own types are incomplete:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetpart.plan.curves import Curve, Sweep
from hetpart.report.escape import printable
from hetpart.report.plots.figure import FAINT, INK, MARKERS, SERIES, plot
from hetpart.report.plots.labels import Box, Label, place_labels
from hetpart.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

_LONGEST_TITLE = 88
_LOG_SPREAD = 12.0
"""Latencies that differ by a larger factor are drawn on a logarithmic scale."""
_FROM_ZERO = 0.6
"""A least latency below this part of the largest is drawn from zero up."""
_PAPER: dict[str, Any] = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 0.8}
_KNEE_RADIUS = 7.0


@dataclass(frozen=True, slots=True)
class _Point:
    """A budget under which something fits."""

    budget: int
    needed: int
    """What its plan takes: from here on there is one as fast."""
    seconds: float
    bound: float
    knee: bool


def plot_sweep(sweep: Sweep, path: Path) -> None:
    """Draw every curve into one plot, an SVG or a PNG by the name of ``path``.

    Raises:
        InvalidOptionError: the name does not end as a format that is known.
        HetpartError: matplotlib is not installed.
        OSError: it cannot be written.
    """
    title = f"Latency of {printable(sweep.model)} against its budget"
    plot(path, title, lambda figure: _draw(figure, sweep, title))


def _draw(figure: Figure, sweep: Sweep, title: str) -> None:
    axes = figure.subplots()
    figure.subplots_adjust(left=0.085, right=0.975, top=0.87, bottom=0.125)
    figure.text(0.085, 0.955, title[:_LONGEST_TITLE], fontsize=13, fontweight="bold", va="center")
    figure.text(0.085, 0.02, _footnote(sweep), fontsize=8, color=FAINT, va="bottom")
    _scale(axes, sweep)
    for number, curve in enumerate(sweep.curves):
        _draw_curve(axes, curve, number, shaded=len(sweep.curves) == 1)
    marked = [] if sweep.target_seconds is None else [_draw_target(axes, sweep.target_seconds)]
    axes.legend(loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=min(4, len(sweep.curves)), frameon=False)
    _draw_labels(axes, sweep.curves, [_box(text) for text in marked])


def _footnote(sweep: Sweep) -> str:
    knees = any(point.knee for curve in sweep.curves for point in curve.points)
    rings = " Rings: from here on more memory buys much less." if knees else ""
    return f"Predicted, ops one after another. Dashed: what no placement goes below.{rings}"


def _fitting(curve: Curve) -> list[_Point]:
    return [
        _Point(point.budget_bytes, point.peak_bytes or 0, point.seconds, point.lower_bound or 0.0, point.knee)
        for point in curve.points
        if point.seconds is not None
    ]


def _scale(axes: Axes, sweep: Sweep) -> None:
    from matplotlib.ticker import LogLocator

    points = [point for curve in sweep.curves for point in _fitting(curve)]
    seconds = [point.seconds for point in points if point.seconds]
    bounds = [point.bound for point in points if point.bound]
    budgets = [point.budget_bytes for curve in sweep.curves for point in curve.points]
    axes.set(xlabel=f"Budget of {sweep.curves[0].device}", ylabel="Latency, predicted")
    axes.set_xlim(min(budgets), max(budgets) * 1.02 or 1)
    if seconds and bounds and max(seconds) > _LOG_SPREAD * min(bounds):
        axes.set_yscale("log", subs=[])
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.set_ylim(min(bounds) / 1.3, max(seconds) * 1.3)
    else:
        least, most = min(bounds, default=0.0), max(seconds, default=1.0)
        low = 0.0 if least < _FROM_ZERO * most else least - (most - least) * 0.15
        axes.set_ylim(low, most + (most - low) * 0.1)
    axes.xaxis.set_major_formatter(lambda value, _: format_bytes(value))
    axes.yaxis.set_major_formatter(lambda value, _: format_seconds(value) if value else "0")
    axes.grid(visible=True, which="major")
    axes.set_axisbelow(True)


def _draw_curve(axes: Axes, curve: Curve, number: int, *, shaded: bool) -> None:
    """A plan serves every budget from what it takes on; a bound holds for every smaller budget."""
    points, colour = _fitting(curve), SERIES[number % len(SERIES)]
    budgets, seconds = [point.budget for point in points], [point.seconds for point in points]
    marker = MARKERS[number % len(MARKERS)]
    label = printable(curve.hardware if curve.hardware != "default" else curve.machine)
    steps, levels = _steps(points)
    bounds = [point.bound for point in points]
    axes.plot(steps, levels, color=colour, linewidth=1.6, drawstyle="steps-post", zorder=3)
    axes.plot(budgets, bounds, color=colour, linewidth=1.0, linestyle=(0, (4, 3)), drawstyle="steps-pre", zorder=2)
    axes.plot(
        budgets, seconds, color=colour, marker=marker, markersize=4.5, linestyle="none", label=label, zorder=4,
        clip_on=False,
    )  # fmt: skip
    if shaded:
        edges = sorted({*steps, *budgets})
        over = [_level_at(edge, steps, levels) for edge in edges]
        under = [next(point.bound for point in points if point.budget > edge or point is points[-1]) for edge in edges]
        axes.fill_between(edges, under, over, step="post", color=colour, alpha=0.08, linewidth=0, zorder=1)
    knees = [point for point in points if point.knee]
    axes.plot([point.budget for point in knees], [point.seconds for point in knees], color=colour, marker="o",
              markersize=11, markerfacecolor="none", markeredgewidth=1.2, linestyle="none", zorder=5)  # fmt: skip


def _steps(points: Sequence[_Point]) -> tuple[list[int], list[float]]:
    """Where the latency falls, and to what, up to the last budget."""
    if not points:
        return [], []
    steps = [max(point.needed, points[0].budget) for point in points]
    return [*steps, points[-1].budget], [*(point.seconds for point in points), points[-1].seconds]


def _level_at(budget: int, steps: Sequence[int], levels: Sequence[float]) -> float:
    return min(level for step, level in zip(steps, levels, strict=True) if step <= budget)


def _draw_target(axes: Axes, seconds: float) -> Text:
    axes.axhline(seconds, color=INK, linewidth=0.9, linestyle=(0, (1, 2)), zorder=2)
    left, right = axes.get_xlim()
    words = f"target {format_seconds(seconds)}"
    return axes.text(left + (right - left) / 200, seconds, words, fontsize=8, color=INK, va="bottom")


def _draw_labels(axes: Axes, curves: Sequence[Curve], taken: Sequence[Box]) -> None:
    """Knees with their budget and latency, where they cover neither each other nor a curve."""
    knees = [(point, number) for number, curve in enumerate(curves) for point in _fitting(curve) if point.knee]
    texts = [
        axes.text(point.budget, point.seconds, _words(point), fontsize=8, color=SERIES[number % len(SERIES)],
                  zorder=6, bbox=_PAPER)
        for point, number in knees
    ]  # fmt: skip
    room = axes.get_window_extent()
    labels = [_label(axes, point, text) for (point, _), text in zip(knees, texts, strict=True)]
    boxes = place_labels(labels, Box(room.x0, room.y0, room.x1, room.y1), taken, _curve_boxes(axes, curves))
    to_data = axes.transData.inverted().transform
    for text, box in zip(texts, boxes, strict=True):
        text.set_position(tuple(to_data((box.left + 2, box.bottom + 1))))
        text.set(horizontalalignment="left", verticalalignment="bottom")


def _words(point: _Point) -> str:
    return f"{format_bytes(point.budget)}: {format_seconds(point.seconds)}"


def _label(axes: Axes, point: _Point, text: Text) -> Label:
    x, y = axes.transData.transform((point.budget, point.seconds))
    box = _box(text)
    return Label(x, y, _KNEE_RADIUS, box.right - box.left, box.top - box.bottom)


def _curve_boxes(axes: Axes, curves: Sequence[Curve]) -> list[Box]:
    """Small boxes around every point, and along the level that follows it."""
    boxes: list[Box] = []
    for curve in curves:
        points = _fitting(curve)
        for here, after in zip(points, [*points[1:], points[-1]], strict=True):
            x, y = axes.transData.transform((here.budget, here.seconds))
            end, low = axes.transData.transform((max(after.needed, here.budget), after.seconds))
            level = axes.transData.transform((here.budget, here.bound))[1]
            boxes += [Box(x - 4, y - 4, x + 4, y + 4), Box(x, y - 2, end, y + 2), Box(end - 2, low, end + 2, y)]
            boxes.append(Box(x - 40, level - 2, x + 40, level + 2))
    return boxes


def _box(text: Text) -> Box:
    extent = text.get_window_extent()
    return Box(extent.x0 - 2, extent.y0 - 1, extent.x1 + 2, extent.y1 + 1)
