"""What certainly lies inside some partition: of many ops on one path, few partitions hold three that follow each other.

Then the one in the middle shares its partition with every op between the other two. So does each value that only such
ops make and read: it crosses no border, and the partition holds it inside itself, beside all that lies in buffers.
With n partitions on the accelerator more than 2 n ops of the path there are needed for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.chain import heaviest_path
from hetpart.partitioner.problem import unique_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.problem import PlacementProblem

AMPLE = 3
"""Ops to a partition from which on a level is looked at: some will stay on the host."""
ENDS = 2
"""Ops to a partition that need not have both neighbours beside them."""


@dataclass(frozen=True, slots=True, eq=False)
class Middle:
    """Ops on a path, each of which holds so much inside its partition if its neighbours share it."""

    ops: NDArray[np.int64]
    nbytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Middles:
    """Ops on a path by what they hold."""

    known: tuple[Middle, ...]
    """From those that hold most on; each has more ops than the one before."""

    @classmethod
    def of(cls, problem: PlacementProblem, needs: NDArray[np.int64]) -> Middles:
        """Of the path that needs most.

        Args:
            problem: Whose ops they are.
            needs: (N,) Bytes that every op needs while it runs, some of which may lie in buffers.
        """
        path = heaviest_path(problem, needs.astype(np.float64))
        path = path[problem.legal()[ACCELERATOR, path]]
        held, found = _Held.of(problem, path), list[Middle]()
        for nbytes in np.unique(needs[path])[::-1].tolist():
            near = path[needs[path] >= nbytes] if nbytes else path[:0]
            inside = held.between_neighbours(near)
            middle = Middle(near[inside >= nbytes], nbytes)
            if len(middle.ops) > (len(found[-1].ops) if found else 0):
                found.append(middle)
        return cls(tuple(found))

    def among(self, partitions: int) -> Middle | None:
        """The ops that hold most of those that are many for so many partitions."""
        return next((middle for middle in self.known if len(middle.ops) >= AMPLE * partitions), None)


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    problem: PlacementProblem
    touched: dict[int, list[int]]
    """Per op of a path: the values that it reads or makes."""
    users: list[list[int]]
    """Per value: the ops that make it or read it."""
    before: list[int]
    """Per op: a bit for each op that runs before it in every order."""

    @classmethod
    def of(cls, problem: PlacementProblem, path: NDArray[np.int64]) -> _Held:
        uses, made = problem.value_uses, np.flatnonzero(problem.made)
        values = np.concatenate([uses.rows, made])
        ops = np.concatenate([uses.ops, problem.value_producer[made]]).astype(np.int64)
        values, ops = unique_pairs(values, ops)
        users: list[list[int]] = [list[int]() for _ in range(problem.values)]
        touched: dict[int, list[int]] = {op: [] for op in path.tolist()}
        crossing = problem.value_returned | ~problem.made | problem.value_left_on_host
        inner = (~crossing & (problem.value_bytes > 0)).tolist()
        value_list: list[int] = values.tolist()
        for value, op in zip(value_list, ops.tolist(), strict=True):
            users[value].append(op)
            if inner[value] and op in touched:
                touched[op].append(value)
        return cls(problem, touched, users, _before(problem))

    def between_neighbours(self, path: NDArray[np.int64]) -> NDArray[np.int64]:
        """Per op: bytes that it has inside its partition if both its neighbours on the path are in it."""
        ops: list[int] = path.tolist()
        held = [0] * len(ops)
        for place in range(1, len(ops) - 1):
            first, op, last = ops[place - 1 : place + 2]
            sizes = (
                int(self.problem.value_bytes[value]) for value in self.touched[op] if self._inside(value, first, last)
            )
            held[place] = sum(sizes) + int(self.problem.scratch_bytes[op])
        return np.array(held, np.int64)

    def _inside(self, value: int, first: int, last: int) -> bool:
        """Whether all that make it or read it run between the two, which may be such themselves."""
        return all(
            (op == first or self.before[op] >> first & 1) and (op == last or self.before[last] >> op & 1)
            for op in self.users[value]
        )


def _before(problem: PlacementProblem) -> list[int]:
    uses, before = problem.value_uses, [0] * problem.ops
    made = problem.made[uses.rows]
    users, makers = unique_pairs(
        uses.ops[made].astype(np.int64), problem.value_producer[uses.rows[made]].astype(np.int64)
    )
    for user, maker in zip(users.tolist(), makers.tolist(), strict=True):
        before[user] |= before[maker] | 1 << maker
    return before
