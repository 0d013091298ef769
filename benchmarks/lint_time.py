"""CPU seconds and memory of ``hetpart lint``: 10,000 ops, 100 GB of external weights, a million weights nobody reads.

    python -m benchmarks.lint_time [--nodes 10000] [--gigabytes 100] [--processes 5]

Each command is a process of its own, its modules compiled as after any command before; nothing is placed. Reach: 2 s
for 10,000 nodes in layers, alike or all distinct; 3 s and 500 MB resident for 100 GB in a sparse file, which is
Wide&Deep. What the seconds of 10,000 nodes go to is told by stage, and by rule for the slowest: that is measured inside
one process, which imports everything first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from benchmarks.annotate_time import HARDWARE, LAYER_NODES, MODELS
from benchmarks.measure import Spread, emit, fresh_process, machine_facts, say
from benchmarks.table import Cell, print_table

REACH = {
    "alike": {"cpu_seconds": 2.0},
    "distinct": {"cpu_seconds": 2.0},
    "100 GB": {"seconds": 3.0, "resident_bytes": 500_000_000},
}
MILLION = 1_000_000
_SLOWEST_SHOWN = 5


def _median(key: str, scale: float = 1.0, form: str = "{:.2f}") -> Cell:
    return lambda row: form.format(row[key].median * scale)


COLUMNS: Mapping[str, Cell] = {
    "model": lambda row: row["model"],
    "s": _median("seconds"),
    "CPU s": _median("cpu_seconds"),
    "MB resident": _median("resident_bytes", 1e-6, "{:.0f}"),
    "exit": lambda row: str(row["exit"]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--gigabytes", type=float, default=100)
    parser.add_argument("--processes", type=int, default=5, help="of each command")
    parser.add_argument("--folder", type=Path, help="where models are written; by default for temporary files")
    parser.add_argument("--split", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.split:
        print(json.dumps(_stages(arguments.split)))
        return
    facts = machine_facts()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        models = dict(_models(Path(folder), arguments.nodes, arguments.gigabytes))
        rows = _commands(models, Path(folder), arguments.processes)
        splits = {name: fresh_process("benchmarks.lint_time", "--split", str(models[name])) for name in MODELS}
    print_table(COLUMNS, rows)
    for name, split in splits.items():
        say(f"{name}: " + ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in split.items()))
    emit("lint_time", {"machine": facts, "hardware": HARDWARE, "reach": REACH, **_verdict(rows), "stages": splits})


def _models(folder: Path, nodes: int, gigabytes: float) -> Iterator[tuple[str, Path]]:
    from examples.wide_and_deep import DIM, build

    for name, make in MODELS.items():
        path = folder / f"{name}.onnx"
        path.write_bytes(make(-(-nodes // LAYER_NODES)).SerializeToString())
        yield name, path
    say(f"lint_time: a sparse file of {gigabytes:g} GB")
    rows = int(gigabytes * 1e9) // (4 * (DIM + 1))
    yield "100 GB", build(folder / "huge.onnx", vocabulary=rows, sparse=True)
    yield "a million unused", _unused(folder / "unused.onnx")


def _unused(path: Path) -> Path:
    from onnx import TensorProto, parser

    proto = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y) { [a] y = Neg (x) }'
    )
    one = bytes(4)
    proto.graph.initializer.extend(
        TensorProto(name=f"w{number}", data_type=1, dims=[1], raw_data=one) for number in range(MILLION)
    )
    path.write_bytes(proto.SerializeToString())
    return path


def _commands(models: Mapping[str, Path], folder: Path, processes: int) -> list[dict[str, Any]]:
    found: dict[str, list[dict[str, float]]] = {name: [] for name in models}
    for turn in range(processes + 1):
        say(f"lint_time: turn {turn} of {processes}" if turn else "lint_time: once, to compile its modules")
        for name, path in models.items():
            figures = _command(path, folder)
            if turn:
                found[name].append(figures)
    return [{"model": name, "exit": int(runs[0]["exit"]), **_spreads(runs)} for name, runs in found.items()]


def _spreads(runs: list[dict[str, float]]) -> dict[str, Spread]:
    keys = ("seconds", "cpu_seconds", "resident_bytes")
    return {key: Spread.of([run[key] for run in runs]) for key in keys}


def _command(model: Path, folder: Path) -> dict[str, float]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    command = [sys.executable, "-m", "hetpart", "lint", str(model), "--hardware", HARDWARE]
    command += ["--shape", "batch=256"] if model.stem == "huge" else []
    start = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    return {
        "seconds": seconds,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "resident_bytes": usage.ru_maxrss * 1024,
        "exit": process.returncode,
    }


def _verdict(rows: list[dict[str, Any]]) -> dict[str, Any]:
    by_name = {row["model"]: row for row in rows}
    missed = [
        f"{name}: {key} {by_name[name][key].median:g} over {most:g}"
        for name, reach in REACH.items()
        for key, most in reach.items()
        if by_name[name][key].median > most
    ]
    return {"reached": not missed, "missed": missed, "models": rows}


def _stages(path: Path) -> dict[str, float]:
    """CPU seconds of every stage of a lint, and of the slowest rules; ``start`` is Python's, and all imports."""
    import hetpart
    from hetpart.graph.load import read
    from hetpart.linter.rule import all_rules
    from hetpart.linter.subject import Subject
    from hetpart.request import Request

    rules = [rule for rule in all_rules() if rule.default]
    request, machine = Request.of(None, {}), hetpart.load_machine(HARDWARE)
    hetpart.annotate(MODELS["alike"](1), hardware=HARDWARE)  # imports what pricing needs
    seconds = {"start": process_time()}
    loaded, seconds["read"] = _timed(lambda: read(path))
    imported, seconds["import"] = _timed(lambda: request.read(path))
    priced, seconds["price"] = _timed(lambda: request.priced(imported.graph, machine))
    subject = Subject(str(path), loaded, imported, priced.costs)
    own = {rule.name: _timed(lambda rule=rule: list(rule.check(subject)))[1] for rule in rules if rule.stage <= 2}
    slowest = sorted(own.items(), key=lambda entry: -entry[1])[:_SLOWEST_SHOWN]
    return {**seconds, "rules": sum(own.values()), **dict(slowest)}


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = process_time()
    result = work()
    return result, process_time() - start


if __name__ == "__main__":
    main()
