"""How two plans are compared."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hetpart.plan.differences import (
    Change,
    DeviceChange,
    DirectionChange,
    HeldWeight,
    LoneOp,
    MovedOp,
    PlanDiff,
    PlanSide,
    Regression,
    WeightChange,
)
from hetpart.plan.figures import DeviceUse
from hetpart.plan.match import matched_ops
from hetpart.plan.model import Decision, Plan, Transfer
from hetpart.plan.predicted import predicted_run
from hetpart.units import format_bytes

_NUMBERED = re.compile(r"[^./]*_\d+")
"""Names that exporters give to weights without one, such as ``onnx::MatMul_123``: a number at the end, and no path."""


def diff_plans(before: Plan, after: Plan, max_regression: float | None = None) -> PlanDiff:
    """How ``after`` differs from ``before``, and which figures grew by more than the share ``max_regression``."""
    seconds = Change.of(predicted_run(before).seconds, predicted_run(after).seconds)
    copied = Change.of(_copied(before.transfers), _copied(after.transfers))
    devices = tuple(_devices(before, after))
    pairs = matched_ops(before.decisions, after.decisions)
    weights = _weight_pairs(_weights(before), _weights(after))
    limit = max_regression
    return PlanDiff(
        before=_side(before),
        after=_side(after),
        seconds=seconds,
        serial_seconds=Change.of(before.prediction.seconds, after.prediction.seconds),
        lower_bound=Change.of(before.certificate.lower_bound, after.certificate.lower_bound),
        partitions=Change.of(len(before.partitions), len(after.partitions)),
        copies=Change.of(len(before.transfers), len(after.transfers)),
        copied_bytes=copied,
        devices=devices,
        directions=tuple(_directions(before, after)),
        moved=tuple(_moved(pairs)),
        ops_appeared=_lone(after.decisions, [new for _, new in pairs]),
        ops_vanished=_lone(before.decisions, [old for old, _ in pairs]),
        weights_appeared=_largest(new for old, new in weights if old is None and new is not None),
        weights_vanished=_largest(old for old, new in weights if new is None and old is not None),
        weights_changed=tuple(_changed(weights)),
        notes=tuple(_notes(before, after)),
        max_regression=limit,
        regressions=() if limit is None else tuple(_regressions(seconds, copied, devices, limit)),
    )


def _side(plan: Plan) -> PlanSide:
    budgets = {use.device: use.budget_bytes for use in plan.devices if use.budget_bytes is not None}
    model = plan.model
    return PlanSide(
        model.name, model.path, plan.machine.name, budgets, model.ops, model.weight_bytes, plan.footprint_bytes
    )


def _copied(transfers: Iterable[Transfer]) -> int:
    return sum(transfer.nbytes for transfer in transfers)


def _devices(before: Plan, after: Plan) -> Iterator[DeviceChange]:
    old, new = ({use.device: use for use in plan.devices} for plan in (before, after))
    for device in dict.fromkeys((*old, *new)):
        sides = old.get(device), new.get(device)
        yield DeviceChange(
            device,
            _of_uses(sides, "peak_bytes"),
            _of_uses(sides, "weight_bytes"),
            _of_uses(sides, "seconds"),
            _of_uses(sides, "ops"),
        )


def _of_uses(sides: tuple[DeviceUse | None, DeviceUse | None], figure: str) -> Change:
    first, second = (0 if use is None else getattr(use, figure) for use in sides)
    return Change.of(first, second)


def _directions(before: Plan, after: Plan) -> Iterator[DirectionChange]:
    sides = [_by_direction(plan.transfers) for plan in (before, after)]
    for direction in sorted({*sides[0], *sides[1]}):
        old, new = (side.get(direction, []) for side in sides)
        seconds = [sum(copy.seconds for copy in copies) for copies in (old, new)]
        yield DirectionChange(
            direction, Change.of(len(old), len(new)), Change.of(_copied(old), _copied(new)), Change.of(*seconds)
        )


def _by_direction(transfers: Iterable[Transfer]) -> Mapping[str, list[Transfer]]:
    found: dict[str, list[Transfer]] = defaultdict(list)
    for transfer in transfers:
        found[f"{transfer.source}->{transfer.target}"].append(transfer)
    return found


def _moved(pairs: Iterable[tuple[Decision, Decision]]) -> list[MovedOp]:
    found = [
        MovedOp(
            new.op, old.op, new.op_type, new.scope, old.device, new.device, Change.of(_own(old), _own(new)), new.reason
        )
        for old, new in pairs
        if old.device != new.device
    ]
    return sorted(found, key=lambda moved: -moved.seconds.after)


def _own(decision: Decision) -> float:
    return decision.seconds.get(decision.device, 0.0)


def _lone(decisions: Sequence[Decision], matched: Iterable[Decision]) -> tuple[LoneOp, ...]:
    """Those of ``decisions`` that are not ``matched``, the longest first."""
    known = {decision.op for decision in matched}
    found = [LoneOp(one.op, one.op_type, one.scope, one.device, _own(one)) for one in decisions if one.op not in known]
    return tuple(sorted(found, key=lambda lone: -lone.seconds))


def _weights(plan: Plan) -> dict[str, HeldWeight]:
    held: dict[str, list[str]] = defaultdict(list)
    nbytes: dict[str, int] = {}
    for residency in plan.residencies:
        held[residency.weight].append(f"{residency.device} {residency.state}")
        nbytes[residency.weight] = residency.nbytes
    return {name: HeldWeight(name, nbytes[name], tuple(sorted(held[name]))) for name in nbytes}


_WeightPair = tuple[HeldWeight | None, HeldWeight | None]


def _weight_pairs(before: Mapping[str, HeldWeight], after: Mapping[str, HeldWeight]) -> list[_WeightPair]:
    """Weights by their names; of those that an exporter numbered, also by what is left of the name, and the size."""
    pairs: list[_WeightPair] = [(before[name], after[name]) for name in after if name in before]
    renumbered: dict[tuple[str, int], list[HeldWeight]] = defaultdict(list)
    vanished = [weight for name, weight in before.items() if name not in after]
    for weight in reversed(vanished):
        renumbered[_numberless(weight)].append(weight)
    for weight in (weight for name, weight in after.items() if name not in before):
        alike = renumbered[_numberless(weight)] if _NUMBERED.fullmatch(weight.weight) else []
        pairs.append((alike.pop() if alike else None, weight))
    paired = {old.weight for old, _ in pairs if old is not None}
    return pairs + [(weight, None) for weight in vanished if weight.weight not in paired]


def _numberless(weight: HeldWeight) -> tuple[str, int]:
    return re.sub(r"\d+", "#", weight.weight), weight.nbytes


def _largest(weights: Iterable[HeldWeight]) -> tuple[HeldWeight, ...]:
    return tuple(sorted(weights, key=lambda weight: (-weight.nbytes, weight.weight)))


def _changed(pairs: Iterable[_WeightPair]) -> list[WeightChange]:
    found = [
        WeightChange(old, new)
        for old, new in pairs
        if old is not None and new is not None and (old.nbytes, old.held) != (new.nbytes, new.held)
    ]
    return sorted(found, key=lambda change: (-change.after.nbytes, change.after.weight))


def _notes(before: Plan, after: Plan) -> Iterator[str]:
    """What makes the two plans answers to different questions."""
    if before.machine.digest != after.machine.digest:
        same = before.machine.name == after.machine.name
        what = f"other figures of {after.machine.name}" if same else f"{before.machine.name} and {after.machine.name}"
        yield f"the plans are priced for different machines: {what}"
    old, new = _side(before).budgets, _side(after).budgets
    for device in sorted(old.keys() | new.keys()):
        if old.get(device) != new.get(device):
            sizes = [format_bytes(side[device]) if device in side else "none" for side in (old, new)]
            yield f"the budget of {device} was {sizes[0]} and is {sizes[1]}"
    if before.model.dimensions != after.model.dimensions:
        sizes = [", ".join(f"{name}={size}" for name, size in sorted(plan.model.dimensions.items())) or "none"
                 for plan in (before, after)]  # fmt: skip
        yield f"the dimensions were {sizes[0]} and are {sizes[1]}"
    yield from _other_options(before.options, after.options)


_TOLD = frozenset({"budget", "hardware", "shape"})
"""Options that other notes speak of."""


def _other_options(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for name in sorted((before.keys() | after.keys()) - _TOLD):
        old, new = before.get(name, ""), after.get(name, "")
        if old != new:
            yield f"--{name.replace('_', '-')} was {old or 'not given'} and is {new or 'not given'}"


def _regressions(
    seconds: Change, copied: Change, devices: Iterable[DeviceChange], limit: float
) -> Iterator[Regression]:
    figures = [("latency", seconds), *((f"peak of {one.device}", one.peak_bytes) for one in devices)]
    figures.append(("copied bytes", copied))
    yield from (Regression(what, change) for what, change in figures if change.grew_beyond(limit))
