"""Calibrations in the user's configuration folder: a file for each processor and version of ONNX Runtime."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from math import prod
from pathlib import Path
from tempfile import TemporaryFile

import msgspec

from hetpart.cost_model.detect import Processor, this_processor
from hetpart.cost_model.kernel_calls import GROUPED, LONE, REORDER
from hetpart.cost_model.roofline import DEFAULT_DTYPE
from hetpart.errors import HetpartError
from hetpart.files import write_whole
from hetpart.rates import LEAST_SECONDS, KernelRates, RateTable

SCHEMA = "hetpart.calibration"
VERSION = 14
RUNTIMES = ("onnxruntime-gpu", "onnxruntime")
FOLDER_VARIABLE = "XDG_CONFIG_HOME"
MOST_AT_FLOOR = 0.1
"""Of a family's calls. Undisturbed, 0 to 6 % of any were measured so short."""
LEAST_RATE = 0.05
"""Of the best products' rate. On quiet cores a quarter of each family's calls were measured at 0.13 to 1.0 of it or
less; beside other work, of channels by themselves at 0.006 to 0.04."""
CONVOLVED: Mapping[str, float] = {"convolution": 9, "depthwise": 9, "pointwise": 1, "stem": 3}
"""Families of convolutions: products for each of a call's sizes multiplied."""
_FLOOR = 1.001 * LEAST_SECONDS
"""Tables of more threads are multiplied from those of one, and rounded."""
_MAY_TAKE_NOTHING = frozenset({REORDER, *GROUPED, *LONE})
"""Reordering few elements is below what a profile notes; groups are a thread's part of a call."""
_SAFE = re.compile(r"[^a-z0-9.]+")


@dataclass(frozen=True, slots=True)
class CopyRate:
    """What a copy between the host and an accelerator takes."""

    inwards: bool
    """To the accelerator."""
    pinned: bool
    """From or to host memory that the accelerator reaches by itself."""
    nbytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class AcceleratorCalibration:
    """What was measured on an accelerator."""

    name: str
    """As its driver calls it."""
    rates: KernelRates
    copies: tuple[CopyRate, ...]

    def copy_seconds(self, *, inwards: bool, pinned: bool) -> dict[int, float]:
        """By bytes, ascending."""
        rows = [copy for copy in self.copies if (copy.inwards, copy.pinned) == (inwards, pinned)]
        return {copy.nbytes: copy.seconds for copy in sorted(rows, key=lambda copy: copy.nbytes)}

    def bandwidth(self, *, inwards: bool, pinned: bool) -> float:
        """Bytes/s of large copies."""
        seconds = self.copy_seconds(inwards=inwards, pinned=pinned)
        least, most = min(seconds), max(seconds)
        return (most - least) / max(1e-9, seconds[most] - seconds[least])

    @property
    def latency(self) -> float:
        """Seconds of a copy of a few bytes, the longer way."""
        return max(next(iter(self.copy_seconds(inwards=way, pinned=False).values())) for way in (True, False))


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured on one machine with one version of ONNX Runtime."""

    schema: str
    version: int
    processor: str
    cores: int
    runtime: str
    """Version of ONNX Runtime."""
    threads: Mapping[str, KernelRates]
    """By number of threads, in digits."""
    link_bandwidth: float
    """Bytes/s of a copy within the host's memory: the emulated accelerator's link."""
    link_seconds: float
    """Of a copy of a few bytes."""
    accelerator: AcceleratorCalibration | None = None
    """Where CUDA was there."""

    def rates(self, threads: int) -> KernelRates | None:
        """What was measured with so many threads (0: all cores); nothing where it was another number."""
        return self.threads.get(str(threads or self.cores))


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a file says of itself."""

    schema: str
    version: int


_READ = _Kind(SCHEMA, VERSION)


def slower_together(found: Calibration, dtype: str = DEFAULT_DTYPE) -> tuple[int, ...]:
    """Numbers of threads that seem to multiply matrices slower than one does: they waited for cores that others had."""
    alone = found.rates(1)
    least = 0.0 if alone is None else alone.peak_flops.get(dtype, 0.0)
    return tuple(int(count) for count, rates in found.threads.items() if rates.peak_flops.get(dtype, least) < least)


