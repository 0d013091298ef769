"""The timeline: which lane does what, and when, in one run as a plan predicts it."""

# matplotlib's own types are incomplete:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetpart.plan.model import Plan
from hetpart.plan.predicted import PredictedRun, PredictedTask, predicted_run
from hetpart.report.escape import printable
from hetpart.report.plots.figure import FAINT, INK, SERIES, plot, shortened
from hetpart.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELLED = 200
"""Tasks that may carry a text, the longest first."""
_COPY_COLOUR = "#e8ebef"
_THICKNESS = 0.62
_LETTER_PIXELS = 6.4
"""About the width of a letter of a task's text, at matplotlib's 100 dots per inch."""
_LONGEST_LABEL = 40
_LONGEST_TITLE = 88
_LANE_INCHES, _FRAME_INCHES = 0.62, 1.9


def plot_timeline(plan: Plan, path: Path) -> None:
    """Draw a predicted run into an SVG or a PNG, by the name of ``path``.

    Raises:
        InvalidOptionError: the name does not end as a format that is known.
        HetpartError: matplotlib is not installed.
        OSError: it cannot be written.
    """
    run = predicted_run(plan)
    title = f"Timeline of {printable(plan.model.name)}"
    height = _FRAME_INCHES + _LANE_INCHES * max(2, len(run.lanes))
    plot(path, title, lambda figure: _draw(figure, plan, run, title), height=height)


def _draw(figure: Figure, plan: Plan, run: PredictedRun, title: str) -> None:
    axes = figure.subplots()
    inches = figure.get_size_inches()[1]
    figure.subplots_adjust(left=0.115, right=0.975, top=1 - 0.85 / inches, bottom=0.85 / inches)
    figure.text(0.02, 1 - 0.3 / inches, shortened(title, _LONGEST_TITLE), fontsize=13, fontweight="bold", va="center")
    figure.text(0.02, 1 - 0.58 / inches, _verdict(plan, run), fontsize=9, color=FAINT, va="center")
    figure.text(0.02, 0.13 / inches, _footnote(run), fontsize=8, color=FAINT, va="bottom")
    _scale(axes, run)
    for lane in run.lanes:
        _draw_lane(axes, run, lane, _colour(plan, lane))
    _draw_texts(axes, plan, run)
    _draw_bound(axes, plan, run)


def _verdict(plan: Plan, run: PredictedRun) -> str:
    how = "lanes work at the same time" if run.overlapped else "one task after another"
    copied = format_bytes(sum(copy.nbytes for copy in plan.transfers))
    counts = (
        f"{format_count(len(plan.partitions), 'partition')}, {format_count(len(plan.transfers), 'copy')} of {copied}"
    )
    return f"Predicted: {format_seconds(run.seconds)}, {how}. {counts}. {printable(plan.machine.name)}."


def _footnote(run: PredictedRun) -> str:
    if not run.tasks:
        return "Nothing runs: every output is an input."
    shares = (f"{_lane_name(lane)} {format_seconds(_busy(run, lane))}" for lane in run.lanes)
    return f"Busy: {', '.join(shares)}. Hatched: copies between devices."


def _busy(run: PredictedRun, lane: str) -> float:
    return sum(task.seconds for task in run.tasks if task.lane == lane)


def _lane_name(lane: str) -> str:
    return printable(lane).replace("->", " → ")


def _scale(axes: Axes, run: PredictedRun) -> None:
    axes.set_xlim(0, run.seconds * 1.01 or 1.0)
    axes.set_ylim(max(1, len(run.lanes)) - 0.5, -0.5)
    axes.set_yticks(range(len(run.lanes)), [_lane_name(lane) for lane in run.lanes])
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.xaxis.set_major_formatter(lambda value, _: format_seconds(value) if value > 0 else "0")
    axes.spines["left"].set_visible(False)
    axes.grid(visible=True, axis="x")
    axes.set_axisbelow(True)
    axes.set_xlabel("Time from the start of a run")


def _colour(plan: Plan, lane: str) -> str:
    """Of a device the one it has in every plot; copies are grey."""
    devices = [use.device for use in plan.devices]
    return SERIES[devices.index(lane) % len(SERIES)] if lane in devices else _COPY_COLOUR


def _draw_lane(axes: Axes, run: PredictedRun, lane: str, colour: str) -> None:
    spans = [(task.start, task.seconds) for task in run.tasks if task.lane == lane]
    row = run.lanes.index(lane)
    style: Any = {"facecolors": colour, "edgecolors": "white", "linewidth": 0.6, "zorder": 3}
    if colour == _COPY_COLOUR:
        style |= {"hatch": "////", "edgecolors": FAINT, "linewidth": 0.4}
    axes.broken_barh(spans, (row - _THICKNESS / 2, _THICKNESS), **style)


def _draw_texts(axes: Axes, plan: Plan, run: PredictedRun) -> None:
    """What a task is, in its bar where that is long enough."""
    per_pixel = axes.get_xlim()[1] / axes.get_window_extent().width
    for task in sorted(run.tasks, key=lambda task: -task.seconds)[:LABELLED]:
        letters = min(_LONGEST_LABEL, int(task.seconds / per_pixel / _LETTER_PIXELS) - 1)
        text = next((words for words in _words(plan, task) if len(words) <= letters), "")
        if text:
            middle, row = (task.start + task.end) / 2, run.lanes.index(task.lane)
            style: Any = {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1.0}} if task.is_copy else {}
            colour = INK if task.is_copy else "white"
            axes.text(middle, row, text, color=colour, fontsize=8, ha="center", va="center", zorder=5, **style)


def _words(plan: Plan, task: PredictedTask) -> tuple[str, ...]:
    """What may stand in the task's bar, the longest first."""
    if task.is_copy:
        copy = plan.transfers[task.index]
        nbytes = format_bytes(copy.nbytes)
        return f"{shortened(printable(copy.value), _LONGEST_LABEL - 12)}, {nbytes}", nbytes
    part = plan.partitions[task.index]
    return f"#{part.id}: {format_count(len(part.ops), 'op')}", f"#{part.id}"


def _draw_bound(axes: Axes, plan: Plan, run: PredictedRun) -> None:
    """What no order of the same tasks is faster than, where lanes work at the same time."""
    if not run.overlapped or plan.timeline is None:
        return
    bound = plan.timeline.lower_bound
    axes.axvline(bound, color=INK, linewidth=0.9, linestyle=(0, (3, 2)), zorder=4)
    words = f"no order takes less than {format_seconds(bound)}"
    style: Any = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "annotation_clip": False}
    axes.annotate(words, (bound, 1.0), (0, 3), fontsize=8, color=INK, ha="right", va="bottom", **style)
