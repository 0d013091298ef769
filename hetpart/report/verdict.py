"""The report's opening and closing words: does it fit, how fast is it, and how good is that."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from hetpart.plan.figures import Baseline, DeviceUse
from hetpart.plan.model import Plan
from hetpart.report import sentences
from hetpart.report.layout import INDENT, heading, labelled, line, name, table
from hetpart.units import format_bytes, format_seconds


def opening(plan: Plan) -> Iterator[RenderableType]:
    """The machine and how it was chosen; the model; whether the plan fits; how fast it should be."""
    machine = Text.assemble(name(plan.machine.name, "bold"), " – ", name(plan.machine.origin))
    model = Text.assemble(name(plan.model.path or plan.model.name, "bold"), " – ", sentences.model_facts(plan))
    yield labelled([("Machine", machine), ("Model", model)])
    yield Text()
    for use in plan.devices:
        if use.budget_bytes is not None:
            yield _fit(use, use.budget_bytes)
    yield Text(sentences.footprint(plan))
    seconds = format_seconds(sentences.run_seconds(plan))
    yield Text.assemble(("Predicted latency: ", "bold"), (seconds, "bold"), sentences.speed(plan))


def _fit(use: DeviceUse, budget: int) -> Text:
    verdict = ("Fits: ", "bold green") if sentences.fits(use) else ("Does not fit: ", "bold red")
    return Text.assemble(verdict, sentences.fit(use, budget))


def baselines(plan: Plan) -> Iterator[RenderableType]:
    """What other rules would have done, the fastest first, those that do not fit last."""
    if not plan.baselines:
        return
    ours = (Text("hetpart", "bold"), Text(format_seconds(plan.prediction.seconds), "bold"), "1.00×", _peak(plan), "")
    yield heading("Beside other rules", "predicted, at the same costs")
    yield table(
        ("rule", ">predicted", ">time", ">accelerator peak", ""),
        [ours, *(_baseline_row(baseline, plan) for baseline in sentences.ranked(plan))],
    )


def _peak(plan: Plan) -> str:
    return format_bytes(sentences.accelerator_peak(plan))


def _baseline_row(baseline: Baseline, plan: Plan) -> tuple[str | Text, ...]:
    fits = sentences.has_seconds(baseline)
    seconds = format_seconds(baseline.seconds or 0.0) if fits else "–"
    times = f"{sentences.ratio(baseline, plan):.2f}×" if fits else "–"
    verdict = Text(baseline.beyond) if fits else Text("does not fit", "red")
    return sentences.label(baseline), seconds, times, format_bytes(baseline.peak_bytes), verdict


def certificate(plan: Plan) -> Iterator[RenderableType]:
    """How far from optimal the placement can be, and what more memory would buy."""
    proof = plan.certificate
    yield heading("Certificate")
    yield line(sentences.gap(proof))
    yield line(sentences.worth(plan))
    yield line("It speaks of the ", name(proof.speaks_of), ".")


def notes(plan: Plan) -> Iterator[RenderableType]:
    """What the user should know."""
    if plan.notes:
        yield heading("Notes")
        yield labelled([("•", name(note)) for note in plan.notes], INDENT)
