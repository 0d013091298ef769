"""What memory buys: our plan and the other rules by memory and latency, the shadow price, and the curve where known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from hetpart.plan.curves import Curve, CurvePoint
from hetpart.plan.model import Plan
from hetpart.report import sentences
from hetpart.report.page.drawing import WIDTH, Axis, Frame, drawing, line, path, tag, text, text_width
from hetpart.report.page.evidence import Evidence
from hetpart.report.page.parts import Cell, Drawing, Fold, Grid, Key, Part, Section, Words
from hetpart.report.plots.labels import Box, Label, place_labels
from hetpart.units import format_bytes, format_percent, format_seconds

_HEIGHT = 320.0
_FRAME = Frame(76, 20, WIDTH - 16, _HEIGHT - 46)
_FAR = 12.0
"""Rules that are slower by this factor are told in the table of rules alone: drawn, they would flatten the rest."""
_NO_CURVE = (
    "The curve between the budgets was not asked for: hetpart sweep MODEL --json > sweep.json, "
    "then hetpart report BUNDLE --html FILE --curve sweep.json."
)


@dataclass(frozen=True, slots=True)
class _Spot:
    """A placement by what it holds on the accelerators and how long a run takes."""

    nbytes: int
    seconds: float
    words: str
    ours: bool = False


def budget(evidence: Evidence) -> Section:
    """The plot, the price in words, and the points of the curve."""
    plan, curve = evidence.plan, evidence.curve
    spots = _spots(plan)
    parts: list[Part] = [Words(sentences.worth(plan), "strong")]
    if any(spot.nbytes for spot in spots):
        parts.append(_drawn(plan, spots, curve))
    if curve is None:
        parts.append(Words(_NO_CURVE, "dim"))
    else:
        parts.append(Fold("The curve as a table", (_points(curve),)))
    return Section("budget", "What memory buys", "predicted, ops one after another", tuple(parts))


def _spots(plan: Plan) -> list[_Spot]:
    ours = _Spot(sentences.accelerator_peak(plan), plan.prediction.seconds, "this plan", ours=True)
    others = [
        _Spot(rule.peak_bytes, rule.seconds or 0.0, sentences.label(rule))
        for rule in sentences.ranked(plan)
        if sentences.has_seconds(rule) and (rule.seconds or 0.0) <= _FAR * ours.seconds
    ]
    return [ours, *others]


def _drawn(plan: Plan, spots: Sequence[_Spot], curve: Curve | None) -> Drawing:
    limit = sum(use.budget_bytes or 0 for use in plan.devices[1:])
    points = () if curve is None else _fitting(curve)
    across, up = _axes(plan, spots, points, limit)
    elements = [
        *_FRAME.across(across, lambda nbytes: format_bytes(nbytes) if nbytes else "0"),
        *_FRAME.up(up, lambda seconds: format_seconds(seconds) if seconds else "0"),
        text((_FRAME.left + _FRAME.right) / 2, _HEIGHT - 6, "accelerator memory", "faint", "middle"),
        *_curve(points, across, up),
        *_bound(plan, limit, across, up),
        *_limit(limit, across),
        *_tangent(plan, spots[0], across, up),
        *_marks(spots, _lines(plan, points, limit, across, up), across, up),
    ]
    said = ", ".join(f"{spot.words}: {format_seconds(spot.seconds)} with {format_bytes(spot.nbytes)}" for spot in spots)
    caption = "Each mark is a placement: what it holds on the accelerator, and how long a run takes."
    return Drawing(drawing(WIDTH, _HEIGHT, elements), said, caption, tuple(_keys(plan, limit, curve)))


def _keys(plan: Plan, limit: int, curve: Curve | None) -> Iterator[Key]:
    yield Key("bound", "no placement within the budget is faster, sessions left out")
    if limit:
        yield Key("budget", "budget")
    if plan.certificate.price > 0:
        yield Key("tangent", "shadow price: what a little more memory buys")
    if curve is not None:
        yield Key("curve", "the best plan found under each budget")


def _fitting(curve: Curve) -> tuple[CurvePoint, ...]:
    return tuple(point for point in curve.points if point.seconds is not None)


def _axes(plan: Plan, spots: Sequence[_Spot], points: Sequence[CurvePoint], limit: int) -> tuple[Axis, Axis]:
    known = max(limit, *(spot.nbytes for spot in spots), *(point.budget_bytes for point in points))
    most = known if limit < 2 * plan.footprint_bytes else max(plan.footprint_bytes, 1)
    slowest = max([spot.seconds for spot in spots] + [point.seconds or 0.0 for point in points])
    return (
        Axis(0, max(most, 1) * 1.06, _FRAME.left, _FRAME.right),
        Axis(0, (slowest or 1.0) * 1.1, _FRAME.bottom, _FRAME.top),
    )


def _curve(points: Sequence[CurvePoint], across: Axis, up: Axis) -> Iterator[Markup]:
    """A plan serves every budget from what it takes on; a bound holds for every smaller budget."""
    shown = [point for point in points if point.budget_bytes <= across.high]
    if not shown:
        return
    steps: list[tuple[float, float]] = []
    bounds: list[tuple[float, float]] = []
    for point in shown:
        x, y = across.at(max(point.peak_bytes or 0, shown[0].budget_bytes)), up.at(point.seconds or 0.0)
        steps += [(x, steps[-1][1]), (x, y)] if steps else [(x, y)]
        low, edge = up.at(point.lower_bound or 0.0), across.at(point.budget_bytes)
        bounds += [(bounds[-1][0], low), (edge, low)] if bounds else [(edge, low)]
    steps.append((across.at(shown[-1].budget_bytes), steps[-1][1]))
    yield path(steps, "curve")
    yield path(bounds, "curvebound")
    for point in shown:
        title = tag("title", f"{format_bytes(point.budget_bytes)}: {format_seconds(point.seconds or 0.0)}")
        place = {"cx": across.at(point.budget_bytes), "cy": up.at(point.seconds or 0.0)}
        yield tag("circle", title, **place, r=6.0 if point.knee else 3.0, class_="curvedot")


def _bound(plan: Plan, limit: int, across: Axis, up: Axis) -> Iterator[Markup]:
    y = up.at(plan.certificate.lower_bound)
    end = across.at(min(limit or across.high, across.high))
    yield line(_FRAME.left, y, end, y, "bound")


def _limit(limit: int, across: Axis) -> Iterator[Markup]:
    if not limit:
        return
    if limit > across.high:
        yield text(_FRAME.right - 4, _FRAME.top + 12, f"budget {format_bytes(limit)} →", "halo figure", "end")
        return
    x = across.at(limit)
    leftwards = x > (_FRAME.left + _FRAME.right) / 2
    yield line(x, _FRAME.top, x, _FRAME.bottom, "budget")
    words = f"budget {format_bytes(limit)}"
    yield text(x + (-6 if leftwards else 6), _FRAME.top + 12, words, "halo figure", "end" if leftwards else None)


def _tangent(plan: Plan, ours: _Spot, across: Axis, up: Axis) -> Iterator[Markup]:
    """Through our plan, a tenth of the axis each way, as far as latencies are above nothing."""
    price = plan.certificate.price
    if price <= 0:
        return
    reach = min(across.high / 10, ours.seconds / price)
    ends = [(ours.nbytes + step, ours.seconds - price * step) for step in (-reach, reach)]
    shown = [(min(max(x, 0.0), across.high), min(max(y, 0.0), up.high)) for x, y in ends]
    yield path([(across.at(x), up.at(y)) for x, y in shown], "tangent")


def _lines(plan: Plan, points: Sequence[CurvePoint], limit: int, across: Axis, up: Axis) -> list[Box]:
    """Small boxes along the lines, for labels to keep off."""
    x, y = across.at(limit), up.at(plan.certificate.lower_bound)
    found = [Box(x - 3, step, x + 3, step + 12) for step in _every(_FRAME.top, _FRAME.bottom)] if limit else []
    found += [Box(step, _FRAME.top, step + 12, _FRAME.top + 16) for step in _every(x - 130, x + 130)] if limit else []
    found += [Box(step, y - 3, step + 12, y + 3) for step in _every(_FRAME.left, min(x, _FRAME.right))]
    for point, after in pairwise(points):
        level, drop = up.at(point.seconds or 0.0), across.at(after.peak_bytes or 0)
        found += [Box(step, level - 3, step + 12, level + 3) for step in _every(across.at(point.peak_bytes or 0), drop)]
        found += [Box(drop - 3, step, drop + 3, step + 12) for step in _every(level, up.at(after.seconds or 0.0))]
    return found


def _every(first: float, last: float) -> list[float]:
    return [first + 12 * number for number in range(max(0, int((last - first) / 12)))]


def _marks(spots: Sequence[_Spot], lines: Sequence[Box], across: Axis, up: Axis) -> Iterator[Markup]:
    words = [f"{spot.words}, {format_seconds(spot.seconds)}" for spot in spots]
    labels = [
        Label(across.at(spot.nbytes), up.at(spot.seconds), 6, text_width(word), 14)
        for spot, word in zip(spots, words, strict=True)
    ]
    dots = [Box(label.x - 6, label.y - 6, label.x + 6, label.y + 6) for label in labels]
    room = Box(_FRAME.left, _FRAME.top, _FRAME.right, _FRAME.bottom)
    found = place_labels(labels, room, [], [*dots, *lines])
    for spot, label, word, box in zip(spots, labels, words, found, strict=True):
        style = "spot ours" if spot.ours else "spot"
        yield tag("circle", tag("title", word), cx=label.x, cy=label.y, r=6.0 if spot.ours else 4.5, class_=style)
        yield text(box.left, box.top - 3, word, "halo strong" if spot.ours else "halo faint")


def _points(curve: Curve) -> Grid:
    rows = [_row(point) for point in curve.points]
    headers = (">budget", ">latency", ">bound", ">gap", ">takes", ">partitions", ">1 MB more buys", "")
    return Grid.of("Latency under every budget", headers, rows)


def _row(point: CurvePoint) -> tuple[Cell | str, ...]:
    budget = format_bytes(point.budget_bytes)
    if point.seconds is None:
        return budget, Cell("does not fit", "bad"), "", "", "", "", "", sentences.needs(point)
    return (
        budget,
        format_seconds(point.seconds),
        format_seconds(point.lower_bound or 0.0),
        format_percent(point.gap or 0.0),
        format_bytes(point.peak_bytes or 0),
        f"{point.partitions or 0:,}",
        "–" if point.price is None else format_seconds(point.price * 1e6) if point.price else "nothing",
        "◆ knee: more buys much less" if point.knee else "",
    )
