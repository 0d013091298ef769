"""The timeline of the lanes: what is predicted, and under it what a run measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from hetpart.plan.model import Plan
from hetpart.plan.predicted import PredictedRun, predicted_run
from hetpart.plan.traces import MeasuredRun
from hetpart.report.escape import printable
from hetpart.report.page.drawing import WIDTH, Axis, Frame, box, drawing, tag, text, text_width
from hetpart.report.page.evidence import Evidence
from hetpart.report.page.lanes import Lane, Stretch, Timed, lanes
from hetpart.report.page.parts import Drawing, Fold, Grid, Key, Section, Words, device_cell, hue_of, mark_of
from hetpart.report.sentences import ran_as_planned
from hetpart.units import format_count, format_percent, format_seconds

_LEFT, _ROW, _HEAD, _FOOT = 150.0, 30.0, 30.0, 34.0
_BAR = 20.0
_FAR = 4.0
"""Runs that differ by a larger factor have a scale each."""
_APART = 0.8
"""Units of the drawing below which tasks are not told apart."""


@dataclass(frozen=True, slots=True)
class _Block:
    """Lanes under one word, on one scale."""

    word: str
    lanes: tuple[Lane, ...]
    axis: Axis


def timeline(evidence: Evidence) -> Section:
    """Lanes over time, and how busy each is."""
    plan, run = evidence.plan, evidence.run
    planned = predicted_run(plan)
    if not planned.tasks:
        return Section("timeline", "Timeline", "", (Words("There is nothing to run."),))
    blocks = list(_blocks(planned, run))
    said = Words(_NO_RUN, "dim") if run is None else Words(_errors(plan, planned, run))
    remark = "devices and copies at work at the same time" if planned.overlapped else "one after another"
    return Section("timeline", "Timeline", remark, (_drawn(plan, blocks), said, Fold(_BUSY, (_busy(plan, blocks),))))


def _blocks(planned: PredictedRun, run: MeasuredRun | None) -> Iterator[_Block]:
    """On one scale where both can be seen on it."""
    measured = planned.seconds if run is None else run.seconds
    longest, shortest = max(planned.seconds, measured), min(planned.seconds, measured)
    common = longest if longest < _FAR * shortest else 0.0
    yield _block("predicted", planned.tasks, common or planned.seconds)
    if run is not None:
        yield _block(_MEASURED_EMULATED if run.emulated else "measured", run.tasks, common or run.seconds)


def _block(word: str, tasks: Sequence[Timed], whole: float) -> _Block:
    apart = _APART * whole / (WIDTH - _LEFT)
    return _Block(word, tuple(lanes(tasks, apart)), Axis(0, whole or 1.0, _LEFT, WIDTH - 14))


_MEASURED_EMULATED = "measured, accelerators emulated on the CPU"
_BUSY = "How long every lane works"
_NO_RUN = (
    "Nothing was measured for this page: hetpart run BUNDLE --random --repeat 5 --trace trace.json, "
    "then hetpart report BUNDLE --html FILE --trace trace.json."
)


def _errors(plan: Plan, planned: PredictedRun, run: MeasuredRun) -> str:
    predicted, measured = planned.seconds, run.seconds
    if not ran_as_planned(plan.machine.name, emulated=run.emulated):
        machine = printable(plan.machine.name)
        return (
            f"Measured {format_seconds(measured)} with accelerators emulated on the CPU. "
            f"Predicted {format_seconds(predicted)} on {machine}, "
            "which is not what ran: plan with --hardware emulated to compare."
        )
    if not measured or not predicted:
        return f"The run took {format_seconds(measured)}."
    side = "above" if predicted > measured else "below"
    error = format_percent(abs(predicted - measured) / measured)
    return f"Measured {format_seconds(measured)}, predicted {format_seconds(predicted)}: {error} {side}."


def _drawn(plan: Plan, blocks: Sequence[_Block]) -> Drawing:
    elements, top = list[Markup](), 0.0
    for block in blocks:
        elements += _lanes(plan, block, top)
        top += _HEAD + _ROW * len(block.lanes) + _FOOT
    said = "; ".join(f"{block.word}: {', '.join(map(_lane_words, block.lanes))}" for block in blocks)
    places = {use.device: place for place, use in enumerate(plan.devices)}
    computing = dict.fromkeys(lane.name for block in blocks for lane in block.lanes if lane.name in places)
    keys = [Key(f"fill {hue_of(places[name])}", f"{mark_of(places[name])} {printable(name)}") for name in computing]
    return Drawing(drawing(WIDTH, top, elements), said, "", (*keys, Key("copyfill", "copy")))


def _lane_words(lane: Lane) -> str:
    return f"{_arrowed(lane.name)} busy {format_seconds(lane.busy)}"


def _arrowed(lane: str) -> str:
    return printable(lane).replace("->", " → ")


def _lanes(plan: Plan, block: _Block, top: float) -> Iterator[Markup]:
    """The word, the ruler, and the lanes over it."""
    yield text(2, top + 16, block.word, "strong")
    frame = Frame(_LEFT, top + _HEAD - 4, WIDTH - 14, top + _HEAD + _ROW * len(block.lanes) - 6)
    yield from frame.across(block.axis, lambda seconds: format_seconds(seconds) if seconds else "0")
    places = {use.device: place for place, use in enumerate(plan.devices)}
    for number, lane in enumerate(block.lanes):
        yield from _lane(lane, None if lane.is_copy else places.get(lane.name), top + _HEAD + number * _ROW, block.axis)


def _lane(lane: Lane, place: int | None, y: float, axis: Axis) -> Iterator[Markup]:
    """``place`` is the device's, and None for copies."""
    head = _arrowed(lane.name) if place is None else f"{mark_of(place)} {printable(lane.name)}"
    yield text(_LEFT - 10, y + 14, head, "copyink" if place is None else f"ink {hue_of(place)}", "end")
    yield box(_LEFT, y, axis.end - _LEFT, _BAR, "rail")
    style = "copyfill" if place is None else f"fill task {hue_of(place)}"
    for stretch in lane.stretches:
        yield from _bar(stretch, y, axis, style, numbered=place is not None)


def _bar(stretch: Stretch, y: float, axis: Axis, style: str, *, numbered: bool) -> Iterator[Markup]:
    x, width = axis.at(stretch.start), max(_APART, axis.at(stretch.end) - axis.at(stretch.start))
    several = f" and {stretch.tasks - 1:,} more" if stretch.tasks > 1 else ""
    seconds = format_seconds(stretch.end - stretch.start)
    yield box(x, y, width, _BAR, style, f"{printable(stretch.name)}{several}: {seconds}")
    word = f"#{stretch.name.removeprefix('partition ')}"
    if numbered and stretch.tasks == 1 and text_width(word) < width - 6:
        yield tag("text", word, x=x + width / 2, y=y + 14, class_="inside", text_anchor="middle")


def _busy(plan: Plan, blocks: Sequence[_Block]) -> Grid:
    rows = [
        (
            block.word,
            device_cell(plan, lane.name) if not lane.is_copy else _arrowed(lane.name),
            format_seconds(lane.busy),
            format_count(lane.tasks, "copy" if lane.is_copy else "partition"),
        )
        for block in blocks
        for lane in block.lanes
    ]
    return Grid.of(_BUSY, ("", "lane", ">busy", ">tasks"), rows)
