# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Predicted peak of activations against ONNX Runtime's own arena, on models drawn by chance, the worst first.

    python -m benchmarks.memory_sweep > benchmarks/results/memory_sweep.json
    python -m benchmarks.memory_sweep --chains 200 --nodes 0 --first 1000
    python -m benchmarks.memory_sweep --only NAME --keep build/models

Drawn are chains of ops on values of megabytes (``--chains``), and ONNX's own tests of single ops, stretched to that
(``--nodes``): values are large, so that no rounding hides an error. Equal seeds draw equal models. Each runs three
times with the session options of hetpart's runtime, on one thread; ``benchmarks/memory_error.py`` does the same of real
models.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import numpy as np
import onnx

from benchmarks.measure import ROOT, emit, machine_facts, say
from benchmarks.swept_chains import drawn_chain
from benchmarks.swept_nodes import node_tests, stretched
from benchmarks.table import figure, print_table
from hetpart.errors import InvalidModelError

sys.path.insert(0, str(ROOT))

REACH = 0.05
LEAST = 1 << 20
"""Bytes from which a peak counts: of smaller ones the arena's rounding is much."""
MIB = 1 / 2**20
COLUMNS = {
    "model": figure("model"),
    "error": figure("error", "{:+.1%}"),
    "predicted MiB": figure("predicted", "{:.2f}", MIB),
    "measured MiB": figure("measured", "{:.2f}", MIB),
}
Feeds = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A model and what it is given."""

    name: str
    model: onnx.ModelProto
    feeds: Feeds


@dataclass(frozen=True, slots=True)
class Row:
    """A model's figures."""

    model: str
    predicted: int
    measured: int
    error: float


def chains(first: int, count: int) -> Iterator[Drawn]:
    """Chains of the numbers from ``first`` on."""
    from tests.cost_model.float_models import feeds_of

    for seed in range(first, first + count):
        name, model = drawn_chain(seed)
        yield Drawn(f"chain {seed}: {name}", model, feeds_of(model))


def nodes(first: int, count: int) -> Iterator[Drawn]:
    """So many tests of single ops that can be stretched, chosen by chance; all where ``count`` is less than 0."""
    tests = node_tests()
    Random(first).shuffle(tests)
    left = count if count >= 0 else len(tests)
    for test in tests:
        if left == 0:
            return
        found = stretched(test, Random(test.name))
        if found is not None:
            left -= 1
            yield Drawn(test.name, *found)


def row(drawn: Drawn) -> Row | None:
    """Predicts and measures one model; ``None`` where it takes too little to tell, or ONNX Runtime does not load it."""
    from hetpart.cost_model.kernels import ONNX_RUNTIME
    from hetpart.graph.from_onnx import import_onnx
    from tests.cost_model.arenas import measured_peak, predicted_peak, profiled_nodes

    if not _loads(drawn.model):  # what is drawn by chance need not go together
        return None
    model = import_onnx(drawn.model, {}, ONNX_RUNTIME).proto  # what a plan runs
    with tempfile.TemporaryDirectory() as folder:
        ran = profiled_nodes(model, drawn.feeds, Path(folder))
    if not ran:  # constants alone
        return None
    measured = measured_peak(ran)
    predicted = predicted_peak(drawn.model)
    if max(measured, predicted) < LEAST:
        return None
    return Row(drawn.name, predicted, measured, round(predicted / max(1, measured) - 1, 4))


def _loads(model: onnx.ModelProto) -> bool:
    import onnxruntime
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph

    try:
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except (Fail, InvalidGraph):
        return False
    return True


def _rows(drawn: Iterator[Drawn], arguments: argparse.Namespace) -> Iterator[Row]:
    for each in drawn:
        if arguments.only and arguments.only not in each.name:
            continue
        if arguments.keep:
            arguments.keep.mkdir(parents=True, exist_ok=True)
            onnx.save(each.model, arguments.keep / f"{each.name.partition(':')[0].replace(' ', '_')}.onnx")
        found = None
        # ONNX Runtime makes other sizes than it made before, or is not asked for those that do not go together.
        with suppress(RuntimeError, InvalidModelError):
            found = row(each)
        if found is not None:
            say(f"{found.error:+8.1%}  {found.model}")
            yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, default=120, metavar="N", help="chains to draw, 120 by default")
    parser.add_argument("--nodes", type=int, default=120, metavar="N", help="tests of ops, 120 by default; -1: all")
    parser.add_argument(
        "--first", type=int, default=0, metavar="N", help="number of the first chain, and seed of tests"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="models with this in their name")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write what is drawn there")
    arguments = parser.parse_args()
    facts = machine_facts()
    rows = [
        *_rows(chains(arguments.first, arguments.chains), arguments),
        *_rows(nodes(arguments.first, arguments.nodes), arguments),
    ]
    rows.sort(key=lambda found: -abs(found.error))
    print_table(COLUMNS, [asdict(found) for found in rows])
    errors = [abs(found.error) for found in rows]
    emit(
        "memory_sweep",
        {
            "machine": facts,
            "reach": REACH,
            "first": arguments.first,
            "models_measured": len(rows),
            "median": median(errors) if errors else None,
            "beyond_reach": sum(error > REACH for error in errors),
            "models": [asdict(found) for found in rows],
        },
    )


if __name__ == "__main__":
    main()
