"""Stages against networkx's longest paths, on graphs wide enough to be swept level by level and on narrow ones."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from hetpart.partitioner.scores.edge_sweeps import Sweeps


def random_edges(rng: np.random.Generator, ops: int, count: int, *, wide: bool) -> np.ndarray:
    """(producer, user) pairs sorted by user. Narrow graphs have a chain through all of their ops."""
    ends = np.sort(rng.integers(0, ops, (count, 2)), axis=1)
    if not wide:
        ends = np.concatenate([ends, np.stack([np.arange(ops - 1), np.arange(1, ops)], axis=1)])
    pairs = np.unique(ends[ends[:, 0] < ends[:, 1]], axis=0)
    return pairs[np.lexsort((pairs[:, 0], pairs[:, 1]))].astype(np.int32)


def longest(pairs: np.ndarray, placement: np.ndarray, ops: int) -> list[int]:
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(ops))
    graph.add_edges_from(pairs.tolist())
    found = [0] * ops
    for op in nx.topological_sort(graph):
        for after in graph.successors(op):
            found[after] = max(found[after], found[op] + int(placement[op] != placement[after]))
    return found


@pytest.mark.parametrize(("ops", "count", "wide"), [(60, 90, False), (40, 4000, True), (400, 900, True), (5, 0, False)])
def test_most_device_changes_on_a_path(ops: int, count: int, wide: bool) -> None:
    rng = np.random.default_rng(ops)
    for _ in range(20):
        pairs = random_edges(rng, ops, count, wide=wide)
        placement = rng.integers(0, 2, ops).astype(np.int8)
        sweeps = Sweeps.of(pairs[:, 0], pairs[:, 1], ops)
        assert (sweeps.forwards.levels is not None) == wide
        assert sweeps.forwards.changes(placement).tolist() == longest(pairs, placement, ops)
        mirrored = ops - 1 - pairs[:, ::-1]
        expected = longest(mirrored, placement[::-1], ops)[::-1]
        assert sweeps.backwards.changes(placement).tolist() == expected
