"""Memory over one run: what every device holds, and when, under its budget, as a plan predicts it."""

# matplotlib's own types are incomplete:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetpart.plan.memory import DeviceMemory, memory_over_time
from hetpart.plan.model import Plan
from hetpart.report.escape import printable
from hetpart.report.plots.figure import FAINT, INK, SERIES, plot, shortened
from hetpart.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ALIVE_SHOWN = 3
_FAR_BUDGET = 2.5
"""A budget that is so many times the peak is told in words: drawn, it would leave nothing to see of the rest."""
_LONGEST_NAME, _LONGEST_TITLE, _LONGEST_HEADING = 34, 88, 118
_DEVICE_INCHES, _FRAME_INCHES = 2.6, 1.2


@dataclass(frozen=True, slots=True)
class _Layer:
    """What one band of the picture stands for."""

    words: str
    colour: str
    hatch: str


_LAYERS = (
    _Layer("weights", "#c9d3dd", ""),
    _Layer("states", "#dfe5ea", "..."),
    _Layer("sessions", "#e9ecef", "xxx"),
    _Layer("values between partitions", SERIES[0], ""),
    _Layer("inside the partition that runs", SERIES[1], "////"),
)
"""From the bottom up; none differs from its neighbours by its colour alone."""


def plot_memory(plan: Plan, path: Path) -> None:
    """Draw what every device of ``plan`` holds over a run into an SVG or a PNG, by the name of ``path``.

    Raises:
        InvalidOptionError: the name does not end as a format that is known.
        HetpartError: matplotlib is not installed.
        OSError: it cannot be written.
    """
    memories = [memory for memory in memory_over_time(plan) if memory.use.peak_bytes]
    title = f"Memory of {printable(plan.model.name)} over one run"
    height = _FRAME_INCHES + _DEVICE_INCHES * max(1, len(memories))
    plot(path, title, lambda figure: _draw(figure, plan, memories, title), height=height)


def _draw(figure: Figure, plan: Plan, memories: Sequence[DeviceMemory], title: str) -> None:
    inches = figure.get_size_inches()[1]
    figure.text(0.02, 1 - 0.28 / inches, shortened(title, _LONGEST_TITLE), fontsize=13, fontweight="bold", va="center")
    figure.text(0.02, 0.12 / inches, _footnote(plan, memories), fontsize=8, color=FAINT, va="bottom")
    if not memories:
        return
    rows: Any = figure.subplots(len(memories), 1, sharex=True, squeeze=False)
    figure.subplots_adjust(left=0.085, right=0.975, top=1 - 1.05 / inches, bottom=0.8 / inches, hspace=0.3)
    for axes, memory in zip(rows[:, 0], memories, strict=True):
        _draw_device(axes, memory)
    rows[-1, 0].set_xlabel("Time from the start of a run")
    _draw_legend(figure, memories, 1 - 0.52 / inches)


def _footnote(plan: Plan, memories: Sequence[DeviceMemory]) -> str:
    if not memories:
        return "Nothing is held on any device."
    return (
        f"Predicted. Dashed: what the plan counts, room between values with it; it holds at any pace. "
        f"{printable(plan.machine.name)}."
    )


def _draw_device(axes: Axes, memory: DeviceMemory) -> None:
    times = [step.start for step in memory.steps] + [step.end for step in memory.steps[-1:]]
    below: Sequence[int] = [0] * len(times)
    for layer, nbytes in zip(_LAYERS, _bands(memory), strict=True):
        above = [low + more for low, more in zip(below, nbytes, strict=True)]
        if any(nbytes):
            style: Any = {"step": "post", "facecolor": layer.colour, "hatch": layer.hatch, "linewidth": 0.0}
            axes.fill_between(times, below, above, edgecolor="white", zorder=2, **style)
        below = above
    _scale(axes, memory, times)
    _draw_lines(axes, memory)
    axes.set_title(_heading(memory), loc="left", fontsize=9, color=INK, pad=5)


