"""What a benchmark showed, as a table."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from hetpart.plan.bench import BenchReport, Contender, HeldMemory
from hetpart.report.layout import heading, labelled, line, name, table
from hetpart.units import format_bytes, format_count, format_seconds

_UNKNOWN = "–"
_HEADERS = ("", ">median", ">p95", ">predicted", ">× fastest", ">partitions", ">copies")
_MEMORY_HEADERS = (
    "",
    "device",
    ">predicted",
    ">counted",
    ">weights",
    ">activations",
    ">buffers",
    ">reserved",
    ">process",
)
_MEMORY_REMARK = "peaks as predicted and as counted, and what they consist of"
_MEMORY_NOTES = (
    "Counted: weights that are mapped, in ONNX Runtime's arenas, or else as large as the model has them; what a run "
    "takes of the arenas besides; buffers and other values between partitions. Reserved is what the arenas took from "
    "the system, process what the process grew by with loading and the first run: it is one for all devices, and so is "
    "the count of a single session on several."
)


def bench_parts(report: BenchReport) -> Iterator[RenderableType]:
    """The contenders, the fastest first, and what was left out."""
    where = ", accelerator partitions emulated on the CPU" if report.emulated else ""
    runs = f"{format_count(report.rounds, 'run')} of each in turns, for {report.machine}{where}"
    yield labelled([("Model", name(report.model, "bold")), ("Measured", Text(runs))])
    yield heading("Contenders")
    least = report.contenders[0].median_seconds
    yield table(_HEADERS, [_row(contender, least) for contender in report.contenders])
    yield heading("Memory", _MEMORY_REMARK)
    yield table(_MEMORY_HEADERS, [row for contender in report.contenders for row in _memory_rows(contender)])
    yield line((_MEMORY_NOTES, "dim"))
    for left, why in sorted(report.left_out.items()):
        yield line(("Left out: ", "dim"), name(left), ": ", name(why))
    if report.bundle:
        yield line("The plan of ", name(report.kept, "bold"), " is written to ", name(report.bundle))


def _row(contender: Contender, least: float) -> tuple[Text | str, ...]:
    predicted = contender.predicted_seconds
    return (
        name(contender.name),
        format_seconds(contender.median_seconds),
        format_seconds(contender.p95_seconds),
        _UNKNOWN if predicted is None else format_seconds(predicted),
        f"{contender.median_seconds / least:.2f}",
        str(contender.partitions),
        str(contender.copies),
    )


def _memory_rows(contender: Contender) -> Iterator[tuple[Text | str, ...]]:
    """A row for every device that something is known of."""
    devices = [device for device, nbytes in contender.peak_bytes.items() if nbytes or device in contender.held]
    grown = _UNKNOWN if contender.load_bytes is None else format_bytes(max(contender.load_bytes, 0))
    for device in devices:
        predicted, held = format_bytes(contender.peak_bytes[device]), contender.held.get(device)
        yield name(contender.name), name(device), predicted, *_held(held), grown if device == devices[0] else ""


def _held(held: HeldMemory | None) -> tuple[str, ...]:
    if held is None:
        return (_UNKNOWN,) * 5
    weights = held.mapped + held.prepared + held.other_weights + held.states
    parts = held.peak, weights, held.activations, held.buffers + held.values, held.reserved
    return tuple(map(format_bytes, parts))
