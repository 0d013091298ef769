"""Measure this machine: kernels by family and size, overheads, and copies within its memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from hetpart.calibration.fit import LEAST_SECONDS, table
from hetpart.calibration.probes import (
    CHECKS,
    COLD,
    COLD_LAYERS,
    COLD_WIDTH,
    CONVOLUTIONS,
    FAMILIES,
    FEW,
    FEW_OPERANDS,
    LONG,
    LONG_CHAIN,
    MANY,
    MANY_OPERANDS,
    SHORT,
    SPEED,
    TABLE_BYTES,
    TWIN,
    VIEWS,
    WEIGHING,
    Key,
    probe_models,
)
from hetpart.calibration.timing import Buffers, Probe, Profiled, Quiet, Turns, take_turns
from hetpart.cost_model.calibrated import SCHEMA, VERSION, Calibration, runtime_version
from hetpart.cost_model.detect import cache_bytes, this_processor
from hetpart.cost_model.kernel_calls import REORDER, STREAMED
from hetpart.rates import KernelRates, RateTable
from hetpart.units import format_count

Progress = Callable[[str], None]
BUFFER_ELEMENTS = 2**24
SECONDS = 53.0
"""Of all of it, the building of sessions included."""
COPY_BYTES = 2**26
COPIES = 20
_REORDERS = ("ReorderInput", "ReorderOutput")


@dataclass(frozen=True, slots=True)
class _State:
    """What all probes took, in one state of the caches."""

    runs: Mapping[Key, float]
    """Seconds of a run, of probes measured end to end."""
    kernels: Mapping[Key, Mapping[str, float]]
    """Seconds of each kernel by op type, of those that were profiled."""
    noting: float
    """Seconds that the profile itself adds to a kernel."""

    @property
    def launch(self) -> float:
        return (self.runs[LONG] - self.runs[SHORT]) / (LONG_CHAIN - 1)

    @property
    def session(self) -> float:
        return self.runs[SHORT] - self.launch

    @property
    def beside(self) -> float:
        """Seconds of a probe's run beside its kernel: what its session keeps is as cold as its operands."""
        return self.runs[TWIN] - self.launch

    @property
    def operand(self) -> float:
        # What an input of a session costs beside its kernel is a small part of it.
        return max(0.0, (self.runs[MANY] - self.runs[FEW]) / (MANY_OPERANDS - FEW_OPERANDS))

    @property
    def visit(self) -> float:
        return max(0.0, (self.runs[VIEWS] - self.runs[LONG]) / LONG_CHAIN)

    def call(self, key: Key) -> float:
        """Seconds of one call of the kernel that ``key`` names."""
        name, _ = key
        if name in CONVOLUTIONS:
            return max(self.launch, self.kernels[key]["Conv"] - self.noting)
        return (self.runs[key] - self.beside) / FAMILIES[name].calls

    def tables(self) -> dict[str, RateTable]:
        """Of every family, and of reordering."""
        return {name: self.table(name) for name in (*FAMILIES, *CONVOLUTIONS)} | {REORDER: self.reordering()}

    def table(self, name: str) -> RateTable:
        """Of one family."""
        family = FAMILIES.get(name) or CONVOLUTIONS[name]
        return table(family, {sizes: self.call((name, sizes)) for sizes in family.points()})

    def reordering(self) -> RateTable:
        """By elements: what pointwise convolutions' inputs and outputs took to be brought into blocks and back."""
        least: dict[int, float] = {}
        for inputs, outputs, positions in CONVOLUTIONS["pointwise"].points():
            kernels = self.kernels["pointwise", (inputs, outputs, positions)]
            for op_type, channels in zip(_REORDERS, (inputs, outputs), strict=True):
                seconds = kernels.get(op_type, inf) - self.noting
                least[channels * positions] = min(least.get(channels * positions, inf), max(LEAST_SECONDS, seconds))
        known = {elements: seconds for elements, seconds in sorted(least.items()) if seconds < inf}
        return RateTable((tuple(map(float, known)),), tuple(known.values()))

    def errors(self, tables: Mapping[str, RateTable]) -> list[float]:
        """Relative errors of the tables at sizes that are no points of theirs."""
        return [
            abs(tables[name].at(sizes) / self.call((name, sizes)) - 1) for name, row in CHECKS.items() for sizes in row
        ]


