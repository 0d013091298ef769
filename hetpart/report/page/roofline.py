"""The roofline of the plan: every op where it is placed, its intensity against the rate it is predicted to reach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isfinite, sqrt

from markupsafe import Markup

from hetpart.devices import Device, Machine
from hetpart.plan.figures import DeviceUse
from hetpart.plan.model import Decision, Plan
from hetpart.report.escape import printable
from hetpart.report.page.drawing import WIDTH, Frame, LogAxis, drawing, shortened, tag, text, text_width
from hetpart.report.page.evidence import Evidence
from hetpart.report.page.parts import Drawing, Key, Section, Words, hue_of, mark_of
from hetpart.report.plots.labels import Box, Label, place_labels
from hetpart.report.plots.roofline_series import Dot, Sample, dots_of
from hetpart.report.sentences import own_seconds
from hetpart.units import format_bytes, format_count, format_percent

_HEIGHT = 420.0
_FRAME = Frame(76, 16, WIDTH - 12, _HEIGHT - 44)
_LABELLED, _LEAST_LABELLED = 5, 0.02
_LEAST_RADIUS, _WHOLE_RADIUS = 2.6, 26.0
_MOST_DOTS = 250
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_USUAL_DTYPE = "float32"


@dataclass(frozen=True, slots=True)
class _Roof:
    """What a device can do at most."""

    device: str
    dtype: str
    peak: float
    bandwidth: float


@dataclass(frozen=True, slots=True)
class _Cloud:
    """The ops of a device."""

    place: int
    device: str
    dots: tuple[Dot, ...]
    seconds: float
    """Of all ops there, drawn or not."""
    undrawn: int
    roofs: tuple[_Roof, ...]


def roofline(evidence: Evidence) -> Section:
    """One plot with every device."""
    plan = evidence.plan
    clouds = [_cloud(plan, place, use, evidence.machine) for place, use in enumerate(plan.devices)]
    clouds = [cloud for cloud in clouds if cloud.dots]
    remark = "predicted, every op on the device it is placed on"
    if not clouds:
        return Section("roofline", "Roofline", remark, (Words("No op computes anything."),))
    keys = tuple(
        Key(f"fill {hue_of(cloud.place)}", f"{mark_of(cloud.place)} {printable(cloud.device)}") for cloud in clouds
    )
    said = "; ".join(_said(cloud) for cloud in clouds)
    return Section("roofline", "Roofline", remark, (Drawing(_plot(clouds), said, _caption(evidence, clouds), keys),))


def _said(cloud: _Cloud) -> str:
    return f"{printable(cloud.device)}: {format_count(sum(dot.ops for dot in cloud.dots), 'op')} drawn"


def _caption(evidence: Evidence, clouds: Sequence[_Cloud]) -> str:
    undrawn = sum(cloud.undrawn for cloud in clouds)
    left_out = f" {format_count(undrawn, 'op')} without arithmetic or bytes moved not drawn." if undrawn else ""
    roofs = "" if evidence.machine else " The machine's figures are not known here, so no roofs are drawn."
    return f"A dot's area is its share of its device's time; ×N stands for N alike ops.{left_out}{roofs}"


def _cloud(plan: Plan, place: int, use: DeviceUse, machine: Machine | None) -> _Cloud:
    own = [decision for decision in plan.decisions if decision.device == use.device]
    drawn = [decision for decision in own if _is_drawn(decision)]
    return _Cloud(
        place=place,
        device=use.device,
        dots=dots_of(map(_sample, drawn))[:_MOST_DOTS],
        seconds=sum(map(own_seconds, own)),
        undrawn=len(own) - len(drawn),
        roofs=() if machine is None else tuple(_roofs(plan, machine.devices[place])),
    )


def _is_drawn(decision: Decision) -> bool:
    figures = (decision.flops, decision.intensity, own_seconds(decision))
    return all(figure > 0 and isfinite(figure) for figure in figures)


def _sample(decision: Decision) -> Sample:
    seconds = own_seconds(decision)
    return Sample(decision.op, decision.op_type, decision.intensity, decision.flops / seconds, seconds)


def _roofs(plan: Plan, device: Device) -> Iterator[_Roof]:
    """Of the dtypes that cross borders: a plan says no others."""
    dtypes = {spec.dtype for spec in (*plan.inputs, *plan.outputs, *plan.values)}
    known = sorted(dtypes.intersection(device.peak_flops)) or [_USUAL_DTYPE]
    peaks = {device.peak_flops[dtype]: dtype for dtype in known if dtype in device.peak_flops}
    return (_Roof(device.name, dtype, peak, device.bandwidth) for peak, dtype in sorted(peaks.items()))


def _plot(clouds: Sequence[_Cloud]) -> Markup:
    across, up = _axes(clouds)
    roofs = [(cloud, roof) for cloud in clouds for roof in cloud.roofs]
    elements = [
        *_FRAME.across(across, _intensity),
        *_FRAME.up(up, _rate),
        text((_FRAME.left + _FRAME.right) / 2, _HEIGHT - 6, "intensity, FLOP per byte moved", "faint", "middle"),
        text(_FRAME.left + 6, _FRAME.top + 12, "rate, FLOP/s", "faint halo"),
        *(_roof(roof, cloud.place, across, up) for cloud, roof in roofs),
        *(_dot(dot, cloud, across, up) for cloud in clouds for dot in reversed(cloud.dots)),
        *_labels(clouds, across, up, [_roof_label(roof, cloud.place, up) for cloud, roof in roofs]),
    ]
    return drawing(WIDTH, _HEIGHT, elements)


def _axes(clouds: Sequence[_Cloud]) -> tuple[LogAxis, LogAxis]:
    roofs = [roof for cloud in clouds for roof in cloud.roofs]
    dots = [dot for cloud in clouds for dot in cloud.dots]
    intensities = [dot.intensity for dot in dots] + [roof.peak / roof.bandwidth for roof in roofs]
    rates = [dot.rate for dot in dots] + [roof.peak for roof in roofs]
    return (
        LogAxis(min(intensities) / 3, max(intensities) * 6, _FRAME.left, _FRAME.right),
        LogAxis(min(rates) / 4, max(rates) * 4, _FRAME.bottom, _FRAME.top),
    )


def _intensity(figure: float) -> str:
    return f"{figure:g}"


def _rate(figure: float) -> str:
    scale, prefix = next((row for row in _PREFIXES if figure >= row[0] * 0.9995), (1.0, ""))
    return f"{figure / scale:.3g} {prefix}".strip()


def _roof(roof: _Roof, place: int, across: LogAxis, up: LogAxis) -> Markup:
    """The bandwidth as a slope up to the peak, and on along it."""
    foot = max(across.low, up.low / roof.bandwidth)
    ridge = roof.peak / roof.bandwidth
    points = [(foot, foot * roof.bandwidth), (ridge, roof.peak), (across.high, roof.peak)]
    written = "L".join(f"{across.at(x):.1f} {up.at(y):.1f}" for x, y in points)
    title = tag("title", f"{printable(roof.device)}: {format_bytes(roof.bandwidth)}/s, {_rate(roof.peak)}FLOP/s")
    return tag("path", title, d=f"M{written}", class_=f"roof {hue_of(place)}")


@dataclass(frozen=True, slots=True)
class _Placed:
    """A text with its box."""

    words: str
    room: Box
    style: str


def _roof_label(roof: _Roof, place: int, up: LogAxis) -> _Placed:
    words = f"{printable(roof.device)} {roof.dtype} {_rate(roof.peak)}FLOP/s, {format_bytes(roof.bandwidth)}/s"
    y = up.at(roof.peak) - 6
    return _Placed(
        words, Box(_FRAME.right - 4 - text_width(words), y - 11, _FRAME.right - 4, y + 3), f"ink {hue_of(place)}"
    )


def _radius(dot: Dot, cloud: _Cloud) -> float:
    return _LEAST_RADIUS + _WHOLE_RADIUS * sqrt(dot.seconds / cloud.seconds if cloud.seconds else 0.0)


def _dot(dot: Dot, cloud: _Cloud, across: LogAxis, up: LogAxis) -> Markup:
    x, y, radius = across.at(dot.intensity), up.at(dot.rate), _radius(dot, cloud)
    share = format_percent(dot.seconds / cloud.seconds)
    title = tag("title", f"{_name(dot)} on {printable(cloud.device)}: {share} of its time, {_rate(dot.rate)}FLOP/s")
    style = f"op {hue_of(cloud.place)}"
    if cloud.place % 2:
        side = radius * 1.7
        return tag("rect", title, x=x - side / 2, y=y - side / 2, width=side, height=side, rx=1, class_=style)
    return tag("circle", title, cx=x, cy=y, r=radius, class_=style)


def _name(dot: Dot) -> str:
    return f"{printable(dot.op_type)} ×{dot.ops:,}" if dot.ops > 1 else printable(dot.name)


def _labels(clouds: Sequence[_Cloud], across: LogAxis, up: LogAxis, taken: Sequence[_Placed]) -> Iterator[Markup]:
    """The largest dots' names, off each other and off what is drawn. The labels' own room has y upwards, as all has."""
    for label in taken:
        yield text(label.room.right, label.room.top - 3, label.words, f"halo {label.style}", "end")
    chosen = [(dot, cloud) for cloud in clouds for dot in cloud.dots[:_LABELLED] if _is_labelled(dot, cloud)]
    chosen.sort(key=lambda item: -item[0].seconds / item[1].seconds)
    words = [f"{shortened(_name(dot), 190)}, {format_percent(dot.seconds / cloud.seconds)}" for dot, cloud in chosen]
    labels = [
        Label(across.at(dot.intensity), up.at(dot.rate), _radius(dot, cloud), text_width(word), 14)
        for (dot, cloud), word in zip(chosen, words, strict=True)
    ]
    dots = [_around(dot, cloud, across, up) for cloud in clouds for dot in cloud.dots]
    room = Box(_FRAME.left, _FRAME.top, _FRAME.right, _FRAME.bottom)
    for label, word, found in zip(
        labels, words, place_labels(labels, room, [t.room for t in taken], dots), strict=True
    ):
        yield from _leader(label, found)
        yield text(found.left, found.top - 3, word, "halo")


def _is_labelled(dot: Dot, cloud: _Cloud) -> bool:
    return dot.seconds >= _LEAST_LABELLED * (cloud.seconds or inf)


def _around(dot: Dot, cloud: _Cloud, across: LogAxis, up: LogAxis) -> Box:
    x, y, radius = across.at(dot.intensity), up.at(dot.rate), _radius(dot, cloud)
    return Box(x - radius, y - radius, x + radius, y + radius)


def _leader(label: Label, found: Box) -> Iterator[Markup]:
    x = min(max(label.x, found.left), found.right)
    y = min(max(label.y, found.bottom), found.top)
    yield tag("line", x1=label.x, y1=label.y, x2=x, y2=y, class_="leader")
