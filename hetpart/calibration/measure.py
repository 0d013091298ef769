"""Measure this machine: kernels by family and size, overheads, and copies within its memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from hetpart.calibration.fit import LEAST_SECONDS, table
from hetpart.calibration.models import chain, model, numbers
from hetpart.calibration.probes import CONVOLUTIONS, FAMILIES, TABLE_BYTES, Family, Sizes
from hetpart.calibration.timing import Buffers, Probe, Profiled, take_turns
from hetpart.cost_model.calibrated import SCHEMA, VERSION, Calibration, runtime_version
from hetpart.cost_model.detect import this_processor
from hetpart.rates import KernelRates, RateTable

Progress = Callable[[str], None]
BUFFER_ELEMENTS = 2**23 + 2**22
LONG_CHAIN = 64
COLD_LAYERS, COLD_WIDTH = 24, 1024
"""Weights of 100 MB: no cache holds them from run to run."""
KERNELS_SECONDS, CONVOLUTIONS_SECONDS = 12.0, 5.0
"""Of measuring, for each number of threads."""
COPY_BYTES = 2**26
COPIES = 20
_REORDERS = ("ReorderInput", "ReorderOutput")
_CHECKS: Mapping[str, tuple[Sizes, ...]] = {
    "gemm": ((8, 512, 512), (48, 384, 1536), (128, 1024, 512), (197, 768, 768)),
    "batched_gemm": ((40, 64, 40), (128, 64, 128), (100, 128, 100)),
    "layer_normalization": ((48, 512), (300, 768)),
    "softmax": ((48, 128), (600, 200)),
    "transpose": ((300_000, 32),),
    "add": ((60_000,), (600_000,)),
    "gelu": ((60_000,), (600_000,)),
    "gather": ((512, 32), (4096, 100)),
}
"""Sizes between the points of the tables, by which these are judged."""
_CONVOLUTION_CHECKS: Mapping[str, tuple[Sizes, ...]] = {
    "pointwise": ((128, 512, 784), (96, 32, 400)),
    "convolution": ((128, 128, 784), (32, 48, 400)),
    "depthwise": ((128, 400),),
}


@dataclass(frozen=True, slots=True)
class _Overheads:
    session: float
    launch: float
    visit: float


@dataclass(slots=True)
class _Bench:
    """All that is measured at one number of threads."""

    buffers: Buffers
    threads: int
    probes: dict[tuple[str, Sizes], Probe] = field(default_factory=dict[tuple[str, Sizes], Probe])

    def seconds(self, name: str, sizes: Sizes = ()) -> float:
        return self.probes[name, sizes].seconds

    def add(self, name: str, sizes: Sizes, content: bytes) -> None:
        self.probes[name, sizes] = Probe(content, self.buffers, self.threads)


def calibrate(progress: Progress | None = None) -> Calibration:
    """Measure this machine with one thread and with all cores, in about a minute.

    Args:
        progress: Called with the name of every stage as it begins.
    """
    say = progress or _silent
    processor = this_processor()
    rates: dict[str, KernelRates] = {}
    with Buffers.of(BUFFER_ELEMENTS, TABLE_BYTES) as buffers:
        for threads in sorted({1, processor.cores}):
            rates[str(threads)] = _rates(buffers, threads, say)
    say("measuring copies")
    bandwidth, latency = _copies()
    return Calibration(SCHEMA, VERSION, processor.name, processor.cores, runtime_version(), rates, bandwidth, latency)


def _silent(stage: str) -> None:
    del stage


def _rates(buffers: Buffers, threads: int, say: Progress) -> KernelRates:
    words = f"{threads} thread{'s' if threads > 1 else ''}"
    say(f"preparing kernels, {words}")
    bench = _bench(buffers, threads)
    say(f"measuring kernels, {words}")
    take_turns([probe.sample for probe in bench.probes.values()], KERNELS_SECONDS)
    overheads = _overheads(bench)
    tables = {name: _table(name, family, bench, overheads) for name, family in FAMILIES.items()}
    errors = _errors(_CHECKS, tables, lambda name, sizes: _call(name, sizes, bench, overheads))
    say(f"measuring convolutions, {words}")
    convolved, more = _convolutions(threads, overheads)
    tables |= convolved
    return KernelRates(
        tables=tables,
        session_seconds=overheads.session,
        launch_seconds=overheads.launch,
        visit_seconds=overheads.visit,
        bandwidth=12.0 * FAMILIES["add"].axes[0][-1] / tables["add"].seconds[-1],
        random_bandwidth=64.0 * 8192 / tables["gather"].at((8192, 16)),
        cold_bandwidth=4.0 * COLD_LAYERS * COLD_WIDTH**2 / bench.seconds("cold"),
        peak_flops={"float32": _peak(tables["gemm"])},
        error=float(np.mean(errors + more)),
    )


def _bench(buffers: Buffers, threads: int) -> _Bench:
    bench = _Bench(buffers, threads)
    one = {"v0": (1,)}
    bench.add("short", (), model(chain("Relu", 1), one, {"v1": (1,)}))
    bench.add("long", (), model(chain("Relu", LONG_CHAIN), one, {f"v{LONG_CHAIN}": (1,)}))
    bench.add("views", (), _views())
    bench.add("cold", (), _cold())
    for name, family in FAMILIES.items():
        for sizes in (*family.points(), *_CHECKS.get(name, ())):
            bench.add(name, sizes, family.build(*sizes))
    return bench


def _views() -> bytes:
    """As many Reshapes as kernels between them, which keep them from becoming one."""
    nodes = [
        node
        for i in range(LONG_CHAIN)
        for node in (
            helper.make_node("Relu", [f"v{i}"], [f"w{i}"]),
            helper.make_node("Reshape", [f"w{i}", f"shape{i % 2}"], [f"v{i + 1}"]),
        )
    ]
    shapes = {"shape0": np.array([1, 1]), "shape1": np.array([1])}
    return model(nodes, {"v0": (1,)}, {f"v{LONG_CHAIN}": (1,)}, shapes)


def _cold() -> bytes:
    nodes = [helper.make_node("MatMul", [f"v{i}", f"w{i}"], [f"v{i + 1}"]) for i in range(COLD_LAYERS)]
    weights = {f"w{i}": numbers(COLD_WIDTH, COLD_WIDTH) / np.float32(COLD_WIDTH * 0.055) for i in range(COLD_LAYERS)}
    return model(nodes, {"v0": (1, COLD_WIDTH)}, {f"v{COLD_LAYERS}": (1, COLD_WIDTH)}, weights)


def _overheads(bench: _Bench) -> _Overheads:
    short, long, views = bench.seconds("short"), bench.seconds("long"), bench.seconds("views")
    launch = (long - short) / (LONG_CHAIN - 1)
    return _Overheads(short - launch, launch, max(0.0, (views - long) / LONG_CHAIN))


def _call(name: str, sizes: Sizes, bench: _Bench, overheads: _Overheads) -> float:
    """Seconds of one call; those of a batch share its start."""
    return (bench.seconds(name, sizes) - overheads.session) / FAMILIES[name].calls


def _table(name: str, family: Family, bench: _Bench, overheads: _Overheads) -> RateTable:
    return table(family, {sizes: _call(name, sizes, bench, overheads) for sizes in family.points()})


def _errors(
    checks: Mapping[str, tuple[Sizes, ...]],
    tables: Mapping[str, RateTable],
    measured: Callable[[str, Sizes], float],
) -> list[float]:
    """Relative errors of the tables at sizes that are no points of theirs."""
    return [abs(tables[name].at(sizes) / measured(name, sizes) - 1) for name, row in checks.items() for sizes in row]


def _peak(gemm: RateTable) -> float:
    rows, inner, columns = gemm.axes
    return 2 * rows[-1] * inner[-2] * columns[-2] / gemm.at((rows[-1], inner[-2], columns[-2]))


def _convolutions(threads: int, overheads: _Overheads) -> tuple[dict[str, RateTable], list[float]]:
    """Tables of convolutions and of reordering, and the errors of the checks."""
    profiled = {
        (name, sizes): Profiled(family.build(*sizes), threads)
        for name, family in CONVOLUTIONS.items()
        for sizes in (*family.points(), *_CONVOLUTION_CHECKS.get(name, ()))
    }
    idle = Profiled(model(chain("Relu", 1), {"v0": (1,)}, {"v1": (1,)}), threads)
    take_turns([probe.sample for probe in (*profiled.values(), idle)], CONVOLUTIONS_SECONDS)
    noting = max(0.0, idle.kernels()["Relu"] - overheads.launch)
    found = {key: probe.kernels() for key, probe in profiled.items()}
    seconds = {key: max(overheads.launch, kernels["Conv"] - noting) for key, kernels in found.items()}
    tables = {
        name: table(family, {sizes: seconds[name, sizes] for sizes in family.points()})
        for name, family in CONVOLUTIONS.items()
    }
    errors = _errors(_CONVOLUTION_CHECKS, tables, lambda name, sizes: seconds[name, sizes])
    return tables | {"reorder": _reordering(found, noting)}, errors


def _reordering(found: Mapping[tuple[str, Sizes], Mapping[str, float]], noting: float) -> RateTable:
    """By elements: what pointwise convolutions' inputs and outputs took to be brought into blocks and back."""
    least: dict[int, float] = {}
    for (name, sizes), kernels in found.items():
        if name != "pointwise":
            continue
        inputs, outputs, positions = sizes
        for op_type, channels in zip(_REORDERS, (inputs, outputs), strict=True):
            elements = channels * positions
            least[elements] = min(least.get(elements, inf), kernels.get(op_type, inf) - noting)
    known = {elements: seconds for elements, seconds in sorted(least.items()) if seconds < inf}
    return RateTable((tuple(map(float, known)),), tuple(max(LEAST_SECONDS, seconds) for seconds in known.values()))


def _copies() -> tuple[float, float]:
    """Bytes/s and fixed seconds of a copy within the host's memory."""
    source, target = np.ones(COPY_BYTES, np.uint8), np.ones(COPY_BYTES, np.uint8)
    short, long = (_copy_seconds(source, target, nbytes) for nbytes in (64, COPY_BYTES))
    return COPY_BYTES / (long - short), short


def _copy_seconds(source: NDArray[np.uint8], target: NDArray[np.uint8], nbytes: int) -> float:
    least = inf
    for _ in range(COPIES):
        started = perf_counter()
        ctypes.memmove(target.ctypes.data, source.ctypes.data, nbytes)
        least = min(least, perf_counter() - started)
    return least
