# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Measure an accelerator: its kernels by family and size, what sessions take there, and copies both ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from time import perf_counter
from typing import Any

import numpy as np

from hetpart.calibration.families import TABLE_BYTES
from hetpart.calibration.kernels import ROWS, TABLE
from hetpart.calibration.probes import SHORT, TWIN, Key
from hetpart.calibration.readings import Readings
from hetpart.calibration.timing import DTYPES
from hetpart.cost_model.calibrated import AcceleratorCalibration, CopyRate
from hetpart.cost_model.kernel_calls import GROUPED, LONE, OVERWRITTEN, REORDER, STREAMED
from hetpart.cost_model.moving_calls import FAR_LOOKUPS, GATHER_SHARED
from hetpart.devices import Provider
from hetpart.errors import DeviceUnavailableError
from hetpart.rates import KernelRates, RateTable, Starts
from hetpart.runtime.sessions import plain_session
from hetpart.runtime.transport import HostBlock, Memory

WARMING, RUNS = 3, 10
COPIES = 10
COPY_BYTES = (64, 2**12, 2**16, 2**20, 2**24, 2**26)
_NO_LIMIT = 2.0**62
_NOTHING = RateTable(((1.0,),), (1e-9,))
"""Its kernels read channels as the model lays them out, and weights from its memory."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where kernels run: a device, its memory, and the provider that computes there."""

    name: str
    """The device's model, as its driver says."""
    device: str
    memory: Memory
    provider: Provider


def measure_accelerator(place: Place, models: Mapping[Key, bytes], end: float = inf) -> AcceleratorCalibration:
    """What ``place`` takes for every probe of ``models``, and for copies.

    Every run ends when the device has finished: ONNX Runtime waits for it. Caches play no part, for a kernel takes
    as long as starting it while its operands fit them. From ``end`` on, by the clock, each is timed once.
    """
    runs: dict[Key, float] = {}
    for key, content in models.items():
        # The provider has not every kernel; families of which one is missing are priced by their work.
        with suppress(Exception):
            runs[key] = _seconds(place, content, end)
    if SHORT not in runs:
        raise DeviceUnavailableError(
            f"no kernel runs on {place.device}, {place.name}", hint="see whether ONNX Runtime's provider starts there"
        )
    runs[TWIN] = runs[SHORT]
    readings = Readings(runs, {}, 0.0)
    return AcceleratorCalibration(place.name, _rates(readings), _copies(place.memory))


def _rates(readings: Readings) -> KernelRates:
    tables = readings.tables()
    tables |= {STREAMED: tables["gemm"], REORDER: _NOTHING, OVERWRITTEN: tables["relu"]}
    tables |= {name: tables[whole] for name, whole in {**GROUPED, **LONE}.items() if whole in tables}
    tables |= {FAR_LOOKUPS: tables[GATHER_SHARED]}
    return KernelRates(
        tables=tables,
        warm_tables=tables,
        weights_table=_NOTHING,
        session_seconds=readings.session,
        hop_seconds=0.0,
        launch_seconds=readings.launch,
        visit_seconds=readings.visit,
        operand_seconds=readings.operand,
        cool=Starts(),
        cold=Starts(),
        filled_seconds=0.0,
        constant_seconds=0.0,
        **readings.bandwidths(tables, TABLE_BYTES),
        lone_bandwidth=readings.bandwidth,
        peak_flops=readings.peaks(),
        core_cache_bytes=0.0,
        cache_bytes=_NO_LIMIT,
        quiet_share=1.0,
        error=float(np.mean(readings.errors(tables))),
    )


def _seconds(place: Place, content: bytes, end: float) -> float:
    """The least of some runs on operands that lie in the device's memory; of one when the clock shows ``end``."""
    session = plain_session(content, place.provider, place.device)
    binding = session.io_binding()
    inputs = session.get_inputs()
    rows = next((arg.shape[0] for arg in inputs if arg.name == TABLE), 1)
    blocks = [
        *(_bound(place.memory, arg, binding.bind_input, rows) for arg in inputs),
        *(_bound(place.memory, arg, binding.bind_output, rows) for arg in session.get_outputs()),
    ]
    least = inf
    for run in range(WARMING + RUNS):
        started = perf_counter()
        session.run_with_iobinding(binding)
        ended = perf_counter()
        least = min(least, ended - started) if run >= WARMING else inf
        if run >= WARMING and ended > end:
            break
    del blocks
    return least


def _bound(memory: Memory, arg: Any, bind: Callable[..., None], rows: int) -> object:
    """Memory for ``arg``, bound: ones, as the results of a NonZero have its size, or numbers of rows to look up."""
    dtype = DTYPES[arg.type]
    content = np.ones(arg.shape, dtype)
    if arg.name.startswith(ROWS):
        content[:] = np.random.default_rng(0).integers(0, rows, arg.shape)
    block = memory.allocate(content.nbytes)
    memory.copy_in(block.address, content.ctypes.data, content.nbytes)
    bind(arg.name, memory.device_type, memory.device_id, dtype, arg.shape, block.address)
    return block


def _copies(memory: Memory) -> tuple[CopyRate, ...]:
    """Seconds of copies by size, from pinned and from pageable memory, in and out."""
    device = memory.allocate(COPY_BYTES[-1])
    found: list[CopyRate] = []
    for pinned, host in ((True, memory.pinned(COPY_BYTES[-1])), (False, HostBlock(COPY_BYTES[-1]))):
        for nbytes in COPY_BYTES:
            into = _least(partial(memory.copy_in, device.address, host.address, nbytes))
            out = _least(partial(memory.copy_out, host.address, device.address, nbytes))
            found += [
                CopyRate(inwards=True, pinned=pinned, nbytes=nbytes, seconds=into),
                CopyRate(inwards=False, pinned=pinned, nbytes=nbytes, seconds=out),
            ]
    return tuple(found)


def _least(copy: Callable[[], None]) -> float:
    least = inf
    for _ in range(COPIES):
        started = perf_counter()
        copy()
        least = min(least, perf_counter() - started)
    return least
