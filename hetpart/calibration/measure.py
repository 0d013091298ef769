"""Measure this machine: kernels by family and size, overheads, and copies within its memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from hetpart.calibration.accelerator import Place, measure_accelerator
from hetpart.calibration.families import CONVOLUTIONS, TABLE_BYTES
from hetpart.calibration.hops import partition_seconds
from hetpart.calibration.probes import (
    FLUSHED,
    KEPT,
    OVER,
    SHORT,
    SPEED,
    WEIGHING,
    Key,
    probe_keys,
    probe_models,
)
from hetpart.calibration.samples import Sampled, Samples
from hetpart.calibration.taken import Taken, TakenByKernels, named
from hetpart.calibration.timing import Buffers, Manner, Probe, Profiled
from hetpart.calibration.turns import Quiet, Turns, take_turns
from hetpart.cost_model.calibrated import VERSION, runtime_version
from hetpart.cost_model.detect import driver_gpus, this_processor
from hetpart.devices import Provider
from hetpart.runtime.cuda import cuda_answers
from hetpart.runtime.sessions import require_runtime
from hetpart.runtime.transport import CudaMemory
from hetpart.units import format_count

Progress = Callable[[str], None]
BUFFER_ELEMENTS = 2**24
SECONDS = 48.0
"""Of measuring kernels, the building of their sessions included. Copies, the fit and starting take a few beside it."""
ACCELERATOR_SECONDS = 14.0
"""That are taken off them where there is a GPU, for its kernels."""
COPY_BYTES = 2**26
COPIES = 20


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
        for key in probe_keys(thin=threads > 1):
            content = models[key]
            if key[0] in CONVOLUTIONS:
                bench.profiled[key] = Profiled(content, threads, buffers.evict)
            else:
                bench.add(key, content)
        bench.profiled[SHORT] = Profiled(models[SHORT], threads, buffers.evict)
        return bench

    def add(self, key: Key, content: bytes) -> None:
        """``content`` as a probe; another of its family runs before each of its runs and warms the kernel's code."""
        name, _ = key
        first = next((probe for (other, _), probe in self.probes.items() if other == name), None)
        before = first or self.probes.get(SHORT)
        manner = Manner(weighs=name in WEIGHING, flushed=name in FLUSHED, over=name == OVER, kept=name == KEPT)
        self.probes[key] = Probe(content, self.buffers, self.threads, before=before, manner=manner)
        if first is not None and first.before in (first, self.probes[SHORT]):
            first.before = self.probes[key]

    def turns(self) -> Turns:
        """Everything that is to be sampled."""
        quiet = Quiet(self.probes[SPEED], self.threads)
        return Turns([probe.sample for probe in (*self.probes.values(), *self.profiled.values())], quiet)

    def samples(self, quiet_share: float, hop: float) -> Samples:
        """What everything took at best. The bench ends with it."""
        return Samples(
            self.threads,
            {named(key): _taken(probe) for key, probe in self.probes.items()},
            {named(key): TakenByKernels(*profiled.kernels()) for key, profiled in self.profiled.items()},
            hop,
            quiet_share,
        )


def _taken(probe: Probe) -> Taken:
    streamed = probe.streamed if probe.manner.weighs else probe.cool
    far = probe.far if probe.manner.flushed else probe.cool
    return Taken(streamed.seconds, probe.cool.seconds, probe.warm.seconds, far.seconds)


def sample(progress: Progress | None = None) -> Sampled:
    """Measure this machine with one thread and with all cores, and a GPU where it has one, in under a minute.

    The process is for this alone: sessions that share threads leave no others to sessions made after them.

    Args:
        progress: Called with the name of every stage as it begins.
    """
    say = progress or _silent
    processor = this_processor()
    whole = perf_counter() + SECONDS
    end = whole - (ACCELERATOR_SECONDS if driver_gpus() else 0.0)
    numbers = sorted({1, processor.cores})
    say("measuring partitions")
    hops = [partition_seconds(threads) for threads in numbers]
    with Buffers.of(BUFFER_ELEMENTS, TABLE_BYTES) as buffers:
        say("preparing kernels")
        models = dict(probe_models())
        benches = [_Bench.of(models, buffers, threads) for threads in numbers]
        say(f"measuring kernels, {' and '.join(format_count(threads, 'thread') for threads in numbers)}")
        groups = [bench.turns() for bench in benches]
        take_turns(groups, end)
        shares = [group.quiet.share for group in groups]
        taken = tuple(bench.samples(*found) for bench, *found in zip(benches, shares, hops, strict=True))
    say("measuring copies")
    bandwidth, latency = _copies()
    found = Sampled(VERSION, processor.kind, processor.cores, runtime_version(), taken, bandwidth, latency)
    place = _cuda_place()
    if place is None:
        return found
    say(f"measuring {place.name}")
    return replace(found, accelerator=measure_accelerator(place, models, whole))


def _cuda_place() -> Place | None:
    """The first GPU, where its driver and ONNX Runtime's provider answer."""
    gpus = driver_gpus()
    if not gpus or not cuda_answers(0) or Provider.CUDA not in require_runtime().get_available_providers():
        return None
    return Place(gpus[0].name, "cuda:0", CudaMemory(0), Provider.CUDA)


def _silent(stage: str) -> None:
    del stage


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
