"""What handing a run from one partition to the next takes in hetpart's own runtime."""

from __future__ import annotations

import json
import tempfile
from itertools import pairwise
from math import inf
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import onnx

from hetpart.calibration.models import chain, model, numbers
from hetpart.compiler import partition

if TYPE_CHECKING:
    from hetpart.runtime.session import Session

MACHINE = "emulated+generic-2core"
"""Whose figures play no part: the placement is given."""
OPS, WIDTH = 24, 64
FEW, MANY = 2, 24
ROUNDS, RUNS = 30, 10


def partition_seconds(threads: int) -> float:
    """Seconds of one more partition, its session and its copy included, its kernels not.

    A chain of small ops runs in few and in many partitions, on the host and the emulated accelerator by turns.
    """
    with _session(FEW, threads) as few, _session(MANY, threads) as many:
        feeds = {"v0": numbers(WIDTH)}
        least = {few: inf, many: inf}
        for _ in range(ROUNDS):
            for session in (few, many):
                for _ in range(RUNS):
                    started = perf_counter()
                    session.run(None, feeds)
                    least[session] = min(least[session], perf_counter() - started)
    return max(0.0, (least[many] - least[few]) / (MANY - FEW))


def _session(partitions: int, threads: int) -> Session:
    content = model(chain("Relu", OPS), {"v0": (WIDTH,)}, {f"v{OPS}": (WIDTH,)})
    borders = [round(OPS * place / partitions) for place in range(partitions + 1)]
    devices = {
        f"n{op}": "cuda:0" if turn % 2 else "cpu"
        for turn, (start, end) in enumerate(pairwise(borders))
        for op in range(start, end)
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "placement.json"
        file.write_text(json.dumps(devices))
        found = partition(onnx.load_from_string(content), hardware=MACHINE, placement=file, threads=threads)
    assert len(found.plan.partitions) == partitions
    return found.session(emulate=True, threads=threads)
