# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""How much every group costs at least on the side that the cheapest cut at a price does not give it.

That two cuts agree on a group proves nothing about it. What proves it is the cheapest cut with the group turned: where
that, less price × budget, is above what is asked for, the group stands where it stands in every better placement. The
turned cut is the base flow plus the flow that its residual network lets through to or from the group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR, HOST
from hetpart.partitioner.bounds.program import NOBODY

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from hetpart.partitioner.bounds.program import Program

SOURCE, SINK, TERMINALS = 0, 1, 2
UNCUT = 2**30 - 1
LARGEST_FLOW = UNCUT - 2**10
"""Less than ``UNCUT``, or a flow could saturate an arc whose capacity was only clipped."""


@dataclass(frozen=True, slots=True, eq=False)
class Margins:
    """Bounds on the cost of every placement that fits."""

    bound: float
    """Of all."""
    side: NDArray[np.int8]
    """(G,) Device of every group in the cut that proves ``bound``."""
    turned: NDArray[np.float64]
    """(G,) Of those with the group on the other device; ``bound`` where that was not looked at."""

    def sides(self, cost: float) -> NDArray[np.int8]:
        """(G,) Device of every group in all placements that fit and cost less than ``cost``; nobody where unsure."""
        return np.where(self.turned > cost, self.side, np.int8(NOBODY)).astype(np.int8)


def margins(program: Program, price: float, expired: Callable[[], bool]) -> Margins:
    """The margins of every group at ``price`` seconds per byte."""
    network = _Network.of(program, price)
    flow, residual = network.pushed()
    side = network.reached(residual)
    bound = network.certain + flow / network.scale - price * max(0, program.budget)
    turned = np.full(program.groups, bound)
    for group in range(program.groups):
        vertex = int(network.vertex[group])
        if vertex < TERMINALS:
            turned[group] = np.inf
        elif not expired():
            more = _flow(residual, SOURCE, vertex) if side[vertex] else _flow(residual, vertex, SINK)
            turned[group] = bound + more / network.scale
    return Margins(bound, np.where(side[network.vertex], ACCELERATOR, HOST).astype(np.int8), turned)


@dataclass(frozen=True, slots=True, eq=False)
class _Network:
    """Integer capacities, rounded down, so that a flow in seconds is below what any cut really costs."""

    vertex: NDArray[np.int64]
    """(G,) A terminal where a group has no choice."""
    graph: csr_array
    scale: float
    certain: float
    """Seconds that every cut costs."""

    @classmethod
    def of(cls, program: Program, price: float) -> _Network:
        vertex = np.arange(program.groups) + TERMINALS
        vertex[program.lower > 0] = SOURCE
        vertex[program.upper < 1] = SINK
        seconds = program.seconds + price * program.nbytes
        certain = program.constant + float(seconds[vertex == SOURCE].sum())
        free = vertex >= TERMINALS
        certain += float(np.minimum(seconds[free], 0.0).sum())
        gain, loss = free & (seconds < 0), free & (seconds > 0)
        tails = [np.full(int(gain.sum()), SOURCE), vertex[loss]]
        heads = [vertex[gain], np.full(int(loss.sum()), SINK)]
        limits = [-seconds[gain], seconds[loss]]
        arcs = _cover_arcs(program, vertex, price)
        scale = LARGEST_FLOW / _most(limits, arcs)
        tail = np.concatenate([*tails, arcs.tails])
        head = np.concatenate([*heads, arcs.heads])
        capacity = np.concatenate([*limits, arcs.limits])
        count = TERMINALS + program.variables
        return cls(vertex, _graph(tail, head, capacity * scale, count), scale, certain)

    def pushed(self) -> tuple[int, csr_array]:
        """The largest flow and what is left of every capacity."""
        from scipy.sparse.csgraph import maximum_flow

        found = maximum_flow(self.graph, SOURCE, SINK)
        residual = (self.graph - found.flow).tocsr()
        residual.data = np.minimum(residual.data, UNCUT).astype(np.int32)
        residual.eliminate_zeros()
        return int(found.flow_value), residual

    @staticmethod
    def reached(residual: csr_array) -> NDArray[np.bool_]:
        from scipy.sparse.csgraph import breadth_first_order

        side = np.zeros(len(residual.indptr) - 1, np.bool_)
        side[breadth_first_order(residual, SOURCE, directed=True, return_predecessors=False)] = True
        return side


@dataclass(frozen=True, slots=True, eq=False)
class _Arcs:
    tails: NDArray[np.int64]
    heads: NDArray[np.int64]
    limits: NDArray[np.float64]
    costs: NDArray[np.float64]
    """Of the cover each is an arc of."""


def _cover_arcs(program: Program, vertex: NDArray[np.int64], price: float) -> _Arcs:
    """From near to far, through a vertex of the cover's own: one arc of its cost, the others without a limit."""
    tails: list[int] = []
    heads: list[int] = []
    limits: list[float] = []
    costs: list[float] = []
    places: list[int] = [*vertex.tolist(), SINK]  # the last is nobody's
    for cover in program.covers:
        cost, own = cover.seconds + price * cover.nbytes, TERMINALS + cover.variable
        shared_near = len(cover.near) == 1
        for group in cover.near:
            tails.append(places[group])
            heads.append(own)
            limits.append(cost if shared_near else np.inf)
        for group in cover.far:
            tails.append(own)
            heads.append(places[group])
            limits.append(np.inf if shared_near else cost)
        costs += [cost] * (len(cover.near) + len(cover.far))
    return _Arcs(np.array(tails, np.int64), np.array(heads, np.int64), np.array(limits), np.array(costs))


def _most(limits: list[NDArray[np.float64]], arcs: _Arcs) -> float:
    """Seconds that no flow exceeds, and more than 0."""
    leaving = float(limits[0].sum() + arcs.costs[arcs.tails == SOURCE].sum())
    arriving = float(limits[1].sum() + arcs.costs[arcs.heads == SINK].sum())
    return min(leaving, arriving) or max(leaving, arriving) or 1.0


def _graph(tails: NDArray[np.int64], heads: NDArray[np.int64], capacity: NDArray[np.float64], count: int) -> csr_array:
    from scipy.sparse import csr_array

    kept = (heads != SOURCE) & (tails != SINK)
    graph = csr_array((np.minimum(capacity[kept], UNCUT), (tails[kept], heads[kept])), shape=(count, count))
    graph.sum_duplicates()
    graph.data = np.minimum(graph.data, UNCUT).astype(np.int32)
    return graph


def _flow(residual: csr_array, source: int, sink: int) -> int:
    from scipy.sparse.csgraph import maximum_flow

    return int(maximum_flow(residual, source, sink).flow_value)
