"""The verdict: does it fit, how fast is it, how good is that, and what is left of every budget."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from hetpart.plan.figures import PROVEN_GAP, DeviceUse
from hetpart.plan.model import Plan
from hetpart.report import sentences
from hetpart.report.escape import printable
from hetpart.report.page.drawing import WIDTH, Axis, box, line, stretched
from hetpart.report.page.evidence import Evidence
from hetpart.report.page.parts import Bar, Bars, Cell, Key, Section, Tile, Tiles, Words, hue_of
from hetpart.units import format_bytes, format_count, format_percent, format_seconds

_HEIGHT, _BAR = 28.0, 20.0
_PARTS = (
    ("weights", "weights"),
    ("states", "states"),
    ("buffers", "buffers between partitions"),
    ("live", "alive inside a partition"),
    ("sessions", "sessions"),
)


def opening(evidence: Evidence) -> Section:
    """Verdict and headroom."""
    plan = evidence.plan
    judged = [
        Words(
            f"{'Fits' if sentences.fits(use) else 'Does not fit'}: {sentences.fit(use, use.budget_bytes)}", _tone(use)
        )
        for use in plan.devices
        if use.budget_bytes is not None
    ]
    seconds = format_seconds(sentences.run_seconds(plan))
    speed = Words(f"Predicted latency: {seconds}{sentences.speed(plan)}")
    parts = (Tiles(tuple(_tiles(plan))), *judged, speed, Words(sentences.footprint(plan), "dim"), _headroom(plan))
    return Section("verdict", "Verdict", "predicted; nothing here was measured", parts)


def _tone(use: DeviceUse) -> str:
    return "good" if sentences.fits(use) else "bad"


def _tiles(plan: Plan) -> Iterator[Tile]:
    fits = all(map(sentences.fits, plan.devices))
    yield Tile("Budget", "Fits" if fits else "Does not fit", _limits(plan), "good" if fits else "bad")
    yield Tile("Latency", format_seconds(sentences.run_seconds(plan)), _beside(plan))
    yield from (_headroom_tile(use, use.headroom_bytes) for use in plan.devices if use.headroom_bytes is not None)
    yield Tile("Optimum", _optimum(plan), f"lower bound {format_seconds(plan.certificate.lower_bound)}")
    copied = format_bytes(sum(copy.nbytes for copy in plan.transfers)) if plan.transfers else "nothing is copied"
    pieces = format_count(len(plan.partitions), "partition")
    yield Tile("Cut into", pieces, f"{format_count(len(plan.transfers), 'copy')}, {copied}")


def _limits(plan: Plan) -> str:
    limited = [use for use in plan.devices if use.budget_bytes is not None]
    return (
        ", ".join(f"{format_bytes(use.budget_bytes or 0)} on {printable(use.device)}" for use in limited) or "none set"
    )


def _beside(plan: Plan) -> str:
    best = sentences.best_baseline(plan)
    return "" if best is None else f"{sentences.ratio(best, plan):.2f}× as fast as {sentences.rule(best)}"


def _headroom_tile(use: DeviceUse, left: int) -> Tile:
    of = f"peak {format_bytes(use.peak_bytes)} of {format_bytes(use.budget_bytes or 0)}"
    word = "Headroom" if left >= 0 else "Short"
    return Tile(f"{word} on {printable(use.device)}", format_bytes(abs(left)), of, "" if left >= 0 else "bad")


def _optimum(plan: Plan) -> str:
    proof = plan.certificate
    if proof.gap <= PROVEN_GAP:
        return "Reached"
    return f"Within {format_percent(sentences.excess(proof))}" if proof.lower_bound > 0 else "Not bounded"


def _headroom(plan: Plan) -> Bars:
    """Every device's peak as a bar of what it is made of, under its budget."""
    bars = tuple(_bar(use, place) for place, use in enumerate(plan.devices))
    used = [(style, word) for style, word in _PARTS if any(_sizes(use)[style] for use in plan.devices)]
    keys = tuple(Key(f"fill {style}", word) for style, word in used)
    return Bars(bars, "Peak of every device against its budget", _SCALE, (*keys, Key("budget", "budget")))


_SCALE = "Each bar has a scale of its own: the whole width is the budget or, where that is less, the peak."


def _sizes(use: DeviceUse) -> dict[str, int]:
    return {
        "weights": use.weight_bytes, "states": use.state_bytes, "buffers": use.buffer_bytes,
        "live": use.activation_bytes, "sessions": use.session_bytes,
    }  # fmt: skip


def _bar(use: DeviceUse, place: int) -> Bar:
    name = Cell(printable(use.device), device=place)
    return Bar(name, printable(use.model), _said(use), stretched(_HEIGHT, _filled(use, place)))


def _filled(use: DeviceUse, place: int) -> Iterator[Markup]:
    budget = use.budget_bytes
    axis = Axis(0, max(use.peak_bytes, budget or 0, 1), 0, WIDTH - 3)
    top = (_HEIGHT - _BAR) / 2
    yield box(0, top, axis.end, _BAR, "rail")
    now = 0
    for style, word in _PARTS:
        size = _sizes(use)[style]
        yield box(axis.at(now), top, axis.at(now + size) - axis.at(now), _BAR, f"fill {style} {hue_of(place)}",
                  f"{word}: {format_bytes(size)}")  # fmt: skip
        now += size
    if budget is not None:
        yield line(axis.at(budget), 0, axis.at(budget), _HEIGHT, "budget")


def _said(use: DeviceUse) -> str:
    if use.budget_bytes is None:
        return f"{format_bytes(use.peak_bytes)}, no budget"
    left = use.headroom_bytes or 0
    spare = f"{format_bytes(left)} to spare" if left >= 0 else f"{format_bytes(-left)} short"
    return f"{format_bytes(use.peak_bytes)} of {format_bytes(use.budget_bytes)}, {spare}"
