"""What a roofline shows: where ops lie on a device, and the roofs over them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite, log10

from hetpart.cost_model.annotate import Costs, OpCost
from hetpart.cost_model.breakdown import qualified_type
from hetpart.devices import Device
from hetpart.graph.ir import Op

_STEPS_PER_DECADE = 60
"""Ops of one type that lie closer together are one dot."""
_DEFAULT_DTYPE = "float32"


@dataclass(frozen=True, slots=True)
class Dot:
    """Ops of one type that lie at one place."""

    name: str
    """Of the first."""
    op_type: str
    ops: int
    intensity: float
    """Flops per byte moved on the device, fusion counted."""
    rate: float
    """Flops per second."""
    seconds: float
    """Of all of them."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One op and where it lies."""

    name: str
    op_type: str
    intensity: float
    rate: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Series:
    """The ops of a model on one device, and its roofs."""

    device: Device
    dots: tuple[Dot, ...]
    """The largest first."""
    seconds: float
    """Of all ops that have a kernel there, drawn or not."""
    undrawn: int
    """Ops with a kernel there that have no place: without arithmetic, or without a byte moved."""
    peaks: tuple[tuple[str, float], ...]
    """Dtype and flops per second, the lowest first."""


def roofline_series(costs: Costs, index: int) -> Series:
    """What to draw of the device at ``index``."""
    device = costs.met.devices[index]
    able = [(op, cost) for op, cost in zip(costs.graph.ops, costs.ops, strict=True) if not cost.missing[index]]
    drawn = [(op, cost) for op, cost in able if _is_drawn(cost, index)]
    return Series(
        device=device,
        dots=dots_of(_sample(op, cost, index) for op, cost in drawn),
        seconds=sum(cost.seconds[index] for _, cost in able),
        undrawn=len(able) - len(drawn),
        peaks=_peaks(device, costs, [op for op, _ in drawn]),
    )


def _is_drawn(cost: OpCost, index: int) -> bool:
    figures = (cost.work.flops, cost.seconds[index], cost.estimates[index].intensity)
    return all(figure > 0 and isfinite(figure) for figure in figures)


def _sample(op: Op, cost: OpCost, index: int) -> Sample:
    seconds = cost.seconds[index]
    return Sample(op.name, qualified_type(op), cost.estimates[index].intensity, cost.work.flops / seconds, seconds)


def dots_of(samples: Iterable[Sample]) -> tuple[Dot, ...]:
    """What of ``samples`` can be told apart, the largest first. All their figures are more than 0."""
    groups: dict[tuple[str, int, int], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample.op_type, _step(sample.intensity), _step(sample.rate)), []).append(sample)
    return tuple(sorted(map(_dot, groups.values()), key=lambda dot: -dot.seconds))


def _step(figure: float) -> int:
    return round(log10(figure) * _STEPS_PER_DECADE)


def _dot(members: Sequence[Sample]) -> Dot:
    first = members[0]
    seconds = sum(sample.seconds for sample in members)
    return Dot(first.name, first.op_type, len(members), first.intensity, first.rate, seconds)


def _peaks(device: Device, costs: Costs, ops: Sequence[Op]) -> tuple[tuple[str, float], ...]:
    """Peaks of the dtypes that the ops read, as far as the device has one of its own for them."""
    values = costs.graph.values
    dtypes = {values[value].dtype for op in ops for value in op.inputs[:1] if value is not None}
    found = {dtype: device.peak_flops[dtype] for dtype in sorted(dtypes) if dtype in device.peak_flops}
    return tuple(sorted((found or {_DEFAULT_DTYPE: device.peak_flops[_DEFAULT_DTYPE]}).items(), key=lambda p: p[1]))
