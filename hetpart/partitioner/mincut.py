"""The exact two-device placement at a price per byte of weights: a minimum s–t cut (Stone 1977).

The source side is the accelerator, the sink side the host. Every group of ops is one vertex; a group that may run on
one device only is that terminal itself. A value or weight that several groups use is a hyperedge with one helper
vertex per direction, so it is paid once however many use it. What a placement pays is the capacity of its cut plus a
constant, and capacities are linear in the price: the network is built once and cut many times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import HOST
from hetpart.partitioner.maxflow import MaxFlow, Vertex
from hetpart.partitioner.nested import Bracket, cut_within, severed
from hetpart.partitioner.problem import NO_OP, Placement, PlacementProblem, unique_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

ACCELERATOR = 1


@dataclass(frozen=True, slots=True, eq=False)
class Arcs:
    """Directed arcs. A capacity is ``seconds + price × nbytes``; infinite seconds are never cut."""

    tails: NDArray[np.int64]
    heads: NDArray[np.int64]
    seconds: NDArray[np.float64]
    nbytes: NDArray[np.float64]

    @classmethod
    def join(cls, parts: list[Arcs]) -> Arcs:
        return cls(
            np.concatenate([part.tails for part in parts]),
            np.concatenate([part.heads for part in parts]),
            np.concatenate([part.seconds for part in parts]),
            np.concatenate([part.nbytes for part in parts]),
        )

    def where(self, mask: NDArray[np.bool_]) -> Arcs:
        return Arcs(self.tails[mask], self.heads[mask], self.seconds[mask], self.nbytes[mask])

    def reversed(self) -> Arcs:
        return Arcs(self.heads, self.tails, self.seconds, self.nbytes)


@dataclass(frozen=True, slots=True, eq=False)
class PricedCut:
    """The cheapest placements at a price."""

    price: float
    value: float
    """No legal placement has a lower cost + price × weight bytes on the accelerator."""
    smallest: Placement
    """The fewest ops on the accelerator that reach it, up to rounding."""
    largest: Placement
    """The most ops on the accelerator that reach it."""
    bracket: Bracket
    """Inner: the vertices of ``smallest``. Outer: those of ``largest``."""
    slack: float
    """Neither of the two is further than this above ``value``: what rounding may hide."""


@dataclass(frozen=True, slots=True, eq=False)
class CutNetwork:
    """The flow network of a problem, at any price."""

    vertex: NDArray[np.int64]
    """(N,) Vertex of every op; a terminal where the op has no choice."""
    flow: MaxFlow
    host_seconds: NDArray[np.float64]
    """(vertices,) What a vertex pays by itself on the host."""
    accelerator_seconds: NDArray[np.float64]
    accelerator_bytes: NDArray[np.float64]
    certain_seconds: float
    """What every placement pays."""
    certain_bytes: float

    @classmethod
    def of(cls, problem: PlacementProblem) -> CutNetwork:
        """The network of ``problem``."""
        vertex, groups = _vertices(problem)
        parts = [_op_arcs(problem, vertex), *_copy_arcs(problem, vertex), _weight_arcs(problem, vertex)]
        arcs, vertices = _number_helpers(parts, groups + len(Vertex))
        return cls._assemble(vertex, arcs, vertices)

    @classmethod
    def _assemble(cls, vertex: NDArray[np.int64], arcs: Arcs, vertices: int) -> CutNetwork:
        """Sum up what runs between each vertex and the terminals."""
        at_source, at_sink = arcs.tails == Vertex.SOURCE, arcs.heads == Vertex.SINK
        on_accelerator, on_host = arcs.where(at_sink & ~at_source), arcs.where(at_source & ~at_sink)
        certain = arcs.where(at_source & at_sink)
        inner = arcs.where(~at_source & ~at_sink & (arcs.tails != Vertex.SINK) & (arcs.heads != Vertex.SOURCE))
        return cls(
            vertex,
            MaxFlow.of(vertices, inner.tails, inner.heads, inner.seconds),
            _sums(on_host.heads, on_host.seconds, vertices),
            _sums(on_accelerator.tails, on_accelerator.seconds, vertices),
            _sums(on_accelerator.tails, on_accelerator.nbytes, vertices),
            float(certain.seconds.sum()),
            float(certain.nbytes.sum()),
        )

    def cut(self, price: float, cheaper: PricedCut | None = None, dearer: PricedCut | None = None) -> PricedCut:
        """The cheapest placements at ``price`` seconds, at least 0, per byte of weights on the accelerator.

        Args:
            price: Of a byte.
            cheaper: Cut at a lower price. What it leaves on the host stays there at a higher one.
            dearer: Cut at a higher price. What it has on the accelerator is there at a lower one too.
        """
        paid = self.host_seconds, self.accelerator_seconds + price * self.accelerator_bytes
        sides = cut_within(self.flow, *paid, self._bracket(cheaper, dearer))
        certain = self.certain_seconds + price * self.certain_bytes
        # Known cuts that are a little off, for rounding, may shut the least of all out, but by no more than they are
        # off: cuts are submodular, and the price adds the same to every set of vertices.
        value = certain + sides.value - _slack(cheaper, dearer)
        same = np.array_equal(sides.smallest, sides.largest)
        reached = max(
            severed(self.flow, *paid, side) for side in ((sides.smallest,) if same else (sides.smallest, sides.largest))
        )
        return PricedCut(
            price,
            value,
            self._placement(sides.smallest),
            self._placement(sides.largest),
            Bracket(sides.smallest, sides.largest),
            certain + reached - value,
        )

    def _bracket(self, cheaper: PricedCut | None, dearer: PricedCut | None) -> Bracket:
        found = Bracket.open(self.flow.vertices)
        outer = found.outer if cheaper is None else cheaper.bracket.outer
        inner = found.inner if dearer is None else dearer.bracket.inner & outer
        return Bracket(inner, outer)

    def _placement(self, side: NDArray[np.bool_]) -> Placement:
        return side[self.vertex].astype(np.int8)


def _slack(cheaper: PricedCut | None, dearer: PricedCut | None) -> float:
    """Seconds by which the least cut between two may exceed the least of all."""
    if cheaper is None or dearer is None:
        return sum(known.slack for known in (cheaper, dearer) if known is not None)
    nested = not (dearer.bracket.inner & ~cheaper.bracket.outer).any()
    return (1 if nested else 2) * cheaper.slack + dearer.slack


def _sums(vertex: NDArray[np.int64], figures: NDArray[np.float64], vertices: int) -> NDArray[np.float64]:
    return np.bincount(vertex, figures, vertices).astype(np.float64)


def _vertices(problem: PlacementProblem) -> tuple[NDArray[np.int64], int]:
    """Vertex of every op, and the number of groups."""
    names, group = np.unique(problem.groups, return_inverse=True)
    legal = problem.legal()
    vertex = group + len(Vertex)
    vertex[~legal[HOST]] = Vertex.SOURCE
    vertex[~legal[ACCELERATOR]] = Vertex.SINK
    return vertex.astype(np.int64), len(names)


def _op_arcs(problem: PlacementProblem, vertex: NDArray[np.int64]) -> Arcs:
    """Seconds on the accelerator run to the sink, seconds on the host come from the source."""
    on_host = _arcs(np.full(problem.ops, Vertex.SOURCE), vertex, problem.seconds[HOST])
    on_accelerator = _arcs(vertex, np.full(problem.ops, Vertex.SINK), problem.seconds[ACCELERATOR])
    return Arcs.join([on_host.where(vertex != Vertex.SOURCE), on_accelerator.where(vertex != Vertex.SINK)])


def _copy_arcs(problem: PlacementProblem, vertex: NDArray[np.int64]) -> list[Arcs]:
    """Copies down to the host and up to the accelerator."""
    home = np.full(problem.values, Vertex.SINK, np.int64)
    made = (problem.value_producer != NO_OP) & ~problem.value_left_on_host
    home[made] = vertex[problem.value_producer[made]]
    uses = problem.value_uses
    everywhere = _Hyperedges(home, uses.rows, np.where(uses.on_host, Vertex.SINK, vertex[uses.ops]))
    returned = np.flatnonzero(problem.value_returned)
    down = everywhere.with_uses(returned, np.full(len(returned), Vertex.SINK))
    up = _Hyperedges(home, uses.rows[~uses.on_host], vertex[uses.ops[~uses.on_host]])
    down_seconds = problem.copy_seconds[ACCELERATOR, HOST]
    up_seconds = problem.copy_seconds[HOST, ACCELERATOR]
    zeros = np.zeros(problem.values)
    return [
        down.arcs(down_seconds, zeros, Vertex.SINK, Vertex.SOURCE),
        up.arcs(up_seconds, zeros, Vertex.SOURCE, Vertex.SINK).reversed(),
    ]


def _weight_arcs(problem: PlacementProblem, vertex: NDArray[np.int64]) -> Arcs:
    """A weight is a value that lies on the host and is paid for by the byte wherever the accelerator uses it."""
    uses = problem.weight_uses
    home = np.full(len(problem.weight_bytes), Vertex.SINK, np.int64)
    readers = _Hyperedges(home, uses.rows[~uses.on_host], vertex[uses.ops[~uses.on_host]])
    nbytes = problem.weight_bytes.astype(np.float64)
    return readers.arcs(np.zeros(len(home)), nbytes, Vertex.SOURCE, Vertex.SINK).reversed()


@dataclass(frozen=True, slots=True, eq=False)
class _Hyperedges:
    """Values with the vertex that makes each, and one (row, vertex) pair per use."""

    home: NDArray[np.int64]
    rows: NDArray[np.int64]
    users: NDArray[np.int64]

    def with_uses(self, rows: NDArray[np.int64], users: NDArray[np.int64]) -> _Hyperedges:
        return _Hyperedges(self.home, np.concatenate([self.rows, rows]), np.concatenate([self.users, users]))

    def arcs(self, seconds: NDArray[np.float64], nbytes: NDArray[np.float64], certain: int, never: int) -> Arcs:
        """Arcs from home to users, cut once where home stands on the near side and any user on the far side.

        ``certain`` is the terminal on the far side: a user there is cut whenever home is not. Users at ``never``, the
        near terminal, are not cut, nor is a value at home on the far side.
        """
        matters = (seconds > 0) | (nbytes > 0)
        live = (self.home != certain) & matters
        keep = live[self.rows] & (self.users != never) & (self.users != self.home[self.rows])
        rows, users = unique_pairs(self.rows[keep], self.users[keep])
        sure = np.zeros(len(self.home), np.bool_)
        sure[rows[users == certain]] = True
        rows, users = rows[~sure[rows]], users[~sure[rows]]
        count = np.bincount(rows, minlength=len(self.home))
        plain = count[rows] == 1
        shared = np.flatnonzero(count > 1)
        helper = np.zeros(len(self.home), np.int64)
        helper[shared] = -1 - np.arange(len(shared))
        known = np.flatnonzero(sure)
        return Arcs.join(
            [
                _arcs(self.home[known], np.full(len(known), certain), seconds[known], nbytes[known]),
                _arcs(self.home[rows[plain]], users[plain], seconds[rows[plain]], nbytes[rows[plain]]),
                _arcs(self.home[shared], helper[shared], seconds[shared], nbytes[shared]),
                _arcs(helper[rows[~plain]], users[~plain], np.full(int((~plain).sum()), np.inf)),
            ]
        )


def _arcs(
    tails: NDArray[np.int64],
    heads: NDArray[np.int64],
    seconds: NDArray[np.float64],
    nbytes: NDArray[np.float64] | None = None,
) -> Arcs:
    return Arcs(tails, heads, seconds, np.zeros(len(tails)) if nbytes is None else nbytes)


def _number_helpers(parts: list[Arcs], first: int) -> tuple[Arcs, int]:
    """Give each part's helpers, −1 downwards, vertices of their own; also the number of vertices."""
    numbered: list[Arcs] = []
    for part in parts:
        helpers = max(0, -int(min(part.tails.min(initial=0), part.heads.min(initial=0))))
        tails = np.where(part.tails < 0, first - 1 - part.tails, part.tails)
        heads = np.where(part.heads < 0, first - 1 - part.heads, part.heads)
        numbered.append(Arcs(tails, heads, part.seconds, part.nbytes))
        first += helpers
    return Arcs.join(numbered), first
