# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Minimum s–t cuts in seconds on SciPy's integer maximum flow.

SciPy wants int32 and returns flow 0, silently, where a capacity does not fit. So the scale follows the largest cut that
can matter, nothing ever exceeds 2^30, and capacities are rounded down: the value stays below every real cut.
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
    """Arcs between inner vertices, ready for any terminal capacities."""

    vertices: int
    offsets: NDArray[np.int32]
    heads: NDArray[np.int32]
    seconds: NDArray[np.float64]
    """Per arc; 0 for the arcs of a terminal."""
    from_source: NDArray[np.int64]
    """Position of each inner vertex's arc from the source."""
    to_sink: NDArray[np.int64]

    @classmethod
    def of(
        cls, vertices: int, tails: NDArray[np.int64], heads: NDArray[np.int64], seconds: NDArray[np.float64]
    ) -> MaxFlow:
        """The network of ``vertices``, both terminals counted. Parallel arcs add up."""
        inner = np.arange(len(Vertex), vertices)
        tails = np.concatenate([np.full(len(inner), Vertex.SOURCE), inner, tails])
        heads = np.concatenate([inner, np.full(len(inner), Vertex.SINK), heads])
        keys, arc = np.unique(tails * vertices + heads, return_inverse=True)
        seconds = np.concatenate([np.zeros(2 * len(inner)), seconds])
        offsets = np.searchsorted(keys, np.arange(vertices + 1) * vertices)
        return cls(
            vertices,
            offsets.astype(np.int32),
            (keys % vertices).astype(np.int32),
            np.bincount(arc, seconds, len(keys)).astype(np.float64),
            arc[: len(inner)],
            arc[len(inner) : 2 * len(inner)],
        )

    def solve(self, source: NDArray[np.float64], sink: NDArray[np.float64]) -> Sides:
        """Minimum cuts where every vertex has an arc from the source and one to the sink of these seconds."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_flow

        seconds = self.seconds.copy()
        seconds[self.from_source] = source[len(Vertex) :]
        seconds[self.to_sink] = sink[len(Vertex) :]
        scale = LARGEST_FLOW / _largest_flow(float(source.sum()), float(sink.sum()))
        capacity = np.minimum(seconds * scale, UNCUT).astype(np.int32)
        graph = csr_array((capacity, self.heads, self.offsets), shape=(self.vertices, self.vertices))
        found = maximum_flow(graph, Vertex.SOURCE, Vertex.SINK)
        residual = graph - found.flow
        residual.data = (residual.data > 0).astype(np.int32)
        residual.eliminate_zeros()
        return Sides(
            float(found.flow_value) / scale,
            _reached(residual, Vertex.SOURCE),
            ~_reached(residual.T.tocsr(), Vertex.SINK),
        )


def _largest_flow(leaving: float, arriving: float) -> float:
    """Seconds that no flow exceeds, and more than 0."""
    return min(leaving, arriving) or max(leaving, arriving) or 1.0


def _reached(residual: csr_array, start: int) -> NDArray[np.bool_]:
    from scipy.sparse.csgraph import breadth_first_order

    reached = np.zeros(len(residual.indptr) - 1, np.bool_)
    reached[breadth_first_order(residual, start, directed=True, return_predecessors=False)] = True
    return reached
