from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from hetpart.partitioner.bounds.maxflow import MaxFlow, Sides
from hetpart.partitioner.bounds.mincut import CutNetwork
from hetpart.partitioner.problem import PlacementProblem
from tests.partitioner.problems import accelerator_weights, placements, random_problem

PRICES = (0.0, 0.003, 0.02, 0.4)


@pytest.mark.parametrize("start", range(0, 800, 200))
def test_cut_equals_brute_force_at_every_price(start: int) -> None:
    for seed in range(start, start + 200):
        problem = random_problem(seed, most_ops=7)
        network = CutNetwork.of(problem)
        everywhere = [(problem.cost(p), accelerator_weights(problem, p)) for p in placements(problem)]
        for price in PRICES:
            best = min(cost + price * nbytes for cost, nbytes in everywhere)
            found = network.cut(price)
            assert found.value <= best + 1e-9, seed
            assert found.value == pytest.approx(best, rel=1e-6, abs=1e-6), seed
            for placement in (found.smallest, found.largest):
                assert problem.legal()[placement, np.arange(problem.ops)].all()
                priced = problem.cost(placement) + price * accelerator_weights(problem, placement)
                assert priced == pytest.approx(best, rel=1e-6, abs=1e-6), seed
            assert (found.smallest <= found.largest).all()


def scaled(problem: PlacementProblem, factor: float) -> PlacementProblem:
    return replace(problem, seconds=problem.seconds * factor, copy_seconds=problem.copy_seconds * factor)


@pytest.mark.parametrize("factor", [1e-12, 1e-6, 1e6, 1e12])
def test_no_unit_of_time_over_or_underflows(factor: float) -> None:
    for seed in range(60):
        problem = random_problem(seed)
        plain = CutNetwork.of(problem).cut(0.0)
        found = CutNetwork.of(scaled(problem, factor)).cut(0.0)
        assert found.value == pytest.approx(plain.value * factor, rel=1e-6, abs=1e-6 * factor)
        assert found.smallest.tolist() == plain.smallest.tolist()


def test_one_huge_op_does_not_drown_the_small_ones() -> None:
    problem = next(p for p in map(random_problem, range(1000)) if p.ops > 4 and p.legal().all())
    seconds = problem.seconds.copy()
    seconds[0, 0] = 1e12
    slow = replace(problem, seconds=seconds)
    found = CutNetwork.of(slow).cut(0.0)
    best = min(slow.cost(placement) for placement in placements(slow))
    assert slow.cost(found.smallest) == pytest.approx(best, rel=1e-6)
    assert found.value == pytest.approx(best, rel=1e-6)
    assert found.value <= best * (1 + 1e-12)


def random_network(seed: int) -> tuple[MaxFlow, nx.DiGraph[int], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    vertices, arcs = int(rng.integers(3, 12)), int(rng.integers(0, 30))
    tails, heads = rng.integers(2, vertices, arcs), rng.integers(2, vertices, arcs)
    seconds = np.where(rng.random(arcs) < 0.2, np.inf, rng.choice([0.0, 0.5, 3.0, 1e3], arcs) * rng.random(arcs))
    source, sink = (rng.random(vertices) * rng.choice([0.0, 1.0, 50.0], vertices) for _ in range(2))
    source[:2] = sink[:2] = 0.0
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(vertices))
    for tail, head, capacity in zip(tails.tolist(), heads.tolist(), seconds.tolist(), strict=True):
        if tail != head:
            before = graph.get_edge_data(tail, head, {"capacity": 0.0})["capacity"]
            graph.add_edge(tail, head, capacity=before + capacity)
    for vertex in range(2, vertices):
        graph.add_edge(0, vertex, capacity=source[vertex])
        graph.add_edge(vertex, 1, capacity=sink[vertex])
    keep = tails != heads
    return MaxFlow.of(vertices, tails[keep], heads[keep], seconds[keep]), graph, source, sink


def severed(graph: nx.DiGraph[int], side: np.ndarray) -> float:
    return sum(data["capacity"] for tail, head, data in graph.edges(data=True) if side[tail] and not side[head])


def test_flow_agrees_with_networkx() -> None:
    for seed in range(200):
        flow, graph, source, sink = random_network(seed)
        expected = nx.maximum_flow_value(graph, 0, 1)
        found: Sides = flow.solve(source, sink)
        assert found.value == pytest.approx(expected, rel=1e-6, abs=1e-6), seed
        assert found.value <= expected + 1e-9
        for side in (found.smallest, found.largest):
            assert severed(graph, side) == pytest.approx(expected, rel=1e-6, abs=1e-6), seed
