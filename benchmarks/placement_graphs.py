"""Placing the graphs of `msr-fiddle/dnn-partitioning` as problems of plain arrays.

A node is an op and its size one weight of its own. What a node sends along its edges is one value, copied at most once
each way. Nothing is copied for a source or a sink of the graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.placement_files import GraphFile, whole_sizes
from hetpart.partitioner.problem import NO_BUDGET, PlacementProblem
from hetpart.partitioner.uses import Uses

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.placement_files import Node


@dataclass(frozen=True, slots=True, eq=False)
class PlacementGraph:
    """A profiled graph; ``nodes`` in a topological order."""

    name: str
    nodes: tuple[Node, ...]
    sizes: tuple[int, ...]
    """Of the nodes, in a unit that leaves them whole."""
    users: dict[int, tuple[int, ...]]
    """Positions of the nodes that read what the node at a position sends."""
    send_seconds: dict[int, float]

    @classmethod
    def read(cls, path: Path) -> PlacementGraph:
        """The graph in ``path``.

        Raises:
            UnreadableGraphError: it is no placement graph.
        """
        found = GraphFile.read(path)
        position = {node.key: index for index, node in enumerate(found.nodes)}
        users: dict[int, set[int]] = {}
        seconds: dict[int, float] = {}
        for edge in found.edges:
            source = position[edge.source]
            users.setdefault(source, set()).add(position[edge.target])
            seconds[source] = max(seconds.get(source, 0.0), edge.seconds)
        rows = {source: tuple(sorted(users[source])) for source in sorted(users)}
        return cls(path.stem, found.nodes, tuple(whole_sizes(found.nodes)), rows, seconds)

    @property
    def nbytes(self) -> int:
        return sum(self.sizes)

    def problem(self, fraction: float) -> PlacementProblem:
        """Placing the nodes where the accelerator holds ``fraction`` of their bytes."""
        count, values = len(self.nodes), len(self.users)
        copies = np.zeros((2, 2, values))
        copies[0, 1] = copies[1, 0] = [self.send_seconds[source] for source in self.users]
        return PlacementProblem(
            devices=("cpu", "accelerator"),
            seconds=_seconds(self.nodes),
            groups=self._groups(),
            scratch_bytes=np.zeros(count, np.int64),
            value_producer=np.array(list(self.users), np.int32),
            value_left_on_host=np.zeros(values, np.bool_),
            value_returned=np.zeros(values, np.bool_),
            value_bytes=np.zeros(values, np.int64),
            value_uses=Uses.from_rows([[(user, False) for user in row] for row in self.users.values()]),
            copy_seconds=copies,
            weight_bytes=np.array(self.sizes, np.int64),
            weight_uses=Uses.from_rows([[(op, False)] for op in range(count)]),
            budgets=np.array([NO_BUDGET, int(Fraction(fraction) * self.nbytes)]),
            session_seconds=np.zeros(2),
            session_bytes=np.zeros(2, np.int64),
        )

    def _groups(self) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        """A colour is a group; a node without one is a group of its own."""
        colours = [node.colour for node in self.nodes]
        keys = [("node", index) if colour is None else ("colour", colour) for index, colour in enumerate(colours)]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        return np.array([numbers[key] for key in keys], np.int32)


def _seconds(nodes: tuple[Node, ...]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """(2, N) On the host and on the accelerator."""
    return np.array([[node.host_seconds for node in nodes], [node.accelerator_seconds for node in nodes]])
