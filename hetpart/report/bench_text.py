"""What a benchmark showed, as a table."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from hetpart.plan.bench import BenchReport, Contender
from hetpart.report.layout import heading, labelled, line, name, table
from hetpart.units import format_bytes, format_count, format_seconds

_HEADERS = ("", ">median", ">p95", ">predicted", ">× fastest", ">partitions", ">memory", ">predicted peak")


def bench_parts(report: BenchReport) -> Iterator[RenderableType]:
    """The contenders, the fastest first, and what was left out."""
    where = ", accelerator partitions emulated on the CPU" if report.emulated else ""
    runs = f"{format_count(report.rounds, 'run')} of each in turns, for {report.machine}{where}"
    yield labelled([("Model", name(report.model, "bold")), ("Measured", Text(runs))])
    yield heading("Contenders", "memory: what loading and the first run took of the process")
    least = report.contenders[0].median_seconds
    yield table(_HEADERS, [_row(contender, least) for contender in report.contenders])
    for left, why in sorted(report.left_out.items()):
        yield line(("Left out: ", "dim"), name(left), ": ", name(why))
    if report.bundle:
        yield line("The plan of ", name(report.kept, "bold"), " is written to ", name(report.bundle))


def _row(contender: Contender, least: float) -> tuple[Text | str, ...]:
    predicted, grown = contender.predicted_seconds, contender.load_bytes
    peaks = ", ".join(f"{device} {format_bytes(nbytes)}" for device, nbytes in contender.peak_bytes.items() if nbytes)
    return (
        name(contender.name),
        format_seconds(contender.median_seconds),
        format_seconds(contender.p95_seconds),
        "–" if predicted is None else format_seconds(predicted),
        f"{contender.median_seconds / least:.2f}",
        str(contender.partitions),
        "–" if grown is None else format_bytes(max(grown, 0)),
        peaks or "–",
    )
