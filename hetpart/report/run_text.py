"""What a run measured, beside what was predicted."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from hetpart.plan.run import CheckResult, RunReport
from hetpart.report.layout import heading, labelled, line, name, table
from hetpart.report.sentences import ran_as_planned
from hetpart.units import format_bytes, format_count, format_percent, format_seconds

_MOST_OUTPUTS = 20
_NOT_NUMPYS = ("bfloat16", "float8")
_NO_MATCH = ", which is not what ran: plan with --hardware emulated to compare"


def run_parts(report: RunReport) -> Iterator[RenderableType]:
    """What ``report`` measured, beside what was predicted."""
    yield labelled(list(_rows(report)))
    yield heading("Results")
    shown = report.outputs[:_MOST_OUTPUTS]
    if not shown:
        yield line("The model has no output.")
        return
    rows = [(name(output.name), name(output.dtype), _shape(output.shape), _value(output.value)) for output in shown]
    yield table(("name", "type", "shape", "value"), rows)
    if len(report.outputs) > len(shown):
        yield line(f"… and {format_count(len(report.outputs) - len(shown), 'more result')}")


def _rows(report: RunReport) -> Iterator[tuple[str, Text]]:
    where = ", accelerator partitions emulated on the CPU" if report.emulated else ""
    yield "Ran", Text.assemble(name(report.bundle, "bold"), f": {_times(report.runs)}{where}")
    yield "Measured", Text(_measured(report), "bold")
    yield "Predicted", _predicted(report)
    yield "Cut into", Text(f"{format_count(report.partitions, 'partition')}, {_copies(report)}")
    if report.resident_bytes is not None:
        yield "Memory", Text(_memory(report))
    if report.check is not None:
        yield "Check", _check(report.check)
    if report.files:
        yield "Written", Text.assemble(name(", ".join(report.files)), _widened(report))


def _widened(report: RunReport) -> str:
    """Which types are written as another, since NumPy has them not by itself."""
    types = sorted({output.dtype for output in report.outputs if output.dtype.startswith(_NOT_NUMPYS)})
    return f", {' and '.join(types)} as float32" if types else ""


def _times(runs: int) -> str:
    return "once" if runs == 1 else f"{runs:,} times"


def _measured(report: RunReport) -> str:
    if report.runs == 1:
        return f"{format_seconds(report.median_seconds)}, with all that a first run sets up"
    return f"{format_seconds(report.median_seconds)} in the median, {format_seconds(report.min_seconds)} at best"


def _predicted(report: RunReport) -> Text:
    predicted = format_seconds(report.predicted_seconds)
    if not ran_as_planned(report.machine, emulated=report.emulated):
        return Text.assemble(predicted, " on ", name(report.machine or "the machine planned for"), _NO_MATCH)
    if not report.predicted_seconds or not report.median_seconds:
        return Text(predicted)
    error = (report.predicted_seconds - report.median_seconds) / report.median_seconds
    side = "above" if error > 0 else "below"
    return Text(f"{predicted}, {format_percent(abs(error))} {side} what was measured")


def _copies(report: RunReport) -> str:
    if not any(report.copies.values()):
        return "nothing crosses devices"
    return ", ".join(
        f"{format_count(number, 'copy')} {way.replace('->', ' → ')} ({format_bytes(report.copied_bytes[way])})"
        for way, number in sorted(report.copies.items())
    )


def _memory(report: RunReport) -> str:
    grown = f" and {format_bytes(max(report.load_bytes, 0))}" if report.load_bytes is not None else ""
    resident = format_bytes(report.resident_bytes or 0)
    return f"{resident} resident after the runs; loading took {format_seconds(report.load_seconds)}{grown}"


def _check(check: CheckResult) -> Text:
    where = Text.assemble(" in ", name(check.worst_output)) if check.worst_output else Text()
    largest = f"; the largest difference is {check.largest_difference:.3g}"
    if not check.equal:
        allowed = ", and every bit should agree" if check.exact else f", and {check.tolerance:g} is allowed"
        return Text.assemble(("differs", "bold red"), " from the uncut model", largest, where, allowed)
    if check.largest_difference == 0:
        return Text.assemble(("equal", "bold green"), " to the uncut model, every bit of it")
    return Text.assemble(("equal", "bold green"), f" to the uncut model within {check.tolerance:g}", largest, where)


def _shape(shape: tuple[int, ...] | None) -> str:
    if shape is None:
        return "–"
    return "×".join(map(str, shape)) if shape else "scalar"


def _value(number: float | None) -> str:
    return "" if number is None else f"{number:.7g}"
