"""A problem's ops in the order they have, with what every one of them reads, makes and comes behind.

An op that leads to all later ones, and that all earlier ones lead to, is a waist: whatever the placement, what comes
before it is done when it runs. Two waists share a partition where they and all ops between them are on the accelerator,
and nowhere else, for the path with most changes of device runs through both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR, HOST
from hetpart.partitioner.bounds.certain import Sweep
from hetpart.partitioner.uses import unique_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.problem import PlacementProblem


Reads = dict[int, tuple[bool, bool]]
"""The values that an op reads, and whether on its own device, and from host memory."""


@dataclass(frozen=True, slots=True)
class Value:
    """One that ops read or make."""

    maker: int
    """Op, or ``NO_OP``."""
    nbytes: int
    """0 where it may be on the host although both ends are on the accelerator."""
    on_host: bool
    """Whether it lies on the host whatever the placement."""
    copied: bool
    """Whether the host needs it whatever the placement."""
    up: float
    """Seconds of a copy to the accelerator."""
    down: float
    readers: tuple[int, ...]
    """Ops that read it on their own device."""
    last: int
    """The last op that reads it from wherever; -1 where none does."""
    chained: bool
    """Whether all ops from its maker to that one are linked."""

    @property
    def last_there(self) -> int:
        return self.readers[-1] if self.readers else -1


@dataclass(frozen=True, slots=True, eq=False)
class InOrder:
    """Ops and values by number."""

    problem: PlacementProblem
    values: tuple[Value, ...]
    made: list[list[int]]
    """Per op: its values."""
    read: list[Reads]
    before: list[int]
    """Per op: a bit for each op that leads to it."""
    waist: list[bool]
    linked: list[bool]
    """Per op: whether it shares a partition with the one before where both are on the accelerator: along edges, if all
    that leads to it leads to that one, or is it; against them, if all that follows that one follows it, or is it."""
    group: list[int]
    first: list[int]
    """Per group: its first op."""
    last: list[int]
    weights: list[float]
    """Per group: bytes of its weights, of shared ones an equal part."""
    sides: list[tuple[int, ...]]
    """Per op: devices on which it may run."""
    reordered: list[frozenset[int]]
    """Per op: values that are inside its session while it runs, wherever else they lie."""
    beside: list[int]
    """Per op: bytes of those and of its scratch."""

    @classmethod
    def of(cls, problem: PlacementProblem, sweep: Sweep = Sweep.EITHER) -> InOrder:
        """The ops of a problem in which every op runs in a session and nothing is kept from run to run.

        Args:
            problem: Whose ops they are.
            sweep: By which partitions are numbered.
        """
        names, of_op = np.unique(problem.groups, return_inverse=True)
        made: list[list[int]] = [[] for _ in range(problem.ops)]
        read: list[Reads] = [{} for _ in range(problem.ops)]
        for value in np.flatnonzero(problem.made).tolist():
            made[int(problem.value_producer[value])].append(value)
        uses = problem.value_uses
        rows: list[int] = uses.rows.tolist()
        users: list[int] = uses.ops.tolist()
        for value, op, host in zip(rows, users, uses.on_host.tolist(), strict=True):
            there, here = read[op].get(value, (False, False))
            read[op][value] = (there or not host, here or host)
        before, legal, group = _before(problem, read), problem.legal(), of_op.tolist()
        linked = _linked(problem, read, before, sweep)
        values = _values(problem, read, linked)
        last = [0] * len(names)
        for op, one in enumerate(group):
            last[one] = op
        sides = [tuple(side for side in (HOST, ACCELERATOR) if legal[side, op]) for op in range(problem.ops)]
        first = np.unique(of_op, return_index=True)[1].tolist()
        weights = _shares(problem, of_op, len(names)).tolist()
        reordered = problem.reordered
        return cls(
            problem, values, made, read, before, _waists(before), linked, group, first, last, weights, sides,
            reordered, problem.beside_bytes.tolist(),
        )  # fmt: skip

    def inner(self, op: int, value: int) -> int:
        """Bytes of a value that stays inside a session, as far as they are not counted ``beside`` the op already."""
        return 0 if value in self.reordered[op] else self.values[value].nbytes

    def leads(self, earlier: int, later: int) -> bool:
        """Whether one op must run before another."""
        return bool(self.before[later] >> earlier & 1)

    def opens(self, op: int) -> bool:
        """Whether it is a waist, and what comes behind it is none."""
        return self.waist[op] and op + 1 < len(self.waist) and not self.waist[op + 1]


def _values(problem: PlacementProblem, read: list[Reads], linked: list[bool]) -> tuple[Value, ...]:
    readers: list[list[int]] = [[] for _ in range(problem.values)]
    last, from_host = [-1] * problem.values, [False] * problem.values
    for op, found in enumerate(read):
        for value, (there, here) in found.items():
            last[value] = op
            from_host[value] |= here
            if there:
                readers[value].append(op)
    left, copied = problem.value_left_on_host, problem.value_returned | np.array(from_host, np.bool_)
    nbytes: list[int] = np.where(left | np.array(from_host, np.bool_), 0, problem.value_bytes).tolist()
    on_host: list[bool] = (left | ~problem.made).tolist()
    needed: list[bool] = copied.tolist()
    makers: list[int] = problem.value_producer.tolist()
    up: list[float] = problem.copy_seconds[HOST, ACCELERATOR].tolist()
    down: list[float] = problem.copy_seconds[ACCELERATOR, HOST].tolist()
    broken: list[int] = np.cumsum(~np.array(linked, np.bool_)).tolist()
    return tuple(
        Value(
            makers[value],
            nbytes[value],
            on_host[value],
            needed[value],
            up[value],
            down[value],
            tuple(readers[value]),
            last[value],
            makers[value] >= 0 and broken[makers[value]] == broken[last[value]],
        )
        for value in range(problem.values)
    )


def _before(problem: PlacementProblem, read: list[Reads]) -> list[int]:
    before = [0] * len(read)
    makers: list[int] = problem.value_producer.tolist()
    for op, found in enumerate(read):
        for value in found:
            maker = makers[value]
            if maker >= 0:
                before[op] |= before[maker] | 1 << maker
    return before


def _waists(before: list[int]) -> list[bool]:
    """An op that all earlier ones lead to, and that leads to all later ones."""
    ops = len(before)
    common = -1
    waist = [False] * ops
    for op in reversed(range(ops)):
        waist[op] = before[op] == (1 << op) - 1 and bool(common >> op & 1)
        common &= before[op] | -1 << op
    return waist


def _linked(problem: PlacementProblem, read: list[Reads], before: list[int], sweep: Sweep) -> list[bool]:
    behind, makers = [0] * len(before), list[int](problem.value_producer.tolist())
    for op in reversed(range(len(before))):
        for value in read[op]:
            if makers[value] >= 0:
                behind[makers[value]] |= behind[op] | 1 << op
    linked = [False] * len(before)
    for op in range(1, len(before)):
        along = before[op] == before[op - 1] | 1 << op - 1
        against = behind[op - 1] == behind[op] | 1 << op
        linked[op] = {Sweep.ALONG: along, Sweep.AGAINST: against}.get(sweep, along and against)
    return linked


def _shares(problem: PlacementProblem, of_op: NDArray[np.int64], groups: int) -> NDArray[np.float64]:
    uses = problem.weight_uses
    here = ~uses.on_host
    weights, readers = unique_pairs(uses.rows[here], of_op[uses.ops[here]].astype(np.int64))
    users = np.bincount(weights, minlength=len(problem.weight_bytes))
    return np.bincount(readers, problem.weight_bytes[weights] / users[weights], groups).astype(np.float64)
