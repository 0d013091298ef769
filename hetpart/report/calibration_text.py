"""A calibration as people and scripts read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from hetpart.cost_model.calibrated import (
    LEAST_RATE,
    AcceleratorCalibration,
    Calibration,
    slower_together,
    too_fast,
    too_slow,
)
from hetpart.rates import LEAST_QUIET, LEAST_SECONDS, MOST_EXCESS, KernelRates
from hetpart.report.layout import labelled, line, name, table
from hetpart.units import format_bytes, format_count, format_percent, format_seconds

_REFINE = "`hetpart calibrate --refine` in a quieter hour keeps the best of both."
_MEANING = """float32: the best matrix product; memory: elementwise ops; weights: of products that read them once; \
rows: of 64 bytes in a large table; kernel, session: what starting one takes; hop: handing a run to another device; \
error: mean, at sizes between those measured."""
_HEADERS = (">threads", ">float32", ">memory", ">weights", ">rows", ">kernel", ">session", ">hop", ">error", ">quiet")


def calibration_parts(found: Calibration) -> Iterator[RenderableType]:
    """What was measured, how well the tables tell sizes between their points, and what disturbed it."""
    cores = format_count(found.cores, "core")
    yield labelled(
        [
            ("Processor", Text.assemble(name(found.processor or "unnamed", "bold"), f", {cores}")),
            ("ONNX Runtime", Text(found.runtime)),
            ("Copies", Text(f"{format_bytes(found.link_bandwidth)}/s, {format_seconds(found.link_seconds)} each")),
        ]
    )
    rows = [_row(threads, rates) for threads, rates in found.threads.items()]
    if found.accelerator is not None:
        rows.append(_row(found.accelerator.name, found.accelerator.rates))
    yield table(_HEADERS, rows)
    yield line(_MEANING)
    yield line(f"Products of other types, all cores: {_products(found.threads[max(found.threads, key=int)])}.")
    if found.accelerator is not None:
        yield line(_accelerator_copies(found.accelerator))
        missing = sorted(set(next(iter(found.threads.values())).tables) - set(found.accelerator.rates.tables))
        if missing:
            yield line((f"Not measured there, and priced by their work: {', '.join(missing)}.", "yellow"))
    yield from (line((words, "yellow")) for words in _disturbances(found))


def _disturbances(found: Calibration) -> Iterator[str]:
    """What other work made too slow or too fast."""
    share = min(rates.quiet_share for rates in found.threads.values())
    if share < LEAST_QUIET:
        undisturbed = f"Other work slowed the processor: it was undisturbed for {format_percent(share)} of the time."
        yield f"{undisturbed} Figures for which that did not suffice are too slow: {_REFINE}"
    excess = max(rates.overhead_excess for rates in found.threads.values())
    if excess > MOST_EXCESS:
        yield (
            f"Other work slowed the probe of what a session takes beside its kernels: it took {excess:.1f} times the "
            f"least run, which counts instead. Other figures may be too slow as well: {_REFINE}"
        )
    for dtype in _dtypes(found):
        yield from (_slower_together(threads, dtype, found) for threads in slower_together(found, dtype))
    slow = sorted({name for rates in found.threads.values() for name in too_slow(rates)})
    if slow:
        yield (
            f"Too slow, a quarter of the calls at less than {format_percent(LEAST_RATE)} of the products' rate: "
            f"figures of {', '.join(slow)}. Other work slowed them: do not plan with these. {_REFINE}"
        )
    impossible = sorted({name for rates in found.threads.values() for name in too_fast(rates)})
    if impossible:
        yield (
            f"Too fast for any kernel, at {format_seconds(LEAST_SECONDS)} a call: figures of {', '.join(impossible)}. "
            f"Other work slowed what is taken off them: do not plan with these. {_REFINE}"
        )


def _dtypes(found: Calibration) -> list[str]:
    return sorted({dtype for rates in found.threads.values() for dtype in rates.peak_flops})


def _slower_together(threads: int, dtype: str, found: Calibration) -> str:
    rates = [found.threads[count].peak_flops[dtype] for count in (str(threads), "1")]
    words = ", one alone ".join(f"{rate / 1e9:.0f} GFLOP/s" for rate in rates)
    return (
        f"{format_count(threads, 'thread')} together multiply slower than one in {dtype}: {words}. "
        f"Other work had their cores: do not plan with these. {_REFINE}"
    )


def _products(rates: KernelRates) -> str:
    others = {dtype: rate for dtype, rate in rates.peak_flops.items() if dtype != "float32"}
    return ", ".join(f"{dtype} {rate / 1e9:.0f} GFLOP/s" for dtype, rate in others.items())


def _accelerator_copies(found: AcceleratorCalibration) -> str:
    ways = (("to", True), ("from", False))
    rates = [
        f"{words} it {format_bytes(found.bandwidth(inwards=inwards, pinned=True))}/s pinned, "
        f"{format_bytes(found.bandwidth(inwards=inwards, pinned=False))}/s pageable"
        for words, inwards in ways
    ]
    return f"Copies of {found.name}: {'; '.join(rates)}; {format_seconds(found.latency)} each."


def _row(threads: str, rates: KernelRates) -> tuple[str, ...]:
    return (
        threads,
        f"{rates.peak_flops['float32'] / 1e9:.0f} GFLOP/s",
        f"{format_bytes(rates.bandwidth)}/s",
        f"{format_bytes(rates.cold_bandwidth)}/s",
        f"{format_bytes(rates.random_bandwidth)}/s",
        format_seconds(rates.launch_seconds),
        format_seconds(rates.session_seconds),
        format_seconds(rates.hop_seconds),
        format_percent(rates.error),
        format_percent(rates.quiet_share),
    )


def calibration_content(found: Calibration) -> dict[str, Any]:
    """The figures, without the tables that the file holds."""
    accelerator = found.accelerator
    return {
        "processor": found.processor,
        "cores": found.cores,
        "runtime": found.runtime,
        "link": {"bandwidth": found.link_bandwidth, "latency": found.link_seconds},
        "slower_together": list(slower_together(found)),
        "slower_dtypes": {dtype: slower for dtype in _dtypes(found) if (slower := [*slower_together(found, dtype)])},
        "threads": {count: _figures(rates) for count, rates in found.threads.items()},
        "accelerator": None
        if accelerator is None
        else {
            "name": accelerator.name,
            **_figures(accelerator.rates),
            "copies": [
                {"inwards": copy.inwards, "pinned": copy.pinned, "bytes": copy.nbytes, "seconds": copy.seconds}
                for copy in accelerator.copies
            ],
        },
    }


def _figures(rates: KernelRates) -> dict[str, Any]:
    return {
        "float32_flops": rates.peak_flops["float32"],
        "flops": dict(rates.peak_flops),
        "bandwidth": rates.bandwidth,
        "cold_bandwidth": rates.cold_bandwidth,
        "random_bandwidth": rates.random_bandwidth,
        "launch_seconds": rates.launch_seconds,
        "visit_seconds": rates.visit_seconds,
        "cold_seconds": rates.cold.unary,
        "cold_node_seconds": rates.cold.node,
        "hop_seconds": rates.hop_seconds,
        "session_seconds": rates.session_seconds,
        "error": rates.error,
        "quiet_share": rates.quiet_share,
        "overhead_excess": rates.overhead_excess,
        "too_fast": list(too_fast(rates)),
        "too_slow": list(too_slow(rates)),
    }
