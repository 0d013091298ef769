"""Files of a training: a checkpoint of a gigabyte written and read back, and lines of Criteo's made into batches.

    python -m benchmarks.training_files [--folder build]

A checkpoint counts as written when the disk says that it holds it; ``plain_write`` is as many bytes written and synced
by themselves. No reach is set.
"""

from __future__ import annotations

import argparse
import os
import resource
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks.measure import Spread, emit, interleaved, machine_facts, say
from hetpart.training.checkpoint import load, save
from hetpart.training.data import Clicks, Criteo, prefetch

NBYTES, TENSORS, LINES = 1 << 30, 64, 500_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build"))
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    facts = machine_facts() | {"torch": torch.__version__}
    with TemporaryDirectory(dir=folder) as scratch:
        content = {"machine": facts, "checkpoint": _checkpoint(Path(scratch)), "criteo": _criteo(Path(scratch))}
    emit("training_files", content | {"clicks": _clicks()})


def _checkpoint(folder: Path) -> dict[str, Any]:
    say("training_files: checkpoint")
    tensors = {f"layer.{i}": torch.randn(NBYTES // TENSORS // 4) for i in range(TENSORS)}
    raw = np.concatenate([tensor.numpy() for tensor in tensors.values()])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def plain() -> None:
        with (folder / "plain").open("wb") as file:
            raw.tofile(file)
            os.fsync(file.fileno())

    def write() -> None:
        save(folder / "checkpoints", 1, tensors, {"step": 1}, keep_max=1)

    def read() -> None:
        load(folder / "checkpoints").read_into(tensors)

    write()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    names = ("plain_write", "write", "read")
    spreads = dict(zip(names, map(Spread.of, interleaved((plain, write, read), 5)), strict=True))
    return {"nbytes": NBYTES, "resident_bytes_while_writing": grown * 1024, "seconds": spreads}


def _criteo(folder: Path) -> dict[str, Any]:
    say("training_files: Criteo")
    random = np.random.default_rng(0)
    counts, hashes = random.integers(0, 5000, (LINES, 13)), random.integers(0, 1 << 32, (LINES, 26))
    path = folder / "train.txt"
    with path.open("w") as file:
        for label, own, others in zip(random.integers(0, 2, LINES), counts, hashes, strict=True):
            file.write("\t".join([str(label), *map(str, own), *(f"{h:08x}" for h in others)]) + "\n")

    def read() -> None:
        assert sum(len(label) for _, _, label in Criteo(path, 4096, drop_last=False)) == LINES

    (seconds,) = interleaved((read,), 5)
    spread = Spread.of(seconds)
    return {"lines": LINES, "nbytes": path.stat().st_size, "seconds": spread, "lines_per_second": LINES / spread.median}


def _clicks() -> dict[str, Any]:
    say("training_files: drawn clicks")
    data = Clicks((200_000,) * 39, batch_size=16_000, batches=5, dense=13)
    (seconds,) = interleaved((lambda: list(prefetch(data)),), 5)
    return {"batch": [16_000, 39], "seconds_per_batch": Spread.of([each / len(data) for each in seconds])}


if __name__ == "__main__":
    main()
