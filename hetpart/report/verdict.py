"""The report's opening and closing words: does it fit, how fast is it, and how good is that."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from hetpart.plan.model import Baseline, Certificate, DeviceUse, Plan
from hetpart.report.escape import printable
from hetpart.report.layout import INDENT, heading, labelled, line, name, percent, table
from hetpart.units import format_bytes, format_count, format_seconds

_PROVEN_GAP = 1e-6
_NOTICEABLE_RATIO = 1.005
_PRICE_UNITS = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
_LABELS = {
    "all-cpu": "all that may on the CPU",
    "all-accelerator": "all that may on the accelerator",
}


def opening(plan: Plan) -> Iterator[RenderableType]:
    """The machine and how it was chosen; the model; whether the plan fits; how fast it should be."""
    machine = Text.assemble(name(plan.machine.name, "bold"), " – ", name(plan.machine.origin))
    model = Text.assemble(name(plan.model.path or plan.model.name, "bold"), " – ", _model(plan))
    yield labelled([("Machine", machine), ("Model", model)])
    yield Text()
    for use in plan.devices:
        if use.budget_bytes is not None:
            yield _fit(use, use.budget_bytes)
    yield Text(f"All of it on an accelerator is predicted to need {format_bytes(plan.footprint_bytes)}.")
    yield _speed(plan)


def _model(plan: Plan) -> Text:
    model = plan.model
    facts = [format_count(model.ops, "op"), f"{format_bytes(model.weight_bytes)} of weights", f"opset {model.opset}"]
    facts.extend(f"{dimension}={size}" for dimension, size in sorted(model.dimensions.items()))
    return name(", ".join(facts))


def _fit(use: DeviceUse, budget: int) -> Text:
    fits = use.peak_bytes <= budget
    verdict = Text("Fits: ", "bold green") if fits else Text("Does not fit: ", "bold red")
    spare = f"{format_bytes(budget - use.peak_bytes)} to spare" if fits else _short(use.peak_bytes - budget)
    if fits and not use.peak_bytes:
        return Text.assemble(verdict, name(use.device), f" is not used; its budget is {format_bytes(budget)}.")
    needs = f" is predicted to need {format_bytes(use.peak_bytes)} of {format_bytes(budget)}, {spare}."
    return Text.assemble(verdict, name(use.device), needs)


def _short(nbytes: int) -> str:
    return f"{format_bytes(nbytes)} short"


def _speed(plan: Plan) -> Text:
    """What a run takes. Other rules are compared with one after another, as they are priced."""
    serial = format_seconds(plan.prediction.seconds)
    if plan.timeline is None or not plan.timeline.pays:
        return Text.assemble(("Predicted latency: ", "bold"), (serial, "bold"), _against(plan), ".")
    seconds = format_seconds(plan.timeline.seconds)
    one_by_one = f" with devices and copies at work at the same time; one after another {serial}"
    return Text.assemble(("Predicted latency: ", "bold"), (seconds, "bold"), one_by_one, _against(plan), ".")


def _against(plan: Plan) -> str:
    fitting = [baseline for baseline in plan.baselines if baseline.fits and baseline.seconds is not None]
    best = min(fitting, key=lambda baseline: baseline.seconds or 0.0, default=None)
    if best is None:
        return ", and no other rule found a placement that fits" if plan.baselines else ""
    ratio = _ratio(best, plan)
    if ratio * _NOTICEABLE_RATIO < 1:
        return f", {_slower(best, ratio)}"
    if ratio < _NOTICEABLE_RATIO:
        return f", the same as {_label(best)}, the best other rule that fits"
    return f", {ratio:.2f}× as fast as {_label(best)}, the best other rule that fits"


def _slower(best: Baseline, ratio: float) -> str:
    if not ratio:
        return f"slower than {_label(best)}, which is free"
    return f"{percent(1 / ratio - 1)} slower than {_label(best)}, the best other rule that fits"


def _ratio(baseline: Baseline, plan: Plan) -> float:
    return (baseline.seconds or 0.0) / plan.prediction.seconds if plan.prediction.seconds else 1.0


def _label(baseline: Baseline) -> str:
    return _LABELS.get(baseline.name) or printable(baseline.name)


def baselines(plan: Plan) -> Iterator[RenderableType]:
    """What other rules would have done, the fastest first, those that do not fit last."""
    if not plan.baselines:
        return
    ranked = sorted(plan.baselines, key=lambda b: (not b.fits, b.seconds or 0.0, b.name))
    ours = (Text("hetpart", "bold"), Text(format_seconds(plan.prediction.seconds), "bold"), "1.00×", _peak(plan), "")
    yield heading("Beside other rules", "predicted, at the same costs")
    yield table(
        ("rule", ">predicted", ">time", ">accelerator peak", ""),
        [ours, *(_baseline_row(baseline, plan) for baseline in ranked)],
    )


def _peak(plan: Plan) -> str:
    return format_bytes(sum(use.peak_bytes for use in plan.devices[1:]))


def _baseline_row(baseline: Baseline, plan: Plan) -> tuple[str | Text, ...]:
    fits = baseline.fits and baseline.seconds is not None
    seconds = format_seconds(baseline.seconds or 0.0) if fits else "–"
    ratio = f"{_ratio(baseline, plan):.2f}×" if fits else "–"
    verdict = Text() if fits else Text("does not fit", "red")
    return _label(baseline), seconds, ratio, format_bytes(baseline.peak_bytes), verdict


def certificate(plan: Plan) -> Iterator[RenderableType]:
    """How far from optimal the placement can be, and what more memory would buy."""
    proof = plan.certificate
    yield heading("Certificate")
    yield line(_gap(proof))
    yield line(_worth(plan))
    yield line("It speaks of the ", name(proof.speaks_of), ".")


def _gap(proof: Certificate) -> str:
    cost, bound = format_seconds(proof.cost), format_seconds(proof.lower_bound)
    if proof.gap <= _PROVEN_GAP:
        return f"Optimal: no legal placement takes less than {bound} in the model of costs."
    above = f": at most {percent(proof.cost / proof.lower_bound - 1)} above" if proof.lower_bound > 0 else ""
    return f"No legal placement takes less than {bound}; this one takes {cost}{above}."


def _worth(plan: Plan) -> str:
    price = plan.certificate.price
    budget = max((use.budget_bytes or 0 for use in plan.devices[1:]), default=0)
    if price <= 0:
        return _worth_unpriced(plan, budget)
    scale, unit = next((row for row in _PRICE_UNITS if row[0] <= budget), _PRICE_UNITS[-1])
    return f"At the margin, 1 {unit} more of accelerator memory buys {format_seconds(price * scale)}."


def _worth_unpriced(plan: Plan, budget: int) -> str:
    """At the price 0 the bound is that of a device without end: it tells something only where it is reached."""
    if plan.certificate.gap <= _PROVEN_GAP or plan.footprint_bytes <= budget:
        return "More accelerator memory would make nothing faster."
    footprint = format_bytes(plan.footprint_bytes)
    return f"No price of a byte is known here: with all of the {footprint} of its footprint in reach it may be faster."


def notes(plan: Plan) -> Iterator[RenderableType]:
    """What the user should know."""
    if plan.notes:
        yield heading("Notes")
        yield labelled([("•", name(note)) for note in plan.notes], INDENT)
