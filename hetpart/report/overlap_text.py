"""The section of the report on lanes that work at the same time."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from hetpart.plan.figures import NONE_STREAMED
from hetpart.plan.model import Plan
from hetpart.plan.timeline import LEAST_GAIN, Timeline
from hetpart.report.layout import heading, line, name, table
from hetpart.units import format_count, format_seconds

_OVERLAPS = "predicted; a run overlaps, unless with --no-overlap"
_SERIAL = f"predicted; a run overlaps where that saves {format_seconds(LEAST_GAIN)} or with --overlap, so not here"
_ADVICE = "partition --overlap cuts for it"
_NOTICEABLE = 1.0005


def overlap(plan: Plan) -> Iterator[RenderableType]:
    """Both latencies, each with what bounds it, and which a run takes; nothing where there is but one thing to do."""
    timeline = plan.timeline
    if timeline is None or len(timeline.tasks) < 2:
        return
    yield heading("Overlap", _OVERLAPS if timeline.pays else _SERIAL)
    yield table(
        ("", ">predicted", ">at least", "bounded by"),
        [
            _row("one after another", plan.prediction.seconds, plan.certificate.lower_bound, _placements(plan)),
            _row("overlapped", timeline.seconds, timeline.lower_bound, "any order of these partitions and copies"),
        ],
    )
    yield line(_gain(timeline, cut_for_it="overlap" in plan.options), " ", _bounds(timeline))


def _placements(plan: Plan) -> str:
    """What the lower bound is one of."""
    return f"any placement {NONE_STREAMED}" if NONE_STREAMED in plan.certificate.speaks_of else "any placement"


def _row(label: str, seconds: float, bound: float, what: str) -> tuple[str, ...]:
    return label, format_seconds(seconds), format_seconds(bound), what


def _gain(timeline: Timeline, *, cut_for_it: bool) -> str:
    if timeline.serial_seconds < timeline.seconds * _NOTICEABLE:
        return "It saves nothing." if cut_for_it else f"It saves nothing as the model is cut; {_ADVICE}."
    return f"It makes a run {timeline.serial_seconds / timeline.seconds:.2f}× as fast."


def _bounds(timeline: Timeline) -> Text:
    """What no cut can be faster than; the critical path; every lane with how long it works, the busiest first."""
    finest, path = format_seconds(timeline.finest_bound), format_seconds(timeline.critical_path)
    path = f"However these ops were cut, it would take at least {finest}. Critical path {path}; busy: "
    ranked = sorted(timeline.lanes, key=lambda use: -use.seconds)
    lanes = [Text.assemble(name(use.lane), f" {format_seconds(use.seconds)}") for use in ranked]
    return Text.assemble(path, Text(", ").join(lanes), f"; {format_count(len(timeline.tasks), 'task')}.")
