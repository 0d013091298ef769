"""The roofline: every op's intensity against the rate it is predicted to reach, under what its device can do at most.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009.
"""

# matplotlib's own types are incomplete:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from math import atan2, degrees, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetpart.report.escape import printable
from hetpart.report.plots.figure import FAINT, INK, MARKERS, SERIES, plot, shortened
from hetpart.report.plots.labels import Box, Label, place_labels
from hetpart.report.plots.roofline_series import Dot, Series, roofline_series
from hetpart.units import format_bytes, format_count, format_percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    from hetpart.cost_model.annotate import Costs

LABELLED = 6
"""Labels for each device at most."""
_LEAST_LABELLED = 0.01
"""Share of a device's time below which a dot stays without a label."""
_LONGEST_LABEL = 34
_LEAST_AREA, _WHOLE_AREA = 14.0, 1600.0
_LINE_STEPS = 80
_PAPER: dict[str, Any] = {"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.8}
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def plot_roofline(costs: Costs, path: Path) -> None:
    """Draw the roofline of every device into one plot, an SVG or a PNG by the name of ``path``.

    Raises:
        InvalidOptionError: the name does not end as a format that is known.
        HetpartError: matplotlib is not installed.
        OSError: it cannot be written.
    """
    series = [roofline_series(costs, index) for index in range(len(costs.machine.devices))]
    title = f"Roofline of {printable(costs.graph.name)} on {printable(costs.machine.name)}"
    plot(path, title, lambda figure: _draw(figure, series, title))


def _draw(figure: Figure, series: Sequence[Series], title: str) -> None:
    axes = figure.subplots()
    figure.subplots_adjust(left=0.085, right=0.975, top=0.865, bottom=0.125)
    figure.text(0.085, 0.955, shortened(title, 90), fontsize=13, fontweight="bold", va="center")
    figure.text(0.085, 0.02, _footnote(series), fontsize=8, color=FAINT, va="bottom")
    _scale(axes, series)
    widest = max(one.device.bandwidth for one in series)
    marked = [
        text
        for number, one in enumerate(series)
        for text in _draw_roofs(axes, one, number, highest_slope=one.device.bandwidth == widest)
    ]
    for number, one in enumerate(series):
        _draw_dots(axes, one, number)
    legend: Any = axes.legend(loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=len(series), frameon=False)
    for handle in legend.legend_handles:
        handle.set_sizes([50])
    _draw_labels(axes, series, [_box(text) for text in marked])


def _footnote(series: Sequence[Series]) -> str:
    undrawn = max(one.undrawn for one in series)
    left_out = f" {format_count(undrawn, 'op')} without arithmetic or bytes moved not drawn." if undrawn else ""
    return f"Predicted. A dot's area is its share of the device's time; ×N stands for N alike ops.{left_out}"


def _scale(axes: Axes, series: Sequence[Series]) -> None:
    ridges = [peak / one.device.bandwidth for one in series for _, peak in one.peaks]
    intensities = [dot.intensity for one in series for dot in one.dots] + ridges
    rates = [dot.rate for one in series for dot in one.dots] + [peak for one in series for _, peak in one.peaks]
    axes.set(xscale="log", yscale="log", xlabel="Intensity, FLOP per byte moved", ylabel="Rate, FLOP/s")
    axes.set_xlim(min(intensities) / 3, max(intensities) * 6)
    axes.set_ylim(min(rates) / 4, max(rates) * 3)
    axes.yaxis.set_major_formatter(lambda value, _: _with_prefix(value))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.grid(visible=True, which="major")
    axes.minorticks_off()
    axes.set_axisbelow(True)


def _with_prefix(figure: float) -> str:
    scale, prefix = next((row for row in _PREFIXES if figure >= row[0] * 0.9995), (1.0, ""))
    return f"{figure / scale:.3g} {prefix}".strip()


def _draw_roofs(axes: Axes, series: Series, number: int, *, highest_slope: bool) -> list[Text]:
    """Bandwidth as a slope up to the highest peak, every peak as a ceiling; each with its figure."""
    device, colour = series.device, SERIES[number % len(SERIES)]
    (left, right), (bottom, _) = axes.get_xlim(), axes.get_ylim()
    highest = series.peaks[-1][1]
    foot = max(left, bottom / device.bandwidth)
    axes.plot([foot, highest / device.bandwidth], [foot * device.bandwidth, highest], color=colour, linewidth=1.4)
    marked = [_slope_text(axes, series, foot, colour, above=highest_slope)]
    for dtype, peak in series.peaks:
        axes.plot([peak / device.bandwidth, right], [peak, peak], color=colour, linewidth=1.4)
        text = f"{device.name} {dtype} {_with_prefix(peak)}FLOP/s"
        marked.append(axes.text(right / 1.05, peak * 1.06, text, color=colour, fontsize=8, ha="right", va="bottom"))
    return marked


def _slope_text(axes: Axes, series: Series, foot: float, colour: str, *, above: bool) -> Text:
    """The bandwidth, along its slope, on the side where no lower or higher slope is near."""
    device = series.device
    ridge = series.peaks[-1][1] / device.bandwidth
    x = foot * (ridge / foot) ** (0.25 if above else 0.4)
    pixels = axes.transData.transform([(foot, foot * device.bandwidth), (ridge, ridge * device.bandwidth)])
    across, up = pixels[1] - pixels[0]
    slope: Any = {"rotation": degrees(atan2(up, across)), "rotation_mode": "anchor"}
    text = f"{device.name} {format_bytes(device.bandwidth)}/s"
    gap, side = (1.12, "bottom") if above else (0.9, "top")
    return axes.text(x, x * device.bandwidth * gap, text, color=colour, fontsize=8, va=side, zorder=6, **slope)


def _draw_dots(axes: Axes, series: Series, number: int) -> None:
    device = series.device
    axes.scatter(
        [dot.intensity for dot in series.dots],
        [dot.rate for dot in series.dots],
        s=[_area(dot, series) for dot in series.dots],
        c=SERIES[number % len(SERIES)],
        marker=MARKERS[number % len(MARKERS)],
        alpha=0.55,
        linewidths=0.5,
        edgecolors="white",
        label=f"{device.name} ({printable(device.model)})",
        zorder=3,
    )


def _area(dot: Dot, series: Series) -> float:
    """In square points."""
    return _LEAST_AREA + _WHOLE_AREA * (dot.seconds / series.seconds if series.seconds else 0.0)


def _draw_labels(axes: Axes, series: Sequence[Series], taken: Sequence[Box]) -> None:
    """The largest dots' names, where they cover neither each other nor what is drawn, with a line to the dot."""
    chosen = [
        (dot, one, number)
        for number, one in enumerate(series)
        for dot in one.dots[:LABELLED]
        if dot.seconds >= _LEAST_LABELLED * one.seconds
    ]
    chosen.sort(key=lambda item: -item[0].seconds / item[1].seconds)
    texts = [
        axes.text(dot.intensity, dot.rate, _label_text(dot, one), fontsize=8, color=INK, zorder=5, bbox=_PAPER)
        for dot, one, _ in chosen
    ]
    dots = [_dot_box(axes, dot, one) for one in series for dot in one.dots] + _line_boxes(axes)
    labels = [_label(text, axes, dot, one) for text, (dot, one, _) in zip(texts, chosen, strict=True)]
    room = axes.get_window_extent()
    boxes = place_labels(labels, Box(room.x0, room.y0, room.x1, room.y1), taken, dots)
    for text, box, (dot, _, number) in zip(texts, boxes, chosen, strict=True):
        _move(axes, text, box, dot, SERIES[number % len(SERIES)])


def _line_boxes(axes: Axes) -> list[Box]:
    """Small boxes along every line drawn so far."""
    boxes: list[Box] = []
    for drawn in axes.get_lines():
        first, last = axes.transData.transform(drawn.get_xydata())
        for step in range(_LINE_STEPS + 1):
            x, y = first + (last - first) * step / _LINE_STEPS
            boxes.append(Box(x - 2, y - 2, x + 2, y + 2))
    return boxes


def _label_text(dot: Dot, series: Series) -> str:
    share = format_percent(dot.seconds / series.seconds)
    if dot.ops > 1:
        return f"{printable(dot.op_type)} ×{dot.ops}, {share}"
    return f"{shortened(printable(dot.name), _LONGEST_LABEL)}, {share}"


def _radius(axes: Axes, dot: Dot, series: Series) -> float:
    points = sqrt(_area(dot, series)) / 2
    return points * axes.figure.dpi / 72


def _dot_box(axes: Axes, dot: Dot, series: Series) -> Box:
    x, y = axes.transData.transform((dot.intensity, dot.rate))
    radius = _radius(axes, dot, series)
    return Box(x - radius, y - radius, x + radius, y + radius)


def _label(text: Text, axes: Axes, dot: Dot, series: Series) -> Label:
    x, y = axes.transData.transform((dot.intensity, dot.rate))
    box = _box(text)
    return Label(x, y, _radius(axes, dot, series), box.right - box.left, box.top - box.bottom)


def _box(text: Text) -> Box:
    extent = text.get_window_extent()
    return Box(extent.x0 - 2, extent.y0 - 1, extent.x1 + 2, extent.y1 + 1)


def _move(axes: Axes, text: Text, box: Box, dot: Dot, colour: str) -> None:
    to_data = axes.transData.inverted().transform
    text.set_position(tuple(to_data((box.left + 2, box.bottom + 1))))
    text.set(horizontalalignment="left", verticalalignment="bottom")
    x, y = axes.transData.transform((dot.intensity, dot.rate))
    end = to_data((min(max(x, box.left), box.right), min(max(y, box.bottom), box.top)))
    axes.plot([dot.intensity, end[0]], [dot.rate, end[1]], color=colour, linewidth=0.6, zorder=4)
