"""Updates and lookups of a training step, the other rules, the certificate, the findings of lint, and the notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hetpart.plan.figures import Baseline
from hetpart.plan.findings import Finding, Severity
from hetpart.plan.model import Plan
from hetpart.report import sentences
from hetpart.report.escape import printable
from hetpart.report.findings.text import summary
from hetpart.report.page.evidence import Evidence
from hetpart.report.page.parts import Cell, Grid, Part, Section, Words
from hetpart.report.training_rows import COLUMNS, REMARK, TITLE, beside, rows_of
from hetpart.units import format_bytes, format_count, format_percent, format_seconds

_MOST_FINDINGS = 200
_TONES = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.NOTE: "dim"}


def training(evidence: Evidence) -> Section | None:
    """Updates and lookups of every device; ``None`` for what is no training step."""
    plan = evidence.plan
    place = {use.device: index for index, use in enumerate(plan.devices)}
    rows = [(Cell(row[0], device=place[row[0]]), *row[1:]) for row in rows_of(plan)]
    words = (Words(printable(f"{device}: {told}")) for device, told in beside(plan))
    return Section("training", TITLE, REMARK, (Grid.of(TITLE, COLUMNS, rows), *words)) if rows else None


def baselines(evidence: Evidence) -> Section:
    """What other rules would have done, the fastest first, those that do not fit last."""
    plan = evidence.plan
    remark = "predicted, at the same costs"
    if not plan.baselines:
        return Section("baselines", "Beside other rules", remark, (Words("No other rule was asked."),))
    seconds, peak = format_seconds(plan.prediction.seconds), format_bytes(sentences.accelerator_peak(plan))
    ours = (Cell("hetpart", "strong"), Cell(seconds, "strong"), "1.00×", peak, "")
    rows = [ours, *(_rule(rule, plan) for rule in sentences.ranked(plan))]
    grid = Grid.of("Other rules", ("rule", ">predicted", ">time", ">accelerator peak", ""), rows)
    return Section("baselines", "Beside other rules", remark, (grid,))


def _rule(rule: Baseline, plan: Plan) -> tuple[Cell | str, ...]:
    name, peak = sentences.label(rule), format_bytes(rule.peak_bytes)
    if not sentences.has_seconds(rule):
        return name, Cell("–", "dim"), Cell("–", "dim"), peak, Cell("does not fit", "bad")
    return name, format_seconds(rule.seconds or 0.0), f"{sentences.ratio(rule, plan):.2f}×", peak, rule.beyond


def certificate(evidence: Evidence) -> Section:
    """How far from optimal the placement can be, and what more memory would buy."""
    plan, proof = evidence.plan, evidence.plan.certificate
    rows = [
        ("cost of this placement", format_seconds(proof.cost)),
        ("lower bound of any legal placement", format_seconds(proof.lower_bound)),
        ("gap, (cost − bound) / cost", format_percent(proof.gap)),
        ("price of a byte", f"{proof.price:.3g} s" if proof.price else "0 s" if proof.price_known else "not known"),
    ]
    grid = Grid.of("Certificate", ("", ">"), rows)
    speaks = Words(f"It speaks of the {printable(proof.speaks_of)}.", "dim")
    words = (Words(sentences.gap(proof), "strong"), Words(sentences.worth(plan)))
    return Section("certificate", "Certificate", "how good the placement is, proven", (*words, grid, speaks))


def findings(evidence: Evidence) -> Section:
    """What lint found in the model, the worst first."""
    found = evidence.findings
    remark = "hetpart rule CODE tells what a rule is about"
    if found is None:
        return Section("findings", "Lint", remark, (Words(f"Not asked: {printable(evidence.no_findings)}.", "dim"),))
    if not found:
        return Section("findings", "Lint", remark, (Words("No findings.", "good"),))
    return Section("findings", "Lint", remark, tuple(_found(found)))


def _found(found: Sequence[Finding]) -> Iterator[Part]:
    yield Words(summary(found), "strong")
    shown = found[:_MOST_FINDINGS]
    yield Grid.of("Findings", ("severity", "rule", "finding", "what to do"), [_finding(one) for one in shown])
    if len(found) > len(shown):
        yield Words(
            f"… and {format_count(len(found) - len(shown), 'finding')} more: hetpart lint lists them all", "dim"
        )


def _finding(found: Finding) -> tuple[Cell | str, ...]:
    at = f" ({printable(found.source.file)}:{found.source.line})" if found.source else ""
    return (
        Cell(str(found.severity), _TONES[found.severity]),
        f"{found.code} {found.rule}",
        f"{printable(found.message)}{at}",
        Cell(printable(found.hint), "dim"),
    )


def notes(evidence: Evidence) -> Section:
    """What the user should know."""
    said = tuple(Words(printable(note)) for note in evidence.plan.notes)
    return Section("notes", "Notes", "", said or (Words("None.", "dim"),))
