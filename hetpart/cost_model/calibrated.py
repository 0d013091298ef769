"""Calibrations in the user's configuration folder: a file for each processor and version of ONNX Runtime."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from hetpart.cost_model.detect import Processor, this_processor
from hetpart.errors import HetpartError
from hetpart.rates import KernelRates

SCHEMA = "hetpart.calibration"
VERSION = 1
RUNTIMES = ("onnxruntime-gpu", "onnxruntime")
FOLDER_VARIABLE = "XDG_CONFIG_HOME"
_SAFE = re.compile(r"[^a-z0-9.]+")


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

    def rates(self, threads: int) -> KernelRates | None:
        """What was measured with so many threads (0: all cores); nothing where it was another number."""
        return self.threads.get(str(threads or self.cores))


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
    stem = f"{processor.name or 'unnamed'}-{processor.cores}-cores-onnxruntime-{runtime}"
    return folder() / f"{_SAFE.sub('-', stem.lower()).strip('-')}.json"


def load() -> Calibration | None:
    """This machine's calibration for the ONNX Runtime installed here; None where it was not calibrated.

    Raises:
        HetpartError: the file is there and cannot be read.
    """
    path = path_of(this_processor(), runtime_version())
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Calibration)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, msgspec.DecodeError) as error:
        raise HetpartError(
            f"the calibration {path} cannot be read: {error}", hint="delete it, or run `hetpart calibrate` again"
        ) from error
    return found if (found.schema, found.version) == (SCHEMA, VERSION) else None


def save(calibration: Calibration) -> Path:
    """Write ``calibration`` to its file, whole or not at all."""
    path = path_of(Processor(calibration.processor, calibration.cores, None), calibration.runtime)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    try:
        part.write_bytes(msgspec.json.format(msgspec.json.encode(calibration, order="deterministic"), indent=2))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path
