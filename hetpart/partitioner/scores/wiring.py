"""Which groups of ops share which values and weights: what stays fixed while a placement changes move by move."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR, HOST
from hetpart.partitioner.problem import NO_OP, PlacementProblem
from hetpart.partitioner.scores.groups import Groups
from hetpart.partitioner.uses import unique_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

Rows = tuple[tuple[int, ...], ...]

MOST_SHARERS = 24
"""A value or weight that more groups share makes no two of them neighbours."""
NO_GROUP = -1


@dataclass(frozen=True, slots=True, eq=False)
class Wiring:
    """Groups in order of their first op. Plain tuples: a move reads a handful of numbers, not arrays."""

    problem: PlacementProblem
    groups: Groups
    swing: tuple[float, ...]
    """Per group: seconds on the accelerator less seconds on the host."""
    movable: tuple[int, ...]
    """Groups that have a choice."""
    makes: Rows
    """Per group: values made wherever it runs."""
    reads: Rows
    """Per group: values read wherever it runs, those it makes there left out."""
    own_bytes: tuple[int, ...]
    """Per group: what it alone holds on the accelerator: weights no other group reads, and pressure."""
    shared: Rows
    """Per group: weights that other groups read too."""
    neighbours: Rows
    """Per group: movable groups whose worth may change when it moves."""
    maker: tuple[int, ...]
    """Per value: its group; ``NO_GROUP`` for a value that is made on one device whatever the placement."""
    given_there: tuple[bool, ...]
    """Per value: the caller gives it on the accelerator."""
    read_on_host: tuple[bool, ...]
    """Per value: the caller or a host operand reads it there whatever the placement."""
    wanted_there: tuple[bool, ...]
    """Per value: the caller wants it on the accelerator."""
    down: tuple[float, ...]
    up: tuple[float, ...]

    @classmethod
    def of(cls, problem: PlacementProblem) -> Wiring:
        groups = Groups.of(problem)
        maker = np.full(problem.values, NO_GROUP, np.int64)
        by = problem.placed_by
        free = by != NO_OP
        maker[free] = groups.of_op[by[free]]
        pairs = _reader_pairs(problem, groups.of_op, maker)
        swing = np.bincount(groups.of_op, _swing(problem), len(groups))
        made = np.flatnonzero(free)
        down, up = problem.copy_seconds[ACCELERATOR, HOST], problem.copy_seconds[HOST, ACCELERATOR]
        return cls(
            problem,
            groups,
            tuple(swing.tolist()),
            tuple(np.flatnonzero(groups.may_accelerate & ~groups.must_accelerate).tolist()),
            rows_of(np.stack([maker[made], made], axis=1), len(groups)),
            rows_of(pairs[:, ::-1], len(groups)),
            *_weights(groups),
            _neighbours(groups, maker, pairs),
            tuple(maker.tolist()),
            tuple(problem.given_there.tolist()),
            tuple(_read_on_host(problem).tolist()),
            tuple(problem.wanted_there.tolist()),
            tuple(down.tolist()),
            tuple(up.tolist()),
        )

    def seen(self, view: PlacementProblem, pressure_bytes: NDArray[np.int64]) -> Wiring:
        """The same groups with ``view``'s copies, weights and budgets, and (N,) bytes more that go with each op.

        Where ``view`` shuts an op out its seconds stay: a placement that must give it up still has a cost.
        """
        more = self.groups.sums(pressure_bytes)
        return replace(
            self,
            problem=replace(view, seconds=self.problem.seconds),
            own_bytes=tuple(own + pressure for own, pressure in zip(self.own_bytes, more, strict=True)),
            down=tuple(view.copy_seconds[ACCELERATOR, HOST].tolist()),
            up=tuple(view.copy_seconds[HOST, ACCELERATOR].tolist()),
        )


def _weights(groups: Groups) -> tuple[tuple[int, ...], Rows]:
    """Bytes of the weights each group reads alone, and the weights it shares."""
    shared = np.bincount(groups.weights.weights, minlength=len(groups.weight_bytes)) > 1
    own: list[int] = groups.weights.sums(np.where(shared, 0, groups.weight_bytes)).tolist()
    many: list[bool] = shared.tolist()
    return tuple(own), tuple(tuple(weight for weight in held if many[weight]) for held in groups.weights)


def rows_of(pairs: NDArray[np.int64], rows: int) -> Rows:
    """The second entries of ``pairs`` per first entry, in ascending order."""
    of_row, entry = unique_pairs(pairs[:, 0], pairs[:, 1])
    ends: list[int] = np.searchsorted(of_row, np.arange(rows + 1)).tolist()
    entries: list[int] = entry.tolist()
    return tuple(tuple(entries[start:end]) for start, end in pairwise(ends))


def _swing(problem: PlacementProblem) -> NDArray[np.float64]:
    """(N,) 0 where an op has no choice."""
    choice = np.isfinite(problem.seconds).all(axis=0)
    return np.where(choice, problem.seconds[ACCELERATOR], 0.0) - np.where(choice, problem.seconds[HOST], 0.0)


def _reader_pairs(problem: PlacementProblem, of_op: NDArray[np.int64], maker: NDArray[np.int64]) -> NDArray[np.int64]:
    """(value, group) for every group that reads a value where it runs, and does not make it there."""
    uses = problem.value_uses
    rows, readers = uses.rows[~uses.on_host], of_op[uses.ops[~uses.on_host]]
    others = readers != maker[rows]
    return np.stack(unique_pairs(rows[others], readers[others]), axis=1)


def _read_on_host(problem: PlacementProblem) -> NDArray[np.bool_]:
    fixed = problem.wanted_on_host
    fixed[problem.value_uses.rows[problem.value_uses.on_host]] = True
    return fixed


def _neighbours(groups: Groups, maker: NDArray[np.int64], pairs: NDArray[np.int64]) -> Rows:
    made = np.flatnonzero(maker != NO_GROUP)
    members = np.concatenate([pairs, np.stack([made, maker[made]], axis=1)])
    by_value = rows_of(members, len(maker))
    by_weight = rows_of(
        np.array([(w, g) for g, held in enumerate(groups.weights) for w in held], np.int64).reshape(-1, 2),
        len(groups.weight_bytes),
    )
    found: list[set[int]] = [set() for _ in range(len(groups))]
    for sharers in (*by_value, *by_weight):
        if 1 < len(sharers) <= MOST_SHARERS:
            for group in sharers:
                found[group].update(sharers)
    movable = set(np.flatnonzero(groups.may_accelerate & ~groups.must_accelerate).tolist())
    return tuple(tuple(sorted((near & movable) - {group})) for group, near in enumerate(found))
