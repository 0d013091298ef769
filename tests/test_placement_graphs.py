"""The benchmark of placement quality, on a graph in the format that it reads."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from benchmarks.placement_graphs import PlacementGraph
from benchmarks.placement_quality import FRACTIONS, case, totals


def node(
    name: int, host: float, accelerator: float, size: int, colour: int | None = None, **more: Any
) -> dict[str, Any]:
    known = {"id": name, "name": f"node {name}", "cpuLatency": host, "fpgaLatency": accelerator, "size": float(size)}
    return {**known, "supportedOnFpga": True, "colorClass": colour, **more}


NODES = [
    node(4, 6.0, 1.0, 50),
    node(0, 9.0, 1.0, 40, 7),
    node(1, 8.0, 1.0, 30),
    node(2, 3.0, 0.5, 20, 7),
    node(3, 5.0, 1.0, 60, supportedOnFpga=False),
]
EDGES = [(0, 1, 0.7), (0, 2, 0.7), (1, 3, 2.0), (2, 3, 0.3), (3, 4, 0.4)]


@pytest.fixture
def graph(tmp_path: Path) -> PlacementGraph:
    edges = [{"sourceId": source, "destId": target, "cost": cost, "size": 1.0} for source, target, cost in EDGES]
    path = tmp_path / "small.json"
    path.write_text(json.dumps({"nodes": NODES, "edges": edges, "maxFPGAs": 1}))
    return PlacementGraph.read(path)


def by_force(fraction: float) -> float:
    """From the format's own words, without a placement problem."""
    budget = fraction * sum(entry["size"] for entry in NODES)
    best = float("inf")
    for sides in product((0, 1), repeat=len(NODES)):
        side = {entry["id"]: here for entry, here in zip(NODES, sides, strict=True)}
        held = sum(entry["size"] for entry in NODES if side[entry["id"]])
        if held > budget or side[3] or side[0] != side[2]:
            continue
        sent = {(source, side[target]): cost for source, target, cost in EDGES if side[source] != side[target]}
        latency = sum(entry["fpgaLatency" if side[entry["id"]] else "cpuLatency"] for entry in NODES)
        best = min(best, latency + sum(sent.values()))
    return best


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_a_case_reaches_the_optimum_and_is_checked(graph: PlacementGraph, fraction: float) -> None:
    row = case(graph, fraction, 10.0)
    assert (row["name"], row["fraction"], row["checked"]) == ("small", fraction, True)
    assert row["cost"] == pytest.approx(by_force(fraction))
    assert row["lower_bound"] <= row["cost"]
    assert row["gap"] <= 1e-3
    assert {"all-cpu", "fill-in-order", "accelerate-order", "density"} <= set(row["baselines"])


def test_nodes_come_in_order_and_a_colour_is_a_group(graph: PlacementGraph) -> None:
    order = [entry.key for entry in graph.nodes]
    assert all(order.index(source) < order.index(target) for source, target, _ in EDGES)
    problem = graph.problem(0.5)
    groups = dict(zip(order, problem.groups.tolist(), strict=True))
    assert groups[0] == groups[2]
    assert len(set(groups.values())) == 4
    assert problem.budgets[1] == 100
    assert not problem.value_returned.any()


def test_totals_say_what_was_reached(graph: PlacementGraph) -> None:
    cases = [case(graph, fraction, 10.0) for fraction in FRACTIONS]
    found = totals(cases)
    assert found["cases"] == 3
    assert found["largest_gap"] == max(row["gap"] for row in cases)
    assert found["ratio_of_rules"]["all-cpu"]["geometric_mean"] >= 1.0
    assert totals([{**cases[0], "gap": 0.5}])["reached"] is False
    assert totals([{**cases[0], "checked": False}])["reached"] is False
