"""Cuts for streamed weights: partitions so small that what streams through them fits in little memory.

While a partition runs, its streamed weights lie on the accelerator, and those of the next are copied there. So the
finer the cut, the less is held, and the more sessions there are. Where a partition that streams nothing lies between
two that stream, what the two bring is never there together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.scores.cut import Cut

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hetpart.partitioner.problem import PlacementProblem

PIECES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128)
"""Parts of all that is streamed that a partition may take: what is tried, one after another."""


STEPS = (4, 2, 1)
"""Places to cut at, of which every so many is: where sessions cost nothing, what is inside of them takes no room."""


@dataclass(frozen=True, slots=True, eq=False)
class RingCut:
    """A cut, and what streamed weights and sessions take on the accelerator at least."""

    cut: Cut
    least_bytes: int


def ring_cuts(problem: PlacementProblem, found: Cut) -> Iterator[RingCut]:
    """``found``, and what it becomes with the accelerator's partitions in smaller and smaller pieces.

    First of so many bytes at most, one behind another or with what streams nothing between them; then of so many ops.
    """
    if problem.streamed is None or not problem.streamed.any():
        yield RingCut(found, 0)
        return
    order = np.argsort(found.partition, kind="stable")
    brought = _brought(problem, found)
    yield RingCut(found, _least_bytes(problem, found, brought))
    ends = _ends(problem, found, order)
    pieces = [
        *(_pieced(brought[order], ends, part, apart=apart) for part in _parts(brought) for apart in (False, True)),
        *(_every(ends, step, problem.ops) for step in STEPS),
    ]
    cuts = {finer.partitions: finer for finer in (_numbered(found, order, piece) for piece in reversed(pieces))}
    for partitions in sorted(cuts):
        if partitions > found.partitions:
            yield RingCut(cuts[partitions], _least_bytes(problem, cuts[partitions], brought))


def _parts(brought: NDArray[np.int64]) -> list[int]:
    """Bytes that a piece may take."""
    return [-(-int(brought.sum()) // pieces) for pieces in PIECES[1:]]


def _least_bytes(problem: PlacementProblem, found: Cut, brought: NDArray[np.int64]) -> int:
    """Every session's bytes, and what is brought to two partitions that follow each other."""
    here = found.devices == ACCELERATOR
    each = np.zeros(found.partitions, np.int64)
    np.add.at(each, found.partition, brought)
    each = each[here]
    pairs = each[1:] + each[:-1] if len(each) > 1 else each
    return int(pairs.max(initial=0)) + len(each) * int(problem.session_bytes[ACCELERATOR])


def _brought(problem: PlacementProblem, found: Cut) -> NDArray[np.int64]:
    """(N,) Bytes of the streamed weights that each op on the accelerator is the first of its partition to use."""
    assert problem.streamed is not None
    uses = problem.value_uses
    there = problem.streamed[uses.rows] & ~uses.on_host & (found.devices[found.partition[uses.ops]] == ACCELERATOR)
    values, ops = uses.rows[there], uses.ops[there].astype(np.int64)
    # Of the uses of a weight in a partition the first op's comes first.
    order = np.lexsort((ops, found.partition[ops], values))
    values, ops = values[order], ops[order]
    partition = found.partition[ops]
    first = np.ones(len(ops), np.bool_)
    first[1:] = (values[1:] != values[:-1]) | (partition[1:] != partition[:-1])
    brought = np.zeros(problem.ops, np.int64)
    np.add.at(brought, ops[first], problem.value_bytes[values[first]])
    return brought


def _ends(problem: PlacementProblem, found: Cut, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions in ``order`` before which a partition may be cut: no group of a partition lies on both sides.

    The last is behind all ops.
    """
    count = len(order)
    span = int(problem.groups.max(initial=0)) + 1
    _, group = np.unique(found.partition[order].astype(np.int64) * span + problem.groups[order], return_inverse=True)
    first = np.full(count, count, np.int64)
    last = np.full(count, -1, np.int64)
    np.minimum.at(first, group, np.arange(count))
    np.maximum.at(last, group, np.arange(count))
    inside = np.zeros(count + 2, np.int64)
    here = last >= 0
    np.add.at(inside, first[here] + 1, 1)
    np.subtract.at(inside, last[here] + 1, 1)
    return np.flatnonzero(inside.cumsum()[: count + 1] == 0)[1:]


def _pieced(brought: NDArray[np.int64], ends: NDArray[np.int64], most: int, *, apart: bool) -> NDArray[np.int64]:
    """Per position: a number that rises where the next stretch would bring more than ``most`` bytes to a piece.

    ``apart``, it rises behind the last stretch that brought something, too.
    """
    starts = np.concatenate([[0], ends[:-1]])
    stretches = np.add.reduceat(brought, starts) if len(ends) else brought
    fresh, held, behind = np.zeros(len(brought), np.int64), 0, 0
    for stretch in np.flatnonzero(stretches).tolist():
        nbytes = int(stretches[stretch])
        if held and held + nbytes > most:
            fresh[starts[[behind, stretch] if apart else stretch]], held = 1, 0
        held, behind = held + nbytes, stretch + 1
    return fresh.cumsum()


def _every(ends: NDArray[np.int64], step: int, count: int) -> NDArray[np.int64]:
    """Per position: a number that rises at every so many of ``ends``."""
    fresh = np.zeros(count, np.int64)
    fresh[ends[step - 1 : -1 : step]] = 1
    return fresh.cumsum()


def _numbered(found: Cut, order: NDArray[np.int64], piece: NDArray[np.int64]) -> Cut:
    """Partitions in the order they ran, each in its pieces."""
    partition = found.partition[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = partition[1:] != partition[:-1]
    fresh[1:] |= (piece[1:] != piece[:-1]) & (found.devices[partition[1:]] == ACCELERATOR)
    number = np.empty(len(order), np.int32)
    number[order] = fresh.cumsum() - 1
    return Cut(number, found.devices[partition[fresh]])
