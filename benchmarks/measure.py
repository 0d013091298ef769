"""What every benchmark prints: facts about the machine, samples as medians with their spread, one JSON object."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from random import Random
from statistics import median, quantiles
from time import perf_counter
from typing import Any

from hetpart import __version__
from hetpart.cost_model.detect import this_processor

ROOT = Path(__file__).resolve().parent.parent
SCHEMA_PREFIX = "hetpart.benchmark."
PACKAGES = ("onnx", "onnx-ir", "onnxruntime", "onnxruntime-gpu", "numpy", "scipy")


@dataclass(frozen=True, slots=True)
class Spread:
    """Samples in a few numbers."""

    median: float
    lower_quartile: float
    upper_quartile: float
    least: float
    most: float
    samples: int

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread:
        """At least one sample."""
        low, _, high = quantiles(samples, n=4, method="inclusive") if len(samples) > 1 else [*samples] * 3
        figures = (median(samples), low, high, min(samples), max(samples))
        return cls(*(float(f"{figure:.5g}") for figure in figures), len(samples))


def machine_facts() -> dict[str, Any]:
    """The processor, the software and how busy the machine is now; nothing that names the machine."""
    return {
        "cpu": this_processor().kind,
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {"hetpart": __version__} | {name: found for name in PACKAGES if (found := _version(name))},
        "commit": _commit(),
        "load_average_before": [round(load, 2) for load in os.getloadavg()],
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _commit() -> str:
    """The commit measured; ``+`` at its end where files of hetpart differ from it."""
    head = _git("rev-parse", "--short", "HEAD")
    return head + ("+" if _git("status", "--porcelain", "--", "hetpart") else "")


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


def emit(name: str, content: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    json.dump({"schema": SCHEMA_PREFIX + name, "version": 1, **content}, sys.stdout, indent=2, default=_plain)
    sys.stdout.write("\n")


def _plain(value: object) -> Any:
    return asdict(value) if isinstance(value, Spread) else str(value)


def rows_before(path: Path | None) -> list[dict[str, Any]]:
    """The rows of an earlier run that ``emit`` printed, of which some are to be measured anew; without a file none."""
    return [] if path is None else json.loads(path.read_text())["rows"]


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def interleaved(rivals: Sequence[Callable[[], object]], rounds: int) -> list[list[float]]:
    """Seconds of every call, by rival. In each round all run once, in an order by chance: none has the better place."""
    order = Random(0)
    seconds: list[list[float]] = [[] for _ in rivals]
    for _ in range(rounds):
        for position in order.sample(range(len(rivals)), len(rivals)):
            start = perf_counter()
            rivals[position]()
            seconds[position].append(perf_counter() - start)
    return seconds


def fresh_process(module: str, *arguments: str, given: str = "") -> Any:
    """The JSON that ``python -m module arguments`` prints in a process of its own, ``given`` on its standard input."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, input=given)
    return json.loads(done.stdout)
