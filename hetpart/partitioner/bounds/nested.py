"""Minimum cuts that lie between two known ones: only the vertices on which the two differ are left to decide.

Cuts at rising prices nest (Gallo, Grigoriadis and Tarjan 1989), so each cut of a price search makes the next smaller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.bounds.maxflow import MaxFlow, Sides, Vertex

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Bracket:
    """Vertices that are certainly on the source side, and those that may be. Terminals included."""

    inner: NDArray[np.bool_]
    outer: NDArray[np.bool_]

    @classmethod
    def open(cls, vertices: int) -> Bracket:
        """Nothing but the terminals is certain."""
        inner, outer = np.zeros(vertices, np.bool_), np.ones(vertices, np.bool_)
        inner[Vertex.SOURCE], outer[Vertex.SINK] = True, False
        return cls(inner, outer)


def cut_within(flow: MaxFlow, source: NDArray[np.float64], sink: NDArray[np.float64], bracket: Bracket) -> Sides:
    """Minimum cuts with all of the bracket's inner vertices and none beyond its outer ones on the source side.

    Every vertex has an arc from the source and one to the sink of these seconds. What a vertex pays on either side is
    paid; only the difference needs to flow.
    """
    free = np.flatnonzero(bracket.outer & ~bracket.inner)
    small, leaving, arriving, certain = _contracted(flow, bracket, free)
    certain += float(source[~bracket.outer].sum()) + float(sink[bracket.inner].sum())
    leaving[len(Vertex) :] += source[free]
    arriving[len(Vertex) :] += sink[free]
    paid = np.minimum(leaving, arriving)
    found = small.solve(leaving - paid, arriving - paid)
    smallest, largest = bracket.inner.copy(), bracket.inner.copy()
    smallest[free], largest[free] = found.smallest[len(Vertex) :], found.largest[len(Vertex) :]
    return Sides(certain + float(paid.sum()) + found.value, smallest, largest)


def _contracted(
    flow: MaxFlow, bracket: Bracket, free: NDArray[np.int64]
) -> tuple[MaxFlow, NDArray[np.float64], NDArray[np.float64], float]:
    """The network between free vertices, what the certain ones add to their terminal arcs, and what is surely cut."""
    size = len(free) + len(Vertex)
    number = np.where(bracket.inner, np.int32(Vertex.SOURCE), np.int32(Vertex.SINK))
    number[free] = np.arange(len(Vertex), size, dtype=np.int32)
    tails, heads = number[flow.tails], number[flow.heads]
    supplied, drained = tails == Vertex.SOURCE, heads == Vertex.SINK
    inner = (tails >= len(Vertex)) & (heads >= len(Vertex))
    leaving = _sums(heads, flow.seconds, supplied & (heads >= len(Vertex)), size)
    arriving = _sums(tails, flow.seconds, drained & (tails >= len(Vertex)), size)
    small = MaxFlow(size, tails[inner], heads[inner], flow.seconds[inner])
    return small, leaving, arriving, float(flow.seconds[supplied & drained].sum())


def _sums(
    vertex: NDArray[np.int32], seconds: NDArray[np.float64], taken: NDArray[np.bool_], vertices: int
) -> NDArray[np.float64]:
    return np.bincount(vertex[taken], seconds[taken], vertices).astype(np.float64)


def severed(flow: MaxFlow, source: NDArray[np.float64], sink: NDArray[np.float64], side: NDArray[np.bool_]) -> float:
    """Seconds of the cut that has ``side`` on the source side."""
    between = float(flow.seconds[side[flow.tails] & ~side[flow.heads]].sum())
    return between + float(source[~side].sum()) + float(sink[side].sum())
