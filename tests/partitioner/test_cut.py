"""Any legal placement cuts into an acyclic partition graph."""

from __future__ import annotations

import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hetpart.partitioner.problem import NO_OP, Placement, PlacementProblem
from hetpart.partitioner.scores.cut import Cut, cut
from tests.partitioner.problems import chain, random_problem


def partition_graph(problem: PlacementProblem, found: Cut) -> nx.DiGraph[int]:
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(found.partitions))
    uses = problem.value_uses
    for value, producer in enumerate(problem.value_producer.tolist()):
        readers = uses.ops[uses.offsets[value] : uses.offsets[value + 1]].tolist()
        if producer != NO_OP:
            ends = ((int(found.partition[producer]), int(found.partition[reader])) for reader in readers)
            graph.add_edges_from((a, b) for a, b in ends if a != b)
    return graph


def assert_sound(problem: PlacementProblem, placement: Placement, found: Cut) -> None:
    assert nx.is_directed_acyclic_graph(partition_graph(problem, found))
    assert all(a < b for a, b in partition_graph(problem, found).edges)
    assert found.partition.shape == (problem.ops,)
    assert set(found.partition.tolist()) == set(range(found.partitions))
    assert (found.devices[found.partition] == placement).all()


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**6), st.data())
def test_any_placement_cuts_into_an_acyclic_partition_graph(seed: int, data: st.DataObject) -> None:
    problem = random_problem(seed, most_ops=30)
    devices = data.draw(st.lists(st.integers(0, 1), min_size=problem.ops, max_size=problem.ops))
    placement = np.array(devices, np.int8)
    assert_sound(problem, placement, cut(problem, placement))


def test_one_device_is_one_partition() -> None:
    for seed in range(50):
        problem = random_problem(seed)
        assert cut(problem, np.zeros(problem.ops, np.int8)).partitions == 1


def test_no_ops_no_partitions() -> None:
    assert cut(chain([], []), np.zeros(0, np.int8)).partitions == 0
