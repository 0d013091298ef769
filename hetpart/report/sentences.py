"""What a report says in words, whatever it is written on: does it fit, how fast is it, and how good is that.

Names in these sentences are escaped for a terminal; none of them is markup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import PurePath

from hetpart.plan.curves import CurvePoint
from hetpart.plan.figures import ALIVE, NONE_STREAMED, PROVEN_GAP, Baseline, Certificate, DeviceUse
from hetpart.plan.model import Decision, Partition, Plan, Transfer
from hetpart.report.escape import printable
from hetpart.units import format_bytes, format_count, format_percent, format_seconds

_NOTICEABLE_RATIO = 1.005
_TYPES_SHOWN = 3
_EMULATED = "emulated"
_PRICE_UNITS = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
_LABELS = {
    "all-cpu": "as much as possible on the CPU",
    "all-accelerator": "as much as possible on the accelerator",
}


def ran_as_planned(machine: str, *, emulated: bool) -> bool:
    """Whether a run was on what its plan is for: accelerators that the CPU plays are those of no other machine."""
    return not emulated or machine.startswith(_EMULATED)


def model_facts(plan: Plan) -> str:
    """Ops, weights, opset and bound dimensions."""
    model = plan.model
    facts = [format_count(model.ops, "op"), f"{format_bytes(model.weight_bytes)} of weights", f"opset {model.opset}"]
    facts.extend(f"{dimension}={size}" for dimension, size in sorted(model.dimensions.items()))
    return printable(", ".join(facts))


def code_of(decision: Decision) -> str:
    """The line of the user's code, its file without folders; nothing where the model does not say."""
    place = decision.line.partition(" in ")[0]
    return PurePath(place).name if place else ""


def fits(use: DeviceUse) -> bool:
    """Whether the peak is within the budget; without one everything is."""
    return (use.headroom_bytes or 0) >= 0


def fit(use: DeviceUse, budget: int) -> str:
    """What the device needs of its budget, and what is left or lacking."""
    device = printable(use.device)
    if not use.peak_bytes:
        return f"{device} is not used; its budget is {format_bytes(budget)}."
    left = budget - use.peak_bytes
    spare = f"{format_bytes(left)} to spare" if left >= 0 else f"{format_bytes(-left)} short"
    return f"{device} is predicted to need {format_bytes(use.peak_bytes)} of {format_bytes(budget)}, {spare}."


def footprint(plan: Plan) -> str:
    """What the whole model takes."""
    return f"All of it on an accelerator is predicted to need {format_bytes(plan.footprint_bytes)}."


def needs(point: CurvePoint) -> str:
    """What would do where nothing fits."""
    where = f" on {point.required_on}" if point.required_on else ""
    return f"needs {format_bytes(point.required_bytes or 0)}{where}"


def run_seconds(plan: Plan) -> float:
    """What a run takes: overlapped where the plan's figures say that this pays."""
    timeline = plan.timeline
    return timeline.seconds if timeline is not None and timeline.pays else plan.prediction.seconds


def speed(plan: Plan) -> str:
    """What follows on the latency. Other rules are compared with one after another, as they are priced."""
    if plan.timeline is None or not plan.timeline.pays:
        return f"{_against(plan)}."
    serial = format_seconds(plan.prediction.seconds)
    return f" with devices and copies at work at the same time; one after another {serial}{_against(plan)}."


def _against(plan: Plan) -> str:
    best = best_baseline(plan)
    if best is None:
        return ", and no other rule found a placement that fits" if plan.baselines else ""
    times = ratio(best, plan)
    if times * _NOTICEABLE_RATIO < 1:
        return f", {_slower(best, times)}"
    if times < _NOTICEABLE_RATIO:
        return f", the same as {rule(best)}, the best other rule that fits"
    return f", {times:.2f}× as fast as {rule(best)}, the best other rule that fits"


def _slower(best: Baseline, times: float) -> str:
    if not times:
        return f"slower than {rule(best)}, which is free"
    return f"{format_percent(1 / times - 1)} slower than {rule(best)}, the best other rule that fits"


def best_baseline(plan: Plan) -> Baseline | None:
    """The fastest other rule that fits and keeps the limits on cuts."""
    fitting = [baseline for baseline in plan.baselines if has_seconds(baseline) and not baseline.beyond]
    return min(fitting, key=lambda baseline: baseline.seconds or 0.0, default=None)


