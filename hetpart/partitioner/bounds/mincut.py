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

from hetpart.devices import ACCELERATOR, HOST
from hetpart.partitioner.bounds.arcs import Arcs, Hyperedges, arcs_of, number_helpers
from hetpart.partitioner.bounds.maxflow import MaxFlow, Vertex
from hetpart.partitioner.bounds.nested import Bracket, cut_within, severed
from hetpart.partitioner.problem import NO_OP, Placement, PlacementProblem

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
class Path:
    """Ops each of which must run before the next, in sessions, which are counted along them."""

    ops: NDArray[np.int64]
    nbytes: float
    """What every stretch of it on the accelerator weighs."""


@dataclass(frozen=True, slots=True, eq=False)
class CutNetwork:
    """The flow network of a problem, at any price."""

    vertex: NDArray[np.int64]
    """(N,) Vertex of every op; a terminal where the op has no choice."""
    flow: MaxFlow
    more_arcs: Arcs
    """Between vertices of ops that follow each other on a path, or that copy: what they pay in bytes, by the price."""
    paths: tuple[Path, ...]
    """Along which sessions are counted."""
    share: float
    """Part of its bytes that every value weighs which is copied."""
    host_seconds: NDArray[np.float64]
    """(vertices,) What a vertex pays by itself on the host."""
    host_bytes: NDArray[np.float64]
    accelerator_seconds: NDArray[np.float64]
    accelerator_bytes: NDArray[np.float64]
    certain_seconds: float
    """What every placement pays."""
    certain_bytes: float

    @classmethod
    def of(cls, problem: PlacementProblem, *paths: Path, share: float = 0.0) -> CutNetwork:
        """The network of ``problem``.

        Args:
            problem: What to cut.
            paths: Along which sessions are counted.
            share: Part of its bytes that every value weighs which is copied.
        """
        vertex, groups = _vertices(problem)
        parts = [_op_arcs(problem, vertex), *_copy_arcs(problem, vertex, share), _weight_arcs(problem, vertex)]
        along = [_path_arcs(vertex[path.ops], path.nbytes) for path in paths]
        arcs, vertices = number_helpers([*parts, *along], groups + len(Vertex))
        return cls._assemble(vertex, (paths, share), arcs, vertices, problem.given_bytes)

    @classmethod
    def _assemble(
        cls,
        vertex: NDArray[np.int64],
        counted: tuple[tuple[Path, ...], float],
        arcs: Arcs,
        vertices: int,
        given_bytes: int,
    ) -> CutNetwork:
        """Sum up what runs between each vertex and the terminals."""
        at_source, at_sink = arcs.tails == Vertex.SOURCE, arcs.heads == Vertex.SINK
        on_accelerator, on_host = arcs.where(at_sink & ~at_source), arcs.where(at_source & ~at_sink)
        certain = arcs.where(at_source & at_sink)
        inner = arcs.where(~at_source & ~at_sink & (arcs.tails != Vertex.SINK) & (arcs.heads != Vertex.SOURCE))
        return cls(
            vertex,
            MaxFlow.of(vertices, inner.tails, inner.heads, inner.seconds),
            inner.where(inner.nbytes > 0),
            *counted,
            _sums(on_host.heads, on_host.seconds, vertices),
            _sums(on_host.heads, on_host.nbytes, vertices),
            _sums(on_accelerator.tails, on_accelerator.seconds, vertices),
            _sums(on_accelerator.tails, on_accelerator.nbytes, vertices),
            float(certain.seconds.sum()),
            float(certain.nbytes.sum()) + given_bytes,
        )

    def cut(self, price: float, cheaper: PricedCut | None = None, dearer: PricedCut | None = None) -> PricedCut:
        """The cheapest placements at ``price`` seconds, at least 0, per byte of weights on the accelerator.

        Args:
            price: Of a byte.
            cheaper: Cut at a lower price. What it leaves on the host stays there at a higher one.
            dearer: Cut at a higher price. What it has on the accelerator is there at a lower one too.
        """
        flow = self._flow(price)
        paid = (
            self.host_seconds + price * self.host_bytes,
            self.accelerator_seconds + price * self.accelerator_bytes,
        )
        sides = cut_within(flow, *paid, self._bracket(cheaper, dearer))
        certain = self.certain_seconds + price * self.certain_bytes
        # Known cuts that are a little off, for rounding, may shut the least of all out, but by no more than they are
        # off: cuts are submodular, and the price adds the same to every set of vertices.
        value = certain + sides.value - _slack(cheaper, dearer)
        same = np.array_equal(sides.smallest, sides.largest)
        reached = max(
            severed(flow, *paid, side) for side in ((sides.smallest,) if same else (sides.smallest, sides.largest))
        )
        return PricedCut(
            price,
            value,
            self._placement(sides.smallest),
            self._placement(sides.largest),
            Bracket(sides.smallest, sides.largest),
            certain + reached - value,
        )

    @property
    def nests(self) -> bool:
        """Whether cuts at rising prices nest: the price adds to what the accelerator holds and to nothing else."""
        return not self.paths and not self.share

    def weight(self, problem: PlacementProblem, placement: Placement) -> int:
        """Bytes on the accelerator that the price is paid for: weights, sessions, a share of what is copied."""
        nbytes = float(int(problem.held(placement)[ACCELERATOR] @ problem.weight_bytes) + problem.given_bytes)
        nbytes += sum(stretches(path.ops, placement) * path.nbytes for path in self.paths)
        if self.share:
            nbytes += self.share * float(held_if_copied(problem)[problem.copies(placement)].sum())
        return int(nbytes)

    def _flow(self, price: float) -> MaxFlow:
        flow, more = self.flow, self.more_arcs
        if not len(more.tails) or price == 0.0:
            return flow
        return MaxFlow.of(
            flow.vertices,
            np.concatenate([flow.tails.astype(np.int64), more.tails]),
            np.concatenate([flow.heads.astype(np.int64), more.heads]),
            np.concatenate([flow.seconds, price * more.nbytes]),
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
    on_host = arcs_of(np.full(problem.ops, Vertex.SOURCE), vertex, problem.seconds[HOST])
    on_accelerator = arcs_of(vertex, np.full(problem.ops, Vertex.SINK), problem.seconds[ACCELERATOR])
    return Arcs.join([on_host.where(vertex != Vertex.SOURCE), on_accelerator.where(vertex != Vertex.SINK)])


def _copy_arcs(problem: PlacementProblem, vertex: NDArray[np.int64], share: float) -> list[Arcs]:
    """Copies down to the host and up to the accelerator."""
    home = np.full(problem.values, Vertex.SINK, np.int64)
    by = problem.placed_by
    home[by != NO_OP] = vertex[by[by != NO_OP]]
    home[problem.given_there] = Vertex.SOURCE
    uses = problem.value_uses
    everywhere = Hyperedges(home, uses.rows, np.where(uses.on_host, Vertex.SINK, vertex[uses.ops]))
    here, there = np.flatnonzero(problem.wanted_on_host), np.flatnonzero(problem.wanted_there)
    down = everywhere.with_uses(here, np.full(len(here), Vertex.SINK))
    up = Hyperedges(home, uses.rows[~uses.on_host], vertex[uses.ops[~uses.on_host]])
    up = up.with_uses(there, np.full(len(there), Vertex.SOURCE))
    down_seconds = problem.copy_seconds[ACCELERATOR, HOST]
    up_seconds = problem.copy_seconds[HOST, ACCELERATOR]
    nbytes = held_if_copied(problem) * np.float64(share)
    return [
        down.arcs(down_seconds, nbytes[HOST], Vertex.SINK, Vertex.SOURCE),
        up.arcs(up_seconds, nbytes[ACCELERATOR], Vertex.SOURCE, Vertex.SINK).reversed(),
    ]


def stretches(path: NDArray[np.int64], placement: Placement) -> int:
    """Of ops on a path, on the accelerator. No placement has fewer sessions there."""
    along = placement[path] == ACCELERATOR
    return int(along[:1].sum()) + int((along[1:] & ~along[:-1]).sum())


def held_if_copied(problem: PlacementProblem) -> NDArray[np.int64]:
    """(D, V) Bytes of a value that certainly lie beside a session on the accelerator if it is copied to a device.

    What the caller holds there lies there in any case, and what it wants there may only come when all has run. Where
    a kernel reads a value from host memory, its way there may be inside a session. What an op that runs apart makes,
    or reads, may lie there while no session runs. A state comes to sessions, and lies with weights where it is kept.
    """
    elsewhere = problem.value_left_on_host | problem.given_there | problem.wanted_there
    uses, made = problem.value_uses, problem.value_producer != NO_OP
    elsewhere[uses.rows[uses.on_host]] = True
    nbytes = np.where(elsewhere, 0, np.stack([problem.value_bytes, problem.copied_bytes]))
    called = ~problem.in_sessions
    nbytes[HOST, made] *= ~called[problem.value_producer[made]]
    # Where its keeper reads a state, it is no copy.
    keeper = NO_OP if problem.states is None else problem.states.keeper[uses.rows]
    nbytes[ACCELERATOR, uses.rows[called[uses.ops] & (uses.ops != keeper)]] = 0
    return nbytes


def _weight_arcs(problem: PlacementProblem, vertex: NDArray[np.int64]) -> Arcs:
    """A weight is a value that lies on the host and is paid for by the byte wherever the accelerator uses it."""
    uses = problem.weight_uses
    home = np.full(len(problem.weight_bytes), Vertex.SINK, np.int64)
    readers = Hyperedges(home, uses.rows[~uses.on_host], vertex[uses.ops[~uses.on_host]])
    nbytes = problem.weight_bytes.astype(np.float64)
    return readers.arcs(np.zeros(len(home)), nbytes, Vertex.SOURCE, Vertex.SINK).reversed()


def _path_arcs(along: NDArray[np.int64], nbytes: float) -> Arcs:
    """From each op of a path to the one before it, the sink before the first: cut where a stretch begins."""
    before = np.concatenate([[Vertex.SINK], along[:-1]]) if len(along) else along
    changes = along != before
    count = int(changes.sum())
    return Arcs(along[changes], before[changes], np.zeros(count), np.full(count, nbytes))
