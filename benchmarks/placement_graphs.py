"""Reads placement graphs in the format of `msr-fiddle/dnn-partitioning`: nodes with two latencies, a size and a colour.

A node is an op and its size one weight of its own. What a node sends along its edges is one value, copied at most once
each way. Nothing is copied for a source or a sink of the graph.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np

from hetpart.partitioner.problem import NO_BUDGET, PlacementProblem, Uses

UNSUPPORTED = float("inf")


@dataclass(frozen=True, slots=True, eq=False)
class PlacementGraph:
    """A profiled graph; ``nodes`` in a topological order."""

    name: str
    nodes: tuple[dict[str, Any], ...]
    users: dict[int, tuple[int, ...]]
    """Positions of the nodes that read what the node at a position sends."""
    send_seconds: dict[int, float]

    @classmethod
    def read(cls, path: Path) -> PlacementGraph:
        """The graph in ``path``.

        Raises:
            ValueError: its edges form a cycle.
        """
        content = json.loads(path.read_bytes())
        nodes, edges = {node["id"]: node for node in content["nodes"]}, content["edges"]
        order = _in_order(list(nodes), edges)
        position = {node: index for index, node in enumerate(order)}
        users: dict[int, set[int]] = {}
        seconds: dict[int, float] = {}
        for edge in edges:
            source = position[edge["sourceId"]]
            users.setdefault(source, set()).add(position[edge["destId"]])
            seconds[source] = max(seconds.get(source, 0.0), float(edge["cost"]))
        rows = {source: tuple(sorted(users[source])) for source in sorted(users)}
        return cls(path.stem, tuple(nodes[node] for node in order), rows, seconds)

    @property
    def nbytes(self) -> int:
        return sum(int(node["size"]) for node in self.nodes)

    def problem(self, fraction: float) -> PlacementProblem:
        """Placing the nodes where the accelerator holds ``fraction`` of their bytes."""
        count, values = len(self.nodes), len(self.users)
        copies = np.zeros((2, 2, values))
        copies[0, 1] = copies[1, 0] = [self.send_seconds[source] for source in self.users]
        return PlacementProblem(
            devices=("cpu", "accelerator"),
            seconds=np.array([[_host(node), _accelerator(node)] for node in self.nodes]).reshape(count, 2).T.copy(),
            groups=self._groups(),
            scratch_bytes=np.zeros(count, np.int64),
            value_producer=np.array(list(self.users), np.int32),
            value_left_on_host=np.zeros(values, np.bool_),
            value_returned=np.zeros(values, np.bool_),
            value_bytes=np.zeros(values, np.int64),
            value_uses=Uses.from_rows([[(user, False) for user in row] for row in self.users.values()]),
            copy_seconds=copies,
            weight_bytes=np.array([int(node["size"]) for node in self.nodes], np.int64),
            weight_uses=Uses.from_rows([[(op, False)] for op in range(count)]),
            budgets=np.array([NO_BUDGET, int(fraction * self.nbytes)]),
            session_seconds=np.zeros(2),
            session_bytes=np.zeros(2, np.int64),
        )

    def _groups(self) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        """A colour is a group; a node without one is a group of its own."""
        colours = [node.get("colorClass") for node in self.nodes]
        keys = [("node", index) if colour is None else ("colour", colour) for index, colour in enumerate(colours)]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        return np.array([numbers[key] for key in keys], np.int32)


def _host(node: dict[str, Any]) -> float:
    return float(node["cpuLatency"])


def _accelerator(node: dict[str, Any]) -> float:
    return float(node["fpgaLatency"]) if node["supportedOnFpga"] else UNSUPPORTED


def _in_order(nodes: list[int], edges: list[dict[str, Any]]) -> list[int]:
    """Each node after those it reads from, ties in the file's order."""
    sorter: TopologicalSorter[int] = TopologicalSorter(dict.fromkeys(nodes, ()))
    for edge in edges:
        sorter.add(edge["destId"], edge["sourceId"])
    return list(sorter.static_order())