def has_seconds(baseline: Baseline) -> bool:
    """Whether the rule found a placement that fits."""
    return baseline.fits and baseline.seconds is not None


def ratio(baseline: Baseline, plan: Plan) -> float:
    """Seconds of the rule in parts of the plan's."""
    return (baseline.seconds or 0.0) / plan.prediction.seconds if plan.prediction.seconds else 1.0


def rule(baseline: Baseline) -> str:
    """The rule as something that is done."""
    return f"putting {_LABELS[baseline.name]}" if baseline.name in _LABELS else label(baseline)


def label(baseline: Baseline) -> str:
    """The rule in words."""
    return _LABELS.get(baseline.name) or printable(baseline.name)


def accelerator_peak(plan: Plan) -> int:
    """What the plan holds on all accelerators."""
    return sum(use.peak_bytes for use in plan.devices[1:])


def ranked(plan: Plan) -> list[Baseline]:
    """The fastest rule first, those that do not fit last."""
    return sorted(plan.baselines, key=lambda b: (not b.fits, b.seconds or 0.0, b.name))


def excess(proof: Certificate) -> float:
    """What the placement takes beyond the bound, which is above 0, in parts of the bound."""
    return proof.cost / proof.lower_bound - 1


def gap(proof: Certificate) -> str:
    """How far from optimal the placement can be."""
    cost, bound = format_seconds(proof.cost), format_seconds(proof.lower_bound)
    if proof.gap <= PROVEN_GAP:
        return f"Optimal: no {_bounded(proof)} takes less than {bound} in the model of costs."
    above = f": at most {format_percent(excess(proof))} above" if proof.lower_bound > 0 else ""
    return f"No {_bounded(proof)} takes less than {bound}; this one takes {cost}{above}."


def _bounded(proof: Certificate) -> str:
    """What the bound holds for: other cuts, or other orders, of a placement may hold less of what is alive."""
    streams_none = f" {NONE_STREAMED}" if NONE_STREAMED in proof.speaks_of else ""
    return f"legal placement{streams_none}{', cut as hetpart cuts it,' if ALIVE in proof.speaks_of else ''}"


def worth(plan: Plan) -> str:
    """What more memory would buy."""
    price = plan.certificate.price
    budget = max((use.budget_bytes or 0 for use in plan.devices[1:]), default=0)
    if price <= 0:
        return _worth_unpriced(plan, budget)
    scale, unit = next((row for row in _PRICE_UNITS if row[0] <= budget), _PRICE_UNITS[-1])
    return f"At the margin, 1 {unit} more of accelerator memory buys {format_seconds(price * scale)}."


def _worth_unpriced(plan: Plan, budget: int) -> str:
    """At the price 0 the bound is that of a device without end: it tells something only where it is reached."""
    proof = plan.certificate
    if proof.price_known or plan.footprint_bytes <= budget:
        return "More accelerator memory would make nothing faster."
    why = "for values that are alive fill the budget" if ALIVE in proof.speaks_of else "for the gap is open"
    whole = format_bytes(plan.footprint_bytes)
    return (
        f"No price of a byte is known here, {why}: with all of the {whole} of its footprint in reach it may be faster; "
        "a sweep shows what memory buys."
    )


def mostly(partition: Partition, by_op: Mapping[str, Decision]) -> str:
    """The partition's most frequent op types."""
    types = Counter(by_op[op].op_type for op in partition.ops if op in by_op)
    return ", ".join(f"{kind} ×{n}" if n > 1 else kind for kind, n in types.most_common(_TYPES_SHOWN))


def when(copy: Transfer, plan: Plan) -> str:
    """Before which partition the copy is done."""
    return "at the end" if copy.step >= len(plan.partitions) else f"before #{plan.partitions[copy.step].id}"


def own_seconds(decision: Decision) -> float:
    """Predicted seconds of the op on the device it was given."""
    return decision.seconds.get(decision.device, 0.0)


def elsewhere_seconds(decision: Decision) -> float | None:
    """Predicted seconds of the op on the fastest other device; ``None`` where none has a kernel for it."""
    return min((seconds for device, seconds in decision.seconds.items() if device != decision.device), default=None)
