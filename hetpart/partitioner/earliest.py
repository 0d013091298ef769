"""List scheduling: every op where it would finish earliest, two lanes side by side, as long as its weights fit.

The rule of HEFT and of m-ETF in Baechi, ops in the order the problem has them. A group goes where its first op goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import HOST
from hetpart.partitioner.baselines import Groups
from hetpart.partitioner.mincut import ACCELERATOR
from hetpart.partitioner.problem import NO_BUDGET, NO_OP

if TYPE_CHECKING:
    from hetpart.partitioner.problem import Placement, PlacementProblem, Uses

BOTH = (HOST, ACCELERATOR)


def earliest_finish(problem: PlacementProblem) -> Placement:
    """Every group where its first op would finish earliest, of the devices that it may and that have room."""
    return _Schedule(problem).run()


class _Schedule:
    __slots__ = ("_charged", "_copies", "_free", "_groups", "_made", "_problem", "_reads", "_room", "_side", "_there")

    def __init__(self, problem: PlacementProblem) -> None:
        self._problem = problem
        self._groups = Groups.of(problem)
        budget = int(problem.budgets[ACCELERATOR])
        self._room = float("inf") if budget == NO_BUDGET else float(budget)
        self._charged: set[int] = set()
        self._free = [0.0, 0.0]
        """When each device is done with what it was given."""
        graph_inputs = [0.0, float("inf")]
        self._there = [list(graph_inputs) for _ in range(problem.values)]
        """Per value and device: when it is there, once it is made."""
        self._copies: list[list[float]] = [
            problem.copy_seconds[ACCELERATOR, HOST].tolist(),
            problem.copy_seconds[HOST, ACCELERATOR].tolist(),
        ]
        """Per target and value."""
        self._reads = _per_op(problem.value_uses, problem.ops)
        self._made = _made_by(problem)
        self._side: list[int] = []

    def run(self) -> Placement:
        groups, problem = self._groups, self._problem
        may: list[bool] = groups.may_accelerate.tolist()
        must: list[bool] = groups.must_accelerate.tolist()
        self._side = [ACCELERATOR if forced else HOST for forced in must]
        for group in np.flatnonzero(groups.must_accelerate).tolist():
            self._charge(group)
        decided = [forced or not allowed for forced, allowed in zip(must, may, strict=True)]
        of_op: list[int] = groups.of_op.tolist()
        seconds: list[list[float]] = problem.seconds.tolist()
        for op, group in enumerate(of_op):
            if not decided[group]:
                decided[group] = True
                self._decide(op, group, seconds)
            self._place(op, self._side[group], seconds)
        return groups.place(np.flatnonzero(np.array(self._side, np.int64) == ACCELERATOR).tolist())

    def _decide(self, op: int, group: int, seconds: list[list[float]]) -> None:
        finish = [self._start(op, device) + seconds[device][op] for device in BOTH]
        if finish[ACCELERATOR] < finish[HOST] and self._needs(group) <= self._room:
            self._side[group] = ACCELERATOR
            self._charge(group)

    def _needs(self, group: int) -> int:
        return sum(int(self._problem.weight_bytes[weight]) for weight in self._fresh(group))

    def _fresh(self, group: int) -> list[int]:
        return [weight for weight in self._groups.weights[group] if weight not in self._charged]

    def _charge(self, group: int) -> None:
        self._room -= self._needs(group)
        self._charged.update(self._fresh(group))

    def _start(self, op: int, device: int) -> float:
        """When ``op`` could begin on ``device``."""
        begin = self._free[device]
        for value, on_host in self._reads[op]:
            begin = max(begin, self._arrival(value, HOST if on_host else device))
        return begin

    def _arrival(self, value: int, device: int) -> float:
        there = self._there[value]
        return min(there[device], there[1 - device] + self._copies[device][value])

    def _place(self, op: int, device: int, seconds: list[list[float]]) -> None:
        begin = self._start(op, device)
        for value, on_host in self._reads[op]:
            target = HOST if on_host else device
            self._there[value][target] = self._arrival(value, target)
        self._free[device] = finish = begin + seconds[device][op]
        for value, left_on_host in self._made[op]:
            home = HOST if left_on_host else device
            self._there[value] = [float("inf"), float("inf")]
            self._there[value][home] = finish


def _per_op(uses: Uses, ops: int) -> list[list[tuple[int, bool]]]:
    """(value, read from host memory) of every use, per op."""
    found: list[list[tuple[int, bool]]] = [list[tuple[int, bool]]() for _ in range(ops)]
    rows: list[int] = uses.rows.tolist()
    readers: list[int] = uses.ops.tolist()
    on_host: list[bool] = uses.on_host.tolist()
    for value, op, host in zip(rows, readers, on_host, strict=True):
        found[op].append((value, host))
    return found


def _made_by(problem: PlacementProblem) -> list[list[tuple[int, bool]]]:
    """(value, left in host memory) of every value an op makes, per op."""
    found: list[list[tuple[int, bool]]] = [list[tuple[int, bool]]() for _ in range(problem.ops)]
    makers: list[int] = problem.value_producer.tolist()
    left: list[bool] = problem.value_left_on_host.tolist()
    for value, (maker, on_host) in enumerate(zip(makers, left, strict=True)):
        if maker != NO_OP:
            found[maker].append((value, on_host))
    return found
