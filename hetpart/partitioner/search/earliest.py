"""List scheduling: every op where it would finish earliest, two lanes side by side, as long as its weights fit.

The rule of HEFT and of m-ETF in Baechi, ops in the order the problem has them. A group goes where its first op goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR, HOST
from hetpart.partitioner.problem import NO_BUDGET, NO_OP
from hetpart.partitioner.scores.groups import Groups

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Placement, PlacementProblem

NEVER = float("inf")


def earliest_finish(problem: PlacementProblem) -> Placement:
    """Every group where its first op would finish earliest, of the devices that it may and that have room."""
    return _Schedule(problem).run()


class _Schedule:
    """Plain lists and few calls: a rule must be no burden where ops are a million."""

    __slots__ = (
        "_at_accelerator",
        "_at_host",
        "_down",
        "_free",
        "_made",
        "_reads",
        "_room",
        "_seconds",
        "_side",
        "_up",
    )

    def __init__(self, problem: PlacementProblem) -> None:
        self._room = _Room(problem)
        self._free = [0.0, 0.0]
        """When each device is done with what it was given."""
        there: list[bool] = problem.given_there.tolist()
        self._at_host = [NEVER if given else 0.0 for given in there]
        """When each value is in host memory, once it is made. Graph inputs are from the start."""
        stays = (problem.placed_by != NO_OP) & (problem.value_producer == NO_OP)
        self._at_accelerator = [0.0 if given else NEVER for given in (problem.given_there | stays).tolist()]
        self._down: list[float] = problem.copy_seconds[ACCELERATOR, HOST].tolist()
        self._up: list[float] = problem.copy_seconds[HOST, ACCELERATOR].tolist()
        self._seconds: list[list[float]] = problem.seconds.tolist()
        uses, made = problem.value_uses, np.flatnonzero(problem.value_producer != NO_OP)
        self._reads = _Operands(uses.ops, uses.rows, uses.on_host, problem.ops)
        self._made = _Operands(problem.value_producer[made], made, problem.value_left_on_host[made], problem.ops)
        self._side: list[int] = []

    def run(self) -> Placement:
        groups = self._room.groups
        may: list[bool] = groups.may_accelerate.tolist()
        must: list[bool] = groups.must_accelerate.tolist()
        self._side = [ACCELERATOR if forced else HOST for forced in must]
        decided = [forced or not allowed for forced, allowed in zip(must, may, strict=True)]
        of_op: list[int] = groups.of_op.tolist()
        for op, group in enumerate(of_op):
            starts = self._starts(op)
            if not decided[group]:
                decided[group] = True
                finish = [start + seconds[op] for start, seconds in zip(starts, self._seconds, strict=True)]
                if finish[ACCELERATOR] < finish[HOST] and self._room.take(group):
                    self._side[group] = ACCELERATOR
            self._place(op, self._side[group], starts[self._side[group]])
        return groups.place(np.flatnonzero(np.array(self._side, np.int64) == ACCELERATOR).tolist())

    def _starts(self, op: int) -> tuple[float, float]:
        """When ``op`` could begin on the host, and when on the accelerator."""
        host, accelerator = self._free
        for value, on_host in self._reads.of(op):
            here, there = self._at_host[value], self._at_accelerator[value]
            copied_down, copied_up = there + self._down[value], here + self._up[value]
            at_host = min(here, copied_down)
            at_accelerator = at_host if on_host else min(there, copied_up)
            if at_host > host:
                host = at_host
            if at_accelerator > accelerator:
                accelerator = at_accelerator
        return host, accelerator

    def _place(self, op: int, device: int, begin: float) -> None:
        for value, on_host in self._reads.of(op):
            here, there = self._at_host[value], self._at_accelerator[value]
            if device == HOST or on_host:
                self._at_host[value] = min(here, there + self._down[value])
            else:
                self._at_accelerator[value] = min(there, here + self._up[value])
        self._free[device] = finish = begin + self._seconds[device][op]
        for value, left_on_host in self._made.of(op):
            at_host = device == HOST or left_on_host
            self._at_host[value] = finish if at_host else NEVER
            self._at_accelerator[value] = NEVER if at_host else finish


class _Room:
    """What the accelerator has left for weights, each of which is charged once."""

    __slots__ = ("_charged", "_left", "_sizes", "_weights", "groups")

    def __init__(self, problem: PlacementProblem) -> None:
        self.groups = Groups.of(problem)
        budget = int(problem.budgets[ACCELERATOR])
        self._left = float("inf") if budget == NO_BUDGET else float(budget)
        self._weights = list(self.groups.weights)
        self._sizes: list[int] = problem.weight_bytes.tolist()
        self._charged: set[int] = set()
        for group in np.flatnonzero(self.groups.must_accelerate).tolist():
            self._charge([weight for weight in self._weights[group] if weight not in self._charged])

    def take(self, group: int) -> bool:
        """Charge the weights of ``group`` if there is room."""
        fresh = [weight for weight in self._weights[group] if weight not in self._charged]
        if sum([self._sizes[weight] for weight in fresh]) > self._left:
            return False
        self._charge(fresh)
        return True

    def _charge(self, weights: list[int]) -> None:
        self._left -= sum([self._sizes[weight] for weight in weights])
        self._charged.update(weights)


class _Operands:
    """The values of every op, and whether each lies in host memory whatever the op's device."""

    __slots__ = ("_ends", "_host", "_values")

    def __init__(
        self, ops: NDArray[np.int32], values: NDArray[np.int64], on_host: NDArray[np.bool_], count: int
    ) -> None:
        order = np.argsort(ops, kind="stable")
        self._ends: list[int] = np.searchsorted(ops[order], np.arange(count + 1)).tolist()
        self._values: list[int] = values[order].tolist()
        self._host: list[bool] = on_host[order].tolist()

    def of(self, op: int) -> Iterable[tuple[int, bool]]:
        first, last = self._ends[op], self._ends[op + 1]
        return zip(self._values[first:last], self._host[first:last], strict=True)
