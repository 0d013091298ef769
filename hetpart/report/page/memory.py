"""Memory over time, device by device, under the budget; and what is alive at the peak."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from markupsafe import Markup

from hetpart.plan.figures import DeviceUse
from hetpart.plan.memory import DeviceMemory, MemoryStep, memory_over_time
from hetpart.report.escape import printable
from hetpart.report.page.drawing import WIDTH, Axis, Frame, drawing, line, tag, text
from hetpart.report.page.evidence import Evidence
from hetpart.report.page.parts import Cell, Drawing, Fold, Grid, Key, Part, Section, Words, device_head, hue_of
from hetpart.units import format_bytes, format_count, format_seconds

_MOST_STEPS = 400
_MOST_ALIVE = 100
_HEIGHT = 250.0
_FRAME = Frame(76, 34, WIDTH - 12, _HEIGHT - 34)
_ROOM = 1.14
_LAYERS = (
    ("held", "weights, states and sessions"),
    ("buffers", "values between partitions"),
    ("live", "alive inside the partition that runs"),
)
_COUNTED = Key("counted", "what the plan counts: room between values with it")
_BUDGET = Key("budget", "budget")


def memory(evidence: Evidence) -> Section:
    """A plot for every device that is used, with the largest values at its peak."""
    found = [(place, memory) for place, memory in enumerate(memory_over_time(evidence.plan)) if memory.use.peak_bytes]
    parts = [part for place, memory in found for part in _device(place, memory)]
    return Section("memory", "Memory over time", "predicted", tuple(parts) or (Words("No device holds anything."),))


def _device(place: int, memory: DeviceMemory) -> Iterator[Part]:
    use = memory.use
    budget = "no budget" if use.budget_bytes is None else f"a budget of {format_bytes(use.budget_bytes)}"
    said = f"Memory of {printable(use.device)} over a run: at most {format_bytes(use.peak_bytes)}, with {budget}"
    keys = (*(Key(f"fill {style} {hue_of(place)}", words) for style, words in _LAYERS), _COUNTED)
    lines = () if use.budget_bytes is None else (_BUDGET,)
    yield Drawing(_plot(_thinned(memory), place), said, _caption(memory), (*keys, *lines))
    if use.alive_at_peak:
        yield Fold(_alive_title(use), (_alive(use),))


def _caption(memory: DeviceMemory) -> str:
    use, highest = memory.use, memory.highest
    if highest is None:
        return f"{format_bytes(memory.held_bytes)} held whatever runs."
    at = "" if use.peak_partition is None else f" in partition {use.peak_partition}"
    between, inside = format_bytes(highest.value_bytes), format_bytes(highest.inside_bytes)
    held = format_bytes(memory.held_bytes)
    return f"Peak{at}: {held} held whatever runs, {between} between partitions, {inside} inside the one that runs."


def _alive_title(use: DeviceUse) -> str:
    where = "" if use.peak_partition is None else f" (partition {use.peak_partition})"
    count = format_count(len(use.alive_at_peak), "value")
    return f"Alive at the peak of {printable(use.device)}{where}, beside the weights: {count}"


def _alive(use: DeviceUse) -> Grid:
    rows = [(format_bytes(v.nbytes), Cell(printable(v.name), "name")) for v in use.alive_at_peak[:_MOST_ALIVE]]
    return Grid.of(f"Alive at the peak of {printable(use.device)}", (">bytes", "value"), rows)


def _thinned(memory: DeviceMemory) -> DeviceMemory:
    """The same in few steps: what is drawn of several is the one with the most bytes."""
    steps = memory.steps
    size = max(1, -(-len(steps) // _MOST_STEPS))
    groups = (steps[first : first + size] for first in range(0, len(steps), size))
    return replace(memory, steps=tuple(_most(group) for group in groups))


def _most(steps: Sequence[MemoryStep]) -> MemoryStep:
    return replace(max(steps, key=lambda step: step.nbytes), start=steps[0].start, end=steps[-1].end)


def _plot(memory: DeviceMemory, place: int) -> Markup:
    use = memory.use
    across = Axis(0, (memory.steps[-1].end if memory.steps else 0.0) or 1.0, _FRAME.left, _FRAME.right)
    highest = max(use.peak_bytes, memory.most_bytes, use.budget_bytes or 0, 1)
    up = Axis(0, highest * _ROOM, _FRAME.bottom, _FRAME.top)
    elements = [
        device_head(use, place, 2.0, 16.0),
        *_FRAME.across(across, lambda seconds: format_seconds(seconds) if seconds else "0"),
        *_FRAME.up(up, lambda nbytes: format_bytes(nbytes) if nbytes else "0"),
        *_layers(memory, across, up, hue_of(place)),
        *_lines(memory, up),
        *_peak(memory, across, up),
    ]
    return drawing(WIDTH, _HEIGHT, elements)


def _layers(memory: DeviceMemory, across: Axis, up: Axis, hue: str) -> Iterator[Markup]:
    """From the bottom up: what is held, values between partitions, what is alive inside."""
    steps, held = memory.steps, memory.held_bytes
    values = [held + step.value_bytes for step in steps]
    whole = [held + step.nbytes for step in steps]
    edges = [across.at(step.end) for step in steps]
    yield _band(edges, [up.at(0)] * len(steps), [up.at(held)] * len(steps), f"fill held {hue}")
    yield _band(edges, [up.at(held)] * len(steps), list(map(up.at, values)), f"fill buffers {hue}")
    yield _band(edges, list(map(up.at, values)), list(map(up.at, whole)), f"fill live {hue}")


def _band(edges: Sequence[float], lows: Sequence[float], highs: Sequence[float], style: str) -> Markup:
    """Everything between two staircases, as one shape: no edge shows between steps of one height."""
    if not edges:
        return Markup()
    starts = [_FRAME.left, *edges[:-1]]
    there = "".join(f"V{high:.1f}H{edge:.1f}" for edge, high in zip(edges, highs, strict=True))
    back = "".join(f"V{low:.1f}H{start:.1f}" for start, low in reversed(list(zip(starts, lows, strict=True))))
    return tag("path", d=f"M{_FRAME.left:.1f} {lows[0]:.1f}{there}{back}z", class_=style)


def _lines(memory: DeviceMemory, up: Axis) -> Iterator[Markup]:
    use = memory.use
    y = up.at(use.peak_bytes)
    yield line(_FRAME.left, y, _FRAME.right, y, "counted")
    if use.budget_bytes is not None:
        y = up.at(use.budget_bytes)
        yield line(_FRAME.left, y, _FRAME.right, y, "budget")
        yield text(_FRAME.right - 4, y - 6, f"budget {format_bytes(use.budget_bytes)}", "halo figure", "end")


def _peak(memory: DeviceMemory, across: Axis, up: Axis) -> Iterator[Markup]:
    highest = memory.highest
    if highest is None:
        return
    x, y = across.at((highest.start + highest.end) / 2), up.at(memory.most_bytes)
    leftwards = x > (_FRAME.left + _FRAME.right) / 2
    yield tag("circle", cx=x, cy=y, r=3.5, class_="dot")
    words = f"peak {format_bytes(memory.use.peak_bytes)}"
    yield text(x + (-8 if leftwards else 8), y + 15, words, "halo figure strong", "end" if leftwards else None)
