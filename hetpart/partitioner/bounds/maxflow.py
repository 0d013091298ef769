# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Minimum s–t cuts in seconds on SciPy's integer maximum flow.

SciPy wants int32 and returns flow 0, silently, where a capacity does not fit. So the scale follows the most that any
one arc can carry, nothing ever exceeds 2^30, and capacities are rounded down: the value stays below every real cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

UNCUT = 2**30 - 1
"""Capacity of an arc that no minimum cut severs. Twice it fits int32: the flow back along an arc adds to its own."""
LARGEST_FLOW = UNCUT - 2**10
"""Less than ``UNCUT``, or a flow could saturate an arc whose capacity was only clipped."""


class Vertex(IntEnum):
    """The terminals; other vertices follow."""

    SOURCE = 0
    SINK = 1


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """Two minimum cuts, as the vertices on the source side."""

    value: float
    """No cut is cheaper."""
    smallest: NDArray[np.bool_]
    largest: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class MaxFlow:
    """Arcs between inner vertices, ready for any terminal capacities. No two run from and to the same vertices."""

    vertices: int
    tails: NDArray[np.int32]
    heads: NDArray[np.int32]
    seconds: NDArray[np.float64]

    @classmethod
    def of(
        cls, vertices: int, tails: NDArray[np.int64], heads: NDArray[np.int64], seconds: NDArray[np.float64]
    ) -> MaxFlow:
        """The network of ``vertices``, both terminals counted. Parallel arcs add up."""
        keys, arc = np.unique(tails * vertices + heads, return_inverse=True)
        return cls(
            vertices,
            (keys // vertices).astype(np.int32),
            (keys % vertices).astype(np.int32),
            np.bincount(arc, seconds, len(keys)).astype(np.float64),
        )

    def solve(self, source: NDArray[np.float64], sink: NDArray[np.float64]) -> Sides:
        """Minimum cuts where every vertex has an arc from the source and one to the sink of these seconds."""
        from scipy.sparse.csgraph import maximum_flow

        scale = LARGEST_FLOW / self._most_carried(source, sink)
        graph = self._graph(source, sink, scale)
        found = maximum_flow(graph, Vertex.SOURCE, Vertex.SINK)
        residual = graph - found.flow
        residual.data = (residual.data > 0).astype(np.int8)
        residual.eliminate_zeros()
        return Sides(
            float(found.flow_value) / scale,
            _reached(residual, Vertex.SOURCE),
            ~_reached(residual.T.tocsr(), Vertex.SINK),
        )

    def _graph(self, source: NDArray[np.float64], sink: NDArray[np.float64], scale: float) -> csr_array:
        """Integer capacities; what rounds to nothing is left out."""
        from scipy.sparse import csr_array

        supplied, drained = np.flatnonzero(source > 0), np.flatnonzero(sink > 0)
        seconds = np.concatenate([source[supplied], sink[drained], self.seconds])
        capacity = np.minimum(seconds * scale, UNCUT).astype(np.int32)
        tails = np.concatenate([np.full(len(supplied), Vertex.SOURCE, np.int32), drained.astype(np.int32), self.tails])
        heads = np.concatenate([supplied.astype(np.int32), np.full(len(drained), Vertex.SINK, np.int32), self.heads])
        kept = capacity > 0
        shape = (self.vertices, self.vertices)
        graph = csr_array((capacity[kept], (tails[kept], heads[kept])), shape=shape)
        graph.sort_indices()
        return graph

    def _most_carried(self, source: NDArray[np.float64], sink: NDArray[np.float64]) -> float:
        """Seconds that no arc ever carries more than, and more than 0.

        An arc carries no more than it holds, than arrives at its tail, than leaves its head, and than flows at all.
        """
        ends = float(source.sum()), float(sink.sum())
        total = min(ends) or max(ends) or 1.0
        arrives = source + _sums(self.heads, self.seconds, self.vertices)
        leaves = sink + _sums(self.tails, self.seconds, self.vertices)
        carried = np.minimum(np.minimum(arrives[self.tails], leaves[self.heads]), self.seconds)
        most = max(float(carried.max(initial=0.0)), float(source.max(initial=0.0)), float(sink.max(initial=0.0)))
        return min(total, most) or total


def _sums(vertex: NDArray[np.int32], seconds: NDArray[np.float64], vertices: int) -> NDArray[np.float64]:
    return np.bincount(vertex, seconds, vertices).astype(np.float64)


def _reached(residual: csr_array, start: int) -> NDArray[np.bool_]:
    from scipy.sparse.csgraph import breadth_first_order

    reached = np.zeros(len(residual.indptr) - 1, np.bool_)
    reached[breadth_first_order(residual, start, directed=True, return_predecessors=False)] = True
    return reached
