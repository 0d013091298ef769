"""Partition damaged models one after another, in a process that may die of it; a parent reads how each ended.

    python -m tests.fuzz.worker FOLDER FIRST COUNT

``FOLDER`` has folders of models to damage. Mutant number N is the same in every run. Its number is printed before it is
tried and how it ended after, so that the last number of a process that died is the one that killed it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import random
import resource
import sys
import traceback
import warnings
from pathlib import Path

import onnx

import hetpart
from tests.fuzz.mutate import mutated_bytes, mutated_fields

LONGEST_SECONDS = 20
MOST_ADDRESSES = 8 * 2**30
MOST_GROWTH = 200 * 2**20
"""Resident bytes by which trying one model may raise the most so far: all of them are small."""
_PLACEMENTS = ("optimal", "random:1", "all-accelerator")
_BUDGETS = ("100kB", "100%")
_BYTES_SHARE = 0.25


def mutant(number: int, folder: Path) -> tuple[str, bytes]:
    """Name of the model that mutant ``number`` is made from, and the mutant."""
    rng = random.Random(number)
    kind = rng.choice(sorted(path for path in folder.iterdir() if path.is_dir()))
    source = rng.choice(sorted(kind.glob("*.onnx")))
    data = source.read_bytes()
    if rng.random() < _BYTES_SHARE:
        return source.stem, mutated_bytes(data, rng)
    return source.stem, mutated_fields(onnx.ModelProto.FromString(data), rng)


def attempt(path: Path, number: int) -> str:
    """How partitioning ``path`` ended: ``plan``, the name of hetpart's error, or a traceback."""
    try:
        hetpart.partition(
            path, hardware="emulated", shape=_every_dimension(path), budget=_BUDGETS[number % 2],
            placement=_PLACEMENTS[number % 3], time_limit=1.0,
        )  # fmt: skip
    except hetpart.HetpartError as error:
        return type(error).__name__ if error.message else "an error without a message"
    except BaseException:  # noqa: BLE001 - whatever else is raised is what this looks for
        return traceback.format_exc()
    return "plan"


def _every_dimension(path: Path) -> dict[str, int]:
    """A number for every open dimension, where the model can be read at all."""
    with contextlib.suppress(Exception):
        graph = onnx.load(path, load_external_data=False).graph
        return {
            dim.dim_param or f"{value.name}.{axis}": 2
            for value in graph.input
            for axis, dim in enumerate(value.type.tensor_type.shape.dim)
            if not dim.HasField("dim_value") or dim.dim_value < 0
        }
    return {}


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _say(**told: object) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def main(folder: Path, first: int, count: int) -> None:
    """Try ``count`` mutants from ``first`` on and print a line of JSON before and after each."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESSES, MOST_ADDRESSES))
    warnings.simplefilter("error")
    path = folder / "mutant.onnx"
    for number in range(first, first + count):
        source, data = mutant(number, folder)
        path.write_bytes(data)
        _say(number=number, source=source)
        faulthandler.dump_traceback_later(LONGEST_SECONDS, exit=True)
        before = _peak_bytes()
        outcome = attempt(path, number)
        faulthandler.cancel_dump_traceback_later()
        _say(outcome=outcome, grown=_peak_bytes() - before)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