@dataclass(slots=True)
class _Bench:
    """All that is measured at one number of threads."""

    buffers: Buffers
    threads: int
    probes: dict[Key, Probe] = field(default_factory=dict[Key, Probe])
    profiled: dict[Key, Profiled] = field(default_factory=dict[Key, Profiled])

    @staticmethod
    def of(models: Mapping[Key, bytes], buffers: Buffers, threads: int) -> _Bench:
        bench = _Bench(buffers, threads)
        for key, content in models.items():
            if key[0] in CONVOLUTIONS:
                bench.profiled[key] = Profiled(content, threads)
            else:
                bench.add(key, content)
        bench.profiled[SHORT] = Profiled(models[SHORT], threads)
        return bench

    def add(self, key: Key, content: bytes) -> None:
        """``content`` as a probe; another of its family runs before each of its runs and warms the kernel's code."""
        name, _ = key
        first = next((probe for (other, _), probe in self.probes.items() if other == name), None)
        before = first or self.probes.get(SHORT)
        self.probes[key] = Probe(content, self.buffers, self.threads, before=before, weighs=name in WEIGHING)
        if first is not None and first.before in (first, self.probes[SHORT]):
            first.before = self.probes[key]

    def turns(self) -> Turns:
        """Everything that is to be sampled."""
        quiet = Quiet(self.probes[SPEED], self.threads)
        return Turns([probe.sample for probe in (*self.probes.values(), *self.profiled.values())], quiet)

    def states(self) -> tuple[_State, _State, _State]:
        """The one in which weights are streamed, the cool one, and the warm one. The bench ends with it."""
        kernels = {key: profiled.kernels() for key, profiled in self.profiled.items()}
        cool, warm = ({key: pair[which] for key, pair in kernels.items()} for which in (0, 1))
        noting = max(0.0, warm[SHORT]["Relu"] - LEAST_SECONDS)
        streamed = {key: probe.streamed if probe.weighs else probe.cool for key, probe in self.probes.items()}
        return (
            _State(streamed, cool, noting),
            _State({key: probe.cool for key, probe in self.probes.items()}, cool, noting),
            _State({key: probe.warm for key, probe in self.probes.items()}, warm, noting),
        )

    def rates(self, quiet_share: float) -> KernelRates:
        streamed, cool, warm = self.states()
        tables = cool.tables() | {STREAMED: streamed.table("gemm")}
        return KernelRates(
            tables=tables,
            warm_tables=warm.tables(),
            session_seconds=cool.session,
            launch_seconds=warm.launch,
            visit_seconds=cool.visit,
            operand_seconds=cool.operand,
            bandwidth=12.0 * FAMILIES["add"].axes[0][-1] / tables["add"].seconds[-1],
            random_bandwidth=64.0 * 8192 / tables["gather"].at((8192, 16, TABLE_BYTES)),
            cold_bandwidth=4.0 * COLD_LAYERS * COLD_WIDTH**2 / streamed.runs[COLD],
            peak_flops={"float32": _peak(tables["gemm"])},
            core_cache_bytes=cache_bytes(2),
            cache_bytes=cache_bytes(3) / 2,
            quiet_share=quiet_share,
            error=float(np.mean(cool.errors(tables))),
        )


def calibrate(progress: Progress | None = None) -> Calibration:
    """Measure this machine with one thread and with all cores, in about a minute.

    Args:
        progress: Called with the name of every stage as it begins.
    """
    say = progress or _silent
    processor = this_processor()
    end = perf_counter() + SECONDS
    with Buffers.of(BUFFER_ELEMENTS, TABLE_BYTES) as buffers:
        say("preparing kernels")
        models = dict(probe_models())
        numbers = sorted({1, processor.cores})
        benches = [_Bench.of(models, buffers, threads) for threads in numbers]
        say(f"measuring kernels, {' and '.join(format_count(threads, 'thread') for threads in numbers)}")
        groups = [bench.turns() for bench in benches]
        take_turns(groups, end)
        shares = [group.quiet.share for group in groups]
        rates = {str(bench.threads): bench.rates(share) for bench, share in zip(benches, shares, strict=True)}
    say("measuring copies")
    bandwidth, latency = _copies()
    return Calibration(SCHEMA, VERSION, processor.name, processor.cores, runtime_version(), rates, bandwidth, latency)


def _silent(stage: str) -> None:
    del stage


def _peak(gemm: RateTable) -> float:
    rows, inner, columns = gemm.axes
    return 2 * rows[-1] * inner[-2] * columns[-2] / gemm.at((rows[-1], inner[-2], columns[-2]))


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