def too_slow(rates: KernelRates) -> tuple[str, ...]:
    """Families of convolutions that others slowed: a quarter of their calls multiply far slower than products do."""
    least = LEAST_RATE * rates.peak_flops[DEFAULT_DTYPE]
    tables = [*rates.tables.items(), *rates.warm_tables.items()]
    return tuple(sorted({n for n, table in tables if n in CONVOLVED and _low_rate(table, CONVOLVED[n]) < least}))


def _low_rate(table: RateTable, each: float) -> float:
    """Operations/s that a quarter of its calls stay below."""
    points = zip(product(*table.axes), table.seconds, strict=True)
    ascending = sorted(2 * each * prod(sizes) / seconds for sizes, seconds in points)
    return ascending[len(ascending) // 4]


def too_fast(rates: KernelRates) -> tuple[str, ...]:
    """Families whose calls seem to take less than any kernel does: more than all of it was taken off for overheads."""
    tables = [*rates.tables.items(), *rates.warm_tables.items()]
    found = {name for name, table in tables if _share_at_floor(table) > MOST_AT_FLOOR}
    return tuple(sorted(found - _MAY_TAKE_NOTHING))


def _share_at_floor(table: RateTable) -> float:
    return sum(seconds < _FLOOR for seconds in table.seconds) / len(table.seconds)


def runtime_version() -> str:
    """Version of the ONNX Runtime that is installed; ``""`` where none is."""
    for name in RUNTIMES:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return ""


def folder() -> Path:
    """Where calibrations lie: ``$XDG_CONFIG_HOME/hetpart/calibration``, ``~/.config/…`` without it."""
    base = os.environ.get(FOLDER_VARIABLE)
    return (Path(base) if base else Path.home() / ".config") / "hetpart" / "calibration"


def path_of(processor: Processor, runtime: str) -> Path:
    """The file of a calibration."""
    stem = f"{processor.kind}-{processor.cores}-cores-onnxruntime-{runtime}"
    return folder() / f"{_SAFE.sub('-', stem.lower()).strip('-')}.json"


def outdated() -> tuple[Path, ...]:
    """Calibrations of this machine for other versions of ONNX Runtime, where there is none for the one installed."""
    processor, runtime = this_processor(), runtime_version()
    if path_of(processor, runtime).exists():
        return ()
    return tuple(sorted(folder().glob(path_of(processor, "*").name.replace("onnxruntime", "onnxruntime-*"))))


def load() -> Calibration | None:
    """This machine's calibration for the ONNX Runtime installed here; None where it was not calibrated.

    Raises:
        HetpartError: the file is there and cannot be read, or another version of hetpart wrote it.
    """
    path = path_of(this_processor(), runtime_version())
    try:
        content = path.read_bytes()
        kind = msgspec.json.decode(content, type=_Kind)
        found = msgspec.json.decode(content, type=Calibration) if kind == _READ else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, msgspec.DecodeError) as error:
        raise HetpartError(
            f"the calibration {path} cannot be read: {error}", hint="delete it, or run `hetpart calibrate` again"
        ) from error
    if found is None:
        raise HetpartError(
            f"the calibration {path} is {kind.schema!r} of version {kind.version}; this hetpart reads {SCHEMA!r} of"
            f" version {VERSION}",
            hint="run `hetpart calibrate` to measure this machine again",
        )
    return found


def require_writable() -> None:
    """See that calibrations can be written, before a minute is spent on one.

    Raises:
        HetpartError: their folder cannot be made, or not be written to.
    """
    there = folder()
    try:
        there.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise HetpartError(
            f"calibrations cannot be written to {there}: {error.strerror}",
            hint=f"make the folder writable, or let {FOLDER_VARIABLE} name another one",
        ) from error


def save(calibration: Calibration) -> Path:
    """Write ``calibration`` to its file, whole or not at all."""
    path = path_of(Processor(calibration.processor, calibration.cores, None), calibration.runtime)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, msgspec.json.format(msgspec.json.encode(calibration, order="deterministic"), indent=2))
    return path