def _bands(memory: DeviceMemory) -> list[list[int]]:
    """Bytes of every layer at every time, the last one twice: a step lasts until the next."""
    use, steps = memory.use, [*memory.steps, *memory.steps[-1:]]
    held = (use.weight_bytes, use.state_bytes, use.session_bytes)
    constant = [[nbytes] * len(steps) for nbytes in held]
    return [*constant, [step.value_bytes for step in steps], [step.inside_bytes for step in steps]]


def _near_budget(memory: DeviceMemory) -> int | None:
    """The budget, where a line for it leaves room for the rest."""
    budget = memory.use.budget_bytes
    return None if budget is None or budget > _FAR_BUDGET * memory.use.peak_bytes else budget


def _scale(axes: Axes, memory: DeviceMemory, times: Sequence[float]) -> None:
    highest = max(memory.use.peak_bytes, memory.most_bytes, _near_budget(memory) or 0)
    axes.set_ylim(0, highest * 1.14)
    axes.set_xlim(0, times[-1] if times and times[-1] > 0 else 1.0)
    axes.yaxis.set_major_locator(_few_ticks())
    axes.yaxis.set_major_formatter(lambda value, _: format_bytes(value))
    axes.xaxis.set_major_formatter(lambda value, _: format_seconds(value) if value > 0 else "0")
    axes.grid(visible=True, axis="y")
    axes.set_axisbelow(True)


def _few_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(5)


def _draw_lines(axes: Axes, memory: DeviceMemory) -> None:
    peak, budget = memory.use.peak_bytes, _near_budget(memory)
    axes.axhline(peak, color=INK, linewidth=0.9, linestyle=(0, (3, 2)), zorder=4)
    _line_text(axes, peak, f"counted {format_bytes(peak)}", above=budget is None or budget > peak * 1.25)
    if budget is not None:
        axes.axhline(budget, color=INK, linewidth=1.6, zorder=4)
        _line_text(axes, budget, f"budget {format_bytes(budget)}", above=True)


def _line_text(axes: Axes, level: int, words: str, *, above: bool) -> None:
    side: Any = {"va": "bottom" if above else "top", "xytext": (-3, 2 if above else -2)}
    paper: Any = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 0.6}
    where: Any = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "zorder": 6}
    axes.annotate(words, (1.0, level), ha="right", fontsize=8, color=INK, bbox=paper, **side, **where)


def _heading(memory: DeviceMemory) -> str:
    """The device, how near it comes to its budget, and what is alive at its peak beside the weights."""
    use = memory.use
    budget = format_bytes(use.budget_bytes or 0)
    spare = "" if use.headroom_bytes is None else f", {_spare(use.headroom_bytes)} of {budget}"
    words = f"{printable(use.device)} ({printable(use.model)}): {format_bytes(use.peak_bytes)}{spare}"
    joint = ". Alive at the peak: "
    for value in use.alive_at_peak[:_ALIVE_SHOWN]:
        longer = f"{words}{joint}{shortened(printable(value.name), _LONGEST_NAME)} {format_bytes(value.nbytes)}"
        if len(longer) > _LONGEST_HEADING:
            break
        words, joint = longer, ", "
    return words


def _spare(headroom: int) -> str:
    return f"{format_bytes(headroom)} to spare" if headroom >= 0 else f"{format_bytes(-headroom)} short"


def _draw_legend(figure: Figure, memories: Sequence[DeviceMemory], top: float) -> None:
    from matplotlib.patches import Patch

    used = [any(any(_bands(memory)[number]) for memory in memories) for number in range(len(_LAYERS))]
    patches = [
        Patch(facecolor=layer.colour, hatch=layer.hatch, edgecolor="white", linewidth=0.0, label=layer.words)
        for layer, shown in zip(_LAYERS, used, strict=True)
        if shown
    ]
    figure.legend(handles=patches, loc="center left", bbox_to_anchor=(0.015, top), ncols=5, frameon=False, fontsize=8)
