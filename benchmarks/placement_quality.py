"""How close placements of public profiled graphs come to the best possible, against simpler rules.

    python -m benchmarks.placement_quality --data DIR [--time-limit 30]

DIR holds placement graphs as `msr-fiddle/dnn-partitioning` publishes them, one JSON file each. Every node is an op as
it is; budgets are 25, 50 and 75 % of all nodes' bytes. Reach: a certified gap of at most 0.1 %, within 5 s a case and
0.5 s in the median. Exit status 1 where the independent checker refuses a placement, 2 where a file is no placement
graph.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from importlib import import_module
from math import exp, log
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.measure import emit, machine_facts, say
from benchmarks.placement_files import UnreadableGraphError
from benchmarks.placement_graphs import PlacementGraph
from hetpart.partitioner.scores.certificate import check
from hetpart.partitioner.search.baselines import ORT_WORKSPACE, fill_in_order
from hetpart.partitioner.search.solve import solve

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.search.solve import Solution

FRACTIONS = (0.25, 0.5, 0.75)
REACH = {"gap": 1e-3, "seconds": 5.0, "median_seconds": 0.5}
UNPADDED = "fill-in-order-unpadded"
IMPORTED = ("scipy.optimize", "scipy.sparse.csgraph")
"""What the first plan of a process imports: it is no part of any case."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of placement graphs")
    parser.add_argument("--time-limit", type=float, default=30.0, metavar="SECONDS", help="for each case")
    arguments = parser.parse_args()
    paths = sorted(arguments.data.glob("*.json"))
    if not paths:
        parser.error(f"no JSON files in {arguments.data}")
    facts = machine_facts()
    for name in IMPORTED:
        import_module(name)
    try:
        graphs = [PlacementGraph.read(path) for path in paths]
    except UnreadableGraphError as error:
        parser.exit(error.exit_code, f"placement_quality: {error}\n")
    cases = [case(graph, fraction, arguments.time_limit) for graph in graphs for fraction in FRACTIONS]
    found = totals(cases)
    emit("placement_quality", {"machine": facts, "cases": cases, "totals": found})
    sys.exit(0 if found["checked"] else 1)


def case(graph: PlacementGraph, fraction: float, time_limit: float) -> dict[str, Any]:
    """One graph under one budget."""
    problem = graph.problem(fraction)
    start = perf_counter()
    solution = solve(problem, time_limit=time_limit)
    seconds = perf_counter() - start
    rules = {rule.name: {"cost": rule.cost, "fits": rule.fits} for rule in solution.baselines}
    rules[UNPADDED] = {"cost": problem.cost(filled_unpadded(problem)), "fits": True}
    say(f"placement_quality: {graph.name}, {fraction:.0%}: gap {solution.gap:.5f} in {seconds:.2f} s")
    return {
        "name": graph.name,
        "fraction": fraction,
        "cost": solution.cost,
        "lower_bound": solution.lower_bound,
        "gap": solution.gap,
        "seconds": round(seconds, 4),
        "chosen": solution.chosen,
        "checked": _checked(problem, solution),
        "baselines": {name: {**rule, "ratio": _ratio(rule["cost"], solution.cost)} for name, rule in rules.items()},
    }


def filled_unpadded(problem: PlacementProblem) -> Placement:
    """Filled in order until the first op that does not fit, without what ONNX Runtime adds for workspaces."""
    return fill_in_order(replace(problem, budgets=(problem.budgets * ORT_WORKSPACE).astype(np.int64)))


def _checked(problem: PlacementProblem, solution: Solution) -> bool:
    """What the independent checker says: the placement is legal, fits and costs what it is said to."""
    verdict = check(problem, solution.placement, solution.cut)
    same = abs(verdict.cost - solution.cost) <= 1e-9 * max(1.0, solution.cost)
    return verdict.legal and verdict.fits and same


def totals(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """All cases in a few numbers."""
    seconds = [row["seconds"] for row in cases]
    worst_gap, middle = max(row["gap"] for row in cases), median(seconds)
    checked = all(row["checked"] for row in cases)
    within = worst_gap <= REACH["gap"] and max(seconds) <= REACH["seconds"] and middle <= REACH["median_seconds"]
    return {
        "cases": len(cases),
        "largest_gap": worst_gap,
        "largest_seconds": max(seconds),
        "median_seconds": middle,
        "checked": checked,
        "ratio_of_rules": {name: _ratios(cases, name) for name in cases[0]["baselines"]},
        "reach": REACH,
        "reached": within and checked,
    }


def _ratios(cases: list[dict[str, Any]], rule: str) -> dict[str, float | int | None]:
    """Of a rule's cost to ours, over the cases that it fits."""
    found = [row["baselines"][rule]["ratio"] for row in cases if row["baselines"][rule]["fits"]]
    known = [ratio for ratio in found if ratio is not None]
    return {"fits": len(found), "geometric_mean": _geometric_mean(known), "largest": max(known, default=None)}


def _ratio(cost: float, ours: float) -> float | None:
    return cost / ours if ours > 0 else None


def _geometric_mean(ratios: Iterable[float]) -> float | None:
    logarithms = [log(ratio) for ratio in ratios if ratio > 0]
    return exp(sum(logarithms) / len(logarithms)) if logarithms else None


if __name__ == "__main__":
    main()
