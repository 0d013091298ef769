"""Seconds from a model file to its cut partitions: BERT-base with one sequence of 128 tokens, at several budgets.

    python -m benchmarks.plan_time [--model bert-base] [--processes 5]

Each process is fresh and plans the model a few times; what a plan imports is imported before the clock starts. The
first plan of a process is the figure for a user's command; those after it show what warm caches save. Reach: 1 s.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from benchmarks import zoo
from benchmarks.measure import Spread, emit, fresh_process, machine_facts, say

REACH_SECONDS = 1.0
HARDWARE = "l4+generic-2core"
SHARES = (None, 25, 50, 75)
"""Budgets in per cent of the footprint; None leaves all of the accelerator's memory."""
PLANS_PER_PROCESS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bert-base", choices=list(zoo.ZOO))
    parser.add_argument("--zoo", type=Path, default=zoo.DEFAULT_FOLDER, help="folder of the built models")
    parser.add_argument("--processes", type=int, default=5, help="fresh processes for each budget")
    parser.add_argument("--child", metavar="BUDGET", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is None:
        facts = machine_facts()
        emit("plan_time", {"machine": facts, **_measure(arguments.model, arguments.zoo, arguments.processes)})
    else:
        print(json.dumps(_plans(arguments.model, arguments.zoo, arguments.child, json.load(sys.stdin))))


def _measure(model: str, folder: Path, processes: int) -> dict[str, Any]:
    zoo.prepare(model, folder)
    probe = _child(model, folder, "auto", ())
    imports, (plan, *_) = probe["imported"], probe["plans"]
    budgets = {_label(share): _budget(plan["footprint_bytes"], share) for share in SHARES}
    plans: dict[str, list[list[dict[str, Any]]]] = {label: [] for label in budgets}
    for turn in range(processes):
        say(f"plan_time: turn {turn + 1} of {processes}")
        for label, budget in budgets.items():
            plans[label].append(_child(model, folder, budget, imports)["plans"])
    rows = {label: _row(budgets[label], found) for label, found in plans.items()}
    slowest = max(row["first_seconds"].median for row in rows.values())
    return {
        "model": model,
        "hardware": HARDWARE,
        "dimensions": zoo.ZOO[model].shape,
        "nodes_in_file": _nodes(folder / f"{model}.onnx"),
        "ops": plan["ops"],
        "reach_seconds": REACH_SECONDS,
        "slowest_median_seconds": slowest,
        "reached": slowest <= REACH_SECONDS,
        "budgets": rows,
    }


def _nodes(path: Path) -> int:
    import onnx

    return len(onnx.load(path, load_external_data=False).graph.node)


def _label(share: int | None) -> str:
    return "none" if share is None else f"{share} %"


def _budget(footprint_bytes: int, share: int | None) -> str:
    return "auto" if share is None else str(footprint_bytes * share // 100)


def _child(model: str, folder: Path, budget: str, imports: Sequence[str]) -> dict[str, Any]:
    arguments = ("--model", model, "--zoo", str(folder.resolve()), "--child", budget)
    return fresh_process("benchmarks.plan_time", *arguments, given=json.dumps(imports))


def _row(budget: str, processes: list[list[dict[str, Any]]]) -> dict[str, Any]:
    firsts = [plans[0] for plans in processes]
    later = [plan for plans in processes for plan in plans[1:]]
    return {
        "budget": budget,
        "partitions": firsts[0]["partitions"],
        "gap": firsts[0]["gap"],
        "first_seconds": Spread.of([plan["seconds"] for plan in firsts]),
        "first_cpu_seconds": Spread.of([plan["cpu_seconds"] for plan in firsts]),
        "first_phases": _phases(firsts, "phases"),
        "first_cpu_phases": _phases(firsts, "cpu_phases"),
        "later_seconds": Spread.of([plan["seconds"] for plan in later]),
        "later_phases": _phases(later, "phases"),
    }


def _phases(plans: list[dict[str, Any]], kind: str) -> dict[str, float]:
    """Median seconds of every phase."""
    return {phase: round(median(plan[kind][phase] for plan in plans), 4) for phase in plans[0][kind]}


def _plans(model: str, folder: Path, budget: str, imports: Sequence[str]) -> dict[str, Any]:
    for name in imports:
        import_module(name)
    before = set(sys.modules)
    plans = [_plan(model, folder, budget) for _ in range(PLANS_PER_PROCESS)]
    return {"plans": plans, "imported": [name for name in sys.modules if name not in before]}


def _plan(model: str, folder: Path, budget: str) -> dict[str, Any]:
    """One plan. The compiler names each stage as it begins; what comes before the first is options and profiles."""
    import hetpart
    from hetpart.plan.cut_models import cut_models

    marks: list[tuple[str, float, float]] = []

    def mark(stage: str) -> None:
        marks.append((stage, perf_counter(), process_time()))

    mark("options")
    planned = hetpart.partition(
        folder / f"{model}.onnx", budget=budget, hardware=HARDWARE, shape=zoo.ZOO[model].shape, progress=mark
    )
    mark("cutting")
    models = [proto.SerializeToString() for proto in cut_models(planned.imported.proto, planned.plan)]
    mark("")
    assert len(models) == len(planned.plan.partitions)
    return {
        "seconds": marks[-1][1] - marks[0][1],
        "cpu_seconds": marks[-1][2] - marks[0][2],
        "phases": {name: end - start for (name, start, _), (_, end, _) in pairwise(marks)},
        "cpu_phases": {name: end - start for (name, _, start), (_, _, end) in pairwise(marks)},
        "ops": planned.plan.model.ops,
        "partitions": len(models),
        "gap": planned.plan.certificate.gap,
        "footprint_bytes": planned.plan.footprint_bytes,
    }


if __name__ == "__main__":
    main()
