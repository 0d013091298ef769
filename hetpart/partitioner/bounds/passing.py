"""What certainly crosses the borders of a partition that streams.

Where an op leads to one of a partition's and is not in it itself, some step of every path between the two enters the
partition, and hands over as much as the least step of the path at least. That lies in a buffer on the accelerator while
the partition runs; so does what it hands on to an op behind it. Of the partitions that stream weights which are read
between a first op and a last one, one at most holds the first and one the last; and where there are several none holds
both, since they run one after another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.chain import heaviest_path
from hetpart.partitioner.problem import NO_OP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.problem import PlacementProblem

MOST_ENDS = 16
"""Ops at either end of a path that are tried as what leads to all others, or as what they lead to."""
_ENDLESS = 1 << 62
"""More than any step hands on."""
Step = tuple[int, int, int]
"""From an op to another that reads what it makes, with the bytes of that."""


@dataclass(frozen=True, slots=True, eq=False)
class Passing:
    """Of partitions that stream some weights."""

    weights: NDArray[np.bool_]
    """(holders,) Those weights."""
    late: NDArray[np.bool_]
    """(holders,) Weights that are read behind all that those are read for: no partition that streams only such comes
    before one that streams some of those."""
    entering: int
    """Bytes that are handed to such a partition, unless it holds the first op."""
    leaving: int
    """Bytes that it hands on, unless it holds the last op."""
    given: int
    """Bytes that are handed to whichever."""
    returned: int
    """Bytes that whichever hands on."""

    @classmethod
    def of(cls, problem: PlacementProblem) -> Passing:
        """Of a problem of three states."""
        assert problem.stands_for_weight is not None
        readers = _Readers.of(problem)
        steps, given, returned = _steps(problem), _given(problem), _returned(problem)
        path = heaviest_path(problem, readers.nbytes_of_ops).tolist()
        back = [(user, maker, nbytes) for maker, user, nbytes in reversed(steps)]
        _, entering, behind = readers.best(problem.ops, steps, path[:MOST_ENDS])
        last, leaving, before = readers.best(problem.ops, back, path[-MOST_ENDS:])
        found = behind & before
        late = readers.of_weights(_widest(problem.ops, steps, dict.fromkeys(last, _ENDLESS))) > 0
        least = [
            readers.least(found, _widest(problem.ops, way, ends)) for way, ends in ((steps, given), (back, returned))
        ]
        return cls(found, late & ~found, entering, leaving, min(entering, least[0]), min(leaving, least[1]))

    def least(self) -> int:
        """Bytes that cross the borders of each of several."""
        return min(self.given + self.leaving, self.entering + self.returned)

    def together(self, partitions: int) -> int:
        """Bytes that cross the borders of so many, one by one."""
        return (partitions - 1) * (self.entering + self.leaving) + self.given + self.returned


@dataclass(frozen=True, slots=True, eq=False)
class _Readers:
    """Which ops read which weights on the accelerator."""

    weights: NDArray[np.int64]
    ops: NDArray[np.int64]
    nbytes: NDArray[np.int64]
    """(holders,)"""
    nbytes_of_ops: NDArray[np.float64]
    """(N,)"""

    @classmethod
    def of(cls, problem: PlacementProblem) -> _Readers:
        assert problem.stands_for_weight is not None
        values = np.flatnonzero(problem.stands_for_weight)
        place = np.full(problem.values, -1, np.int64)
        place[values] = np.arange(len(values))
        uses = problem.value_uses
        here = (place[uses.rows] >= 0) & ~uses.on_host & problem.legal()[ACCELERATOR, uses.ops]
        weights, ops = place[uses.rows[here]], uses.ops[here].astype(np.int64)
        nbytes = np.zeros(problem.ops, np.int64)
        np.add.at(nbytes, problem.weight_uses.ops, problem.weight_bytes[problem.weight_uses.rows])
        nbytes = nbytes[problem.value_producer[values]]
        return cls(weights, ops, nbytes, np.bincount(ops, nbytes[weights], problem.ops).astype(np.float64))

    def of_weights(self, widths: list[int]) -> NDArray[np.int64]:
        """(holders,) The least width of the ops that read each."""
        found = np.full(len(self.nbytes), _ENDLESS)
        np.minimum.at(found, self.weights, np.array(widths, np.int64)[self.ops])
        return found

    def best(self, ops: int, steps: list[Step], tried: list[int]) -> tuple[list[int], int, NDArray[np.bool_]]:
        """Of ops the one, a width, and the weights whose readers all have it, where both together are most."""
        most, end, width, found = 0, list[int](), 0, np.zeros(len(self.nbytes), np.bool_)
        for op in tried:
            of_weights = self.of_weights(_widest(ops, steps, {op: _ENDLESS}))
            for least in np.unique(of_weights[(of_weights > 0) & (of_weights < _ENDLESS)]).tolist():
                wide = of_weights >= least
                told = least * int(self.nbytes[wide].sum())
                if told > most:
                    most, end, width, found = told, [op], least, wide
        return end, width, found

    def least(self, weights: NDArray[np.bool_], widths: list[int]) -> int:
        return int(self.of_weights(widths)[weights].min(initial=_ENDLESS))


def _widest(ops: int, steps: list[Step], ends: dict[int, int]) -> list[int]:
    """Per op: of all ways to it from ``ends``, with what they hand on, the most that the least step of any hands on."""
    found = [0] * ops
    for op, nbytes in ends.items():
        found[op] = nbytes
    for maker, user, nbytes in steps:
        found[user] = max(found[user], min(found[maker], nbytes))
    return found


def _lying(problem: PlacementProblem) -> NDArray[np.bool_]:
    """(V,) Values that lie in a buffer wherever they are on an accelerator."""
    lying = ~(problem.value_left_on_host | problem.given_there)
    return lying if problem.states is None else lying & (problem.states.keeper == NO_OP)


def _steps(problem: PlacementProblem) -> list[Step]:
    """Sorted by reader, which no op before it reads from."""
    uses = problem.value_uses
    here = ~uses.on_host & (problem.made & _lying(problem))[uses.rows]
    makers, users = problem.value_producer[uses.rows[here]].astype(np.int64), uses.ops[here].astype(np.int64)
    order = np.lexsort((makers, users))
    nbytes = problem.value_bytes[uses.rows[here]]
    return list(zip(makers[order].tolist(), users[order].tolist(), nbytes[order].tolist(), strict=True))


def _given(problem: PlacementProblem) -> dict[int, int]:
    """Op → most bytes of a graph input that it reads."""
    assert problem.stands_for_weight is not None
    uses, found = problem.value_uses, dict[int, int]()
    inputs = (problem.value_producer == NO_OP) & ~problem.stands_for_weight & _lying(problem)
    here = ~uses.on_host & inputs[uses.rows]
    for op, nbytes in zip(uses.ops[here].tolist(), problem.value_bytes[uses.rows[here]].tolist(), strict=True):
        found[op] = max(found.get(op, 0), nbytes)
    return found


def _returned(problem: PlacementProblem) -> dict[int, int]:
    """Op → most bytes of a graph output that it makes."""
    found = dict[int, int]()
    for value in np.flatnonzero(problem.value_returned & problem.made & _lying(problem)).tolist():
        maker = int(problem.value_producer[value])
        found[maker] = max(found.get(maker, 0), int(problem.value_bytes[value]))
    return found
