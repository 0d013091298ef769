"""The third state: weights that the accelerator uses and does not hold.

A streamed weight is a value that lies on the host and is copied in every run. So a placement with a set of streamed
weights is one of another problem, in which they are values. And which weights to stream is a placement too: of a
problem in which every weight that may be streamed has an op of its own. Where that op is, the weight is held; it makes
what the weight's users read, in no time; and from the host that has to be copied. Cuts, bounds and searches of that
problem are those of all three states.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR, HOST
from hetpart.partitioner.problem import NO_BUDGET, NO_OP, Placement, PlacementProblem
from hetpart.partitioner.scores.fixing import without_misfits
from hetpart.partitioner.scores.sessions import most_others
from hetpart.partitioner.uses import Uses

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Streaming

LEAST_PARTITIONS = 2
"""On the accelerator, where weights are streamed and nothing comes there when no partition runs."""
ROUNDING = 1e-9


def with_streamed(problem: PlacementProblem, streamed: NDArray[np.bool_]) -> PlacementProblem:
    """``problem`` with the (W,) ``streamed`` weights as values, behind all others."""
    if problem.streaming is None or not streamed.any():
        return problem
    weights = np.flatnonzero(streamed)
    uses = problem.weight_uses
    more = _rows(uses, weights)
    count = len(weights)
    copies = np.zeros((*problem.copy_seconds.shape[:2], count))
    copies[HOST, ACCELERATOR] = problem.streaming.seconds[weights]
    no = np.zeros(count, np.bool_)
    return replace(
        problem,
        value_producer=np.concatenate([problem.value_producer, np.full(count, NO_OP, np.int32)]),
        value_left_on_host=np.concatenate([problem.value_left_on_host, no]),
        value_returned=np.concatenate([problem.value_returned, no]),
        value_kept=None if problem.value_kept is None else np.concatenate([problem.value_kept, no.astype(np.int8)]),
        value_bytes=np.concatenate([problem.value_bytes, problem.streaming.nbytes[weights]]),
        states=None if problem.states is None else problem.states.and_more(count),
        value_uses=_joined(problem.value_uses, more),
        copy_seconds=np.concatenate([problem.copy_seconds, copies], axis=2),
        # The host holds them whoever uses them.
        weight_uses=Uses(uses.offsets, uses.ops, uses.on_host | streamed[uses.rows]),
        streaming=None,
        streamed=np.concatenate([np.zeros(problem.values, np.bool_), ~no]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ThreeStates:
    """A problem whose placements say for every op where it runs, and for every weight where it is held."""

    problem: PlacementProblem
    """Two states each, which is what a search knows."""
    own: PlacementProblem
    """The problem in question."""
    ops: NDArray[np.int64]
    """(N,) Its ops, in ``problem``."""
    holders: NDArray[np.int64]
    """The ops of ``problem`` that stand for weights."""
    weights: NDArray[np.int64]
    """The weight of each holder."""

    @classmethod
    def of(cls, problem: PlacementProblem) -> ThreeStates:
        assert problem.streaming is not None
        uses = problem.weight_uses
        first = np.full(len(problem.weight_bytes), problem.ops, np.int64)
        np.minimum.at(first, uses.rows[~uses.on_host], uses.ops[~uses.on_host])
        weights = np.flatnonzero(problem.streaming.allowed & (first < problem.ops))
        # A holder comes right before the first op that uses its weight.
        order = np.argsort(np.concatenate([2 * first[weights], 2 * np.arange(problem.ops) + 1]), kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        holders, ops = place[: len(weights)], place[len(weights) :]
        return cls(_expanded(problem, problem.streaming, weights, holders, ops), problem, ops, holders, weights)

    def apart(self, placement: Placement) -> tuple[Placement, NDArray[np.bool_]]:
        """Where the ops are, and (W,) which weights are streamed."""
        own = placement[self.ops]
        streamed = np.zeros(len(self.own.weight_bytes), np.bool_)
        streamed[self.weights] = placement[self.holders] == HOST
        return own, streamed & self.own.held(own)[ACCELERATOR]

    def lifted(self, placement: Placement) -> Placement:
        """The placement that streams nothing."""
        return self.together(placement, np.zeros(len(self.own.weight_bytes), np.bool_))

    def together(self, placement: Placement, streamed: NDArray[np.bool_]) -> Placement:
        """The placement that says both. A weight is held where it is used, unless it is streamed."""
        found = np.zeros(self.problem.ops, np.int8)
        found[self.ops] = placement
        found[self.holders] = (self.own.held(placement)[ACCELERATOR] & ~streamed)[self.weights]
        return found

    def with_share(self, problem: PlacementProblem, share: float) -> PlacementProblem:
        """``problem``, with its placements, where a weight takes this share of its bytes wherever it is held."""
        sizes, first = problem.weight_bytes.copy(), len(self.own.weight_bytes)
        whole = sizes[self.weights] + sizes[first:]
        sizes[first:] = (whole * share).astype(np.int64)
        sizes[self.weights] = whole - sizes[first:]
        return replace(problem, weight_bytes=sizes)


def _expanded(
    problem: PlacementProblem,
    streaming: Streaming,
    weights: NDArray[np.int64],
    holders: NDArray[np.int64],
    ops: NDArray[np.int64],
) -> PlacementProblem:
    count, total = len(weights), len(weights) + problem.ops
    no = np.zeros(count, np.bool_)
    groups = np.empty(total, np.int32)
    groups[ops], groups[holders] = problem.groups, int(problem.groups.max(initial=-1)) + 1 + np.arange(count)
    seconds = np.zeros((len(problem.devices), total))
    seconds[:, ops] = problem.seconds
    scratch = np.zeros(total, np.int64)
    scratch[ops] = problem.scratch_bytes
    producer = problem.value_producer.copy()
    producer[producer != NO_OP] = ops[producer[producer != NO_OP]]
    copies = np.zeros((*problem.copy_seconds.shape[:2], count))
    copies[HOST, ACCELERATOR] = streaming.seconds[weights]
    found = replace(
        problem,
        seconds=seconds,
        groups=groups,
        scratch_bytes=scratch,
        reorders=None if problem.reorders is None else replace(problem.reorders, ops=ops[problem.reorders.ops]),
        apart=_among(problem.apart, ops, total),
        value_producer=np.concatenate([producer, holders]).astype(np.int32),
        value_left_on_host=np.concatenate([problem.value_left_on_host, no]),
        value_returned=np.concatenate([problem.value_returned, no]),
        value_kept=None if problem.value_kept is None else np.concatenate([problem.value_kept, no.astype(np.int8)]),
        value_bytes=np.concatenate([problem.value_bytes, streaming.nbytes[weights]]),
        states=None if problem.states is None else problem.states.among(np.arange(problem.values), ops).and_more(count),
        value_uses=_renamed(_joined(problem.value_uses, _rows(problem.weight_uses, weights, here=True)), ops),
        copy_seconds=np.concatenate([problem.copy_seconds, copies], axis=2),
        weight_bytes=problem.weight_bytes.copy(),
        weight_uses=_held_by(problem, weights, holders, ops),
        streaming=None,
        stands_for_weight=np.concatenate([np.zeros(problem.values, np.bool_), ~no]),
    )
    shares = _rows(problem.weight_uses, weights, here=True)
    return _with_shares(_weights_counted_once(found, weights), weights, _renamed(shares, ops))


def _among(marked: NDArray[np.bool_] | None, ops: NDArray[np.int64], total: int) -> NDArray[np.bool_] | None:
    if marked is None:
        return None
    found = np.zeros(total, np.bool_)
    found[ops] = marked
    return found


def _weights_counted_once(problem: PlacementProblem, weights: NDArray[np.int64]) -> PlacementProblem:
    """What no op could run with is shut out; then what stands for a weight takes no room beside it.

    A streamed weight does take room while it is used: bounds leave that out, and what is found is scored with it.
    """
    assert problem.stands_for_weight is not None
    apart = problem.weight_bytes.copy()
    apart[weights] = 0
    seconds = without_misfits(replace(problem, weight_bytes=apart)).seconds
    return replace(problem, seconds=seconds, value_bytes=np.where(problem.stands_for_weight, 0, problem.value_bytes))


def _with_shares(problem: PlacementProblem, weights: NDArray[np.int64], users: Uses) -> PlacementProblem:
    """Wherever it is held, a weight that the accelerator uses takes there what a streamed one takes at least."""
    shares = (problem.weight_bytes[weights] * least_share(problem, weights)).astype(np.int64)
    sizes = problem.weight_bytes.copy()
    sizes[weights] -= shares
    return replace(
        problem, weight_bytes=np.concatenate([sizes, shares]), weight_uses=_joined(problem.weight_uses, users)
    )


def least_share(problem: PlacementProblem, weights: NDArray[np.int64]) -> float:
    """What all of ``weights`` that are streamed take on the accelerator at least, as a share of their bytes.

    The sessions of the fewest partitions left out. In n partitions, those of two that
    follow each other are there at once: with n even, of n/2 pairs one has 2/n of all bytes at least; with n odd, of
    (n + 1)/2. With n sessions' bytes that is concave in what is streamed, so above its chord from nothing to the most
    that a budget allows.
    """
    budget, session = int(problem.budgets[ACCELERATOR]), int(problem.session_bytes[ACCELERATOR])
    most = int(problem.legal()[ACCELERATOR].sum())
    partitions = np.arange(least_partitions(problem), most + 1)
    sessions = np.maximum(0, partitions - most_others(problem)) * session
    room = budget - sessions
    partitions, sessions, room = partitions[room > 0], sessions[room > 0], room[room > 0]
    total = int(problem.weight_bytes[weights].sum())
    if budget == NO_BUDGET or not len(partitions) or not total:
        return 0.0
    at_once = ring(partitions)
    streamed = min(float(total), float((room / at_once).max()))
    held = float((streamed * at_once + sessions).min()) - least_sessions(problem, least_partitions(problem)) * session
    return min(1.0, held / streamed * (1 - ROUNDING))


def least_partitions(problem: PlacementProblem) -> int:
    """On the accelerator, where streaming gains something.

    In one partition all that is streamed is there together with all that it reads and makes. What the host makes and
    the caller wants on the accelerator comes when that partition and its weights are gone: then even one gains by it.
    """
    return 1 if problem.wanted_there.any() else LEAST_PARTITIONS


def least_sessions(problem: PlacementProblem, partitions: int) -> int:
    """Of so many partitions on the accelerator."""
    return max(0, partitions - most_others(problem))


def ring(partitions: NDArray[np.int64]) -> NDArray[np.float64]:
    """What is there at once at least of all that is streamed, as a share of it, by the number of partitions."""
    return 1.0 / ((partitions + 1) // 2)


def _held_by(
    problem: PlacementProblem, weights: NDArray[np.int64], holders: NDArray[np.int64], ops: NDArray[np.int64]
) -> Uses:
    """Weights that may be streamed are used by their holders, the others as they were."""
    uses, apart = problem.weight_uses, np.zeros(len(problem.weight_bytes), np.bool_)
    apart[weights] = True
    kept = ~apart[uses.rows]
    rows = np.concatenate([uses.rows[kept], weights])
    order = np.argsort(rows, kind="stable")
    users = np.concatenate([ops[uses.ops[kept]], holders])[order].astype(np.int32)
    on_host = np.concatenate([uses.on_host[kept], np.zeros(len(weights), np.bool_)])[order]
    return Uses(np.searchsorted(rows[order], np.arange(len(apart) + 1)), users, on_host)


def _rows(uses: Uses, rows: NDArray[np.int64], *, here: bool = False) -> Uses:
    """Some rows of ``uses``; only what is read on the op's own device where ``here``."""
    place = np.full(len(uses.offsets) - 1, -1, np.int64)
    place[rows] = np.arange(len(rows))
    kept = place[uses.rows] >= 0
    kept &= ~(uses.on_host & here)
    return Uses(np.searchsorted(place[uses.rows[kept]], np.arange(len(rows) + 1)), uses.ops[kept], uses.on_host[kept])


def _joined(uses: Uses, more: Uses) -> Uses:
    return Uses(
        np.concatenate([uses.offsets, uses.offsets[-1] + more.offsets[1:]]),
        np.concatenate([uses.ops, more.ops]),
        np.concatenate([uses.on_host, more.on_host]),
    )


def _renamed(uses: Uses, ops: NDArray[np.int64]) -> Uses:
    return Uses(uses.offsets, ops[uses.ops].astype(np.int32), uses.on_host)
