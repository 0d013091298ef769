"""Sessions counted along a path: never more than a placement has, and a bound that stays below every placement."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from hetpart.partitioner.bounds.chain import heaviest_chain, search_with_sessions
from hetpart.partitioner.bounds.mincut import CutNetwork, Path
from hetpart.partitioner.bounds.price import search_price
from hetpart.partitioner.problem import NO_OP, PlacementProblem
from hetpart.partitioner.scores.cut import cut
from hetpart.partitioner.scores.fixing import without_misfits
from hetpart.partitioner.scores.liveness import usage
from tests.partitioner.problems import accelerator_weights, chain, placements, random_problem, sessions, with_calls


def graph_of(problem: PlacementProblem) -> nx.DiGraph[int]:
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(problem.ops))
    uses = problem.value_uses
    makers = problem.value_producer[uses.rows].tolist()
    graph.add_edges_from(edge for edge in zip(makers, uses.ops.tolist(), strict=True) if edge[0] != NO_OP)
    return graph


def test_the_chain_is_a_path_and_none_reads_more() -> None:
    longer = 0
    for seed in range(120):
        problem = random_problem(seed, most_ops=9, sessions=True)
        path = heaviest_chain(problem).tolist()
        graph = graph_of(problem)
        assert nx.is_path(graph, path) or len(path) < 2
        uses = problem.weight_uses
        own = np.bincount(uses.ops, problem.weight_bytes[uses.rows], problem.ops)
        paths = [found for op in graph for end in graph for found in nx.all_simple_paths(graph, op, end)]
        most = max((own[found].sum() for found in paths), default=0)
        assert not problem.session_bytes[1] or own[path].sum() >= max(most, own.max(initial=0)) - 1
        longer += len(path) > 2
    assert longer > 30


def test_no_placement_has_fewer_sessions_than_the_chain_tells() -> None:
    for seed in range(120):
        problem = random_problem(seed, most_ops=8, sessions=True)
        problem = with_calls(problem, seed) if seed % 2 else problem
        network = CutNetwork.of(problem, Path(heaviest_chain(problem), float(problem.session_bytes[1])))
        for placement in placements(problem):
            counted = network.weight(problem, placement) - accelerator_weights(problem, placement)
            assert 0 <= counted <= sessions(problem, placement) * int(problem.session_bytes[1])


@pytest.mark.parametrize("price", [0.0, 0.003, 0.02, 0.4])
def test_the_cut_equals_brute_force(price: float) -> None:
    for seed in range(120):
        problem = random_problem(seed, most_ops=8, sessions=True)
        network = CutNetwork.of(problem, Path(heaviest_chain(problem), float(problem.session_bytes[1])))
        best = min(problem.cost(p) + price * network.weight(problem, p) for p in placements(problem))
        found = network.cut(price)
        assert found.value <= best + 1e-9
        assert found.value == pytest.approx(best, rel=1e-6, abs=1e-6), seed


@pytest.mark.parametrize("budget", [0.15, 0.3, 0.6])
def test_the_bound_is_below_all_that_fits_and_never_below_that_without_sessions(budget: float) -> None:
    raised = 0
    for seed in range(160):
        problem = replace(random_problem(seed, most_ops=8, budget=budget), session_bytes=np.array([0, 60]))
        problem = with_calls(problem, seed) if seed % 4 == 1 else problem
        within = without_misfits(problem)
        plain = search_price(within, CutNetwork.of(within)).bound
        bound = search_with_sessions(within).bound
        raised += bound > plain * (1 + 1e-6)
        assert bound >= plain
        for placement in placements(problem):
            if usage(problem, placement, cut(problem, placement)).fits(problem):
                assert bound <= problem.cost(placement) + 1e-9, seed
    assert raised >= 3


def test_sessions_without_bytes_have_no_chain() -> None:
    assert not len(heaviest_chain(chain([(2.0, 1.0)] * 5, [10] * 5)))
