"""The placement problem as a linear program with a 0–1 variable per group of ops.

A variable is 1 for a group on the accelerator. Every copy, and every weight that several groups share, has a variable
of its own that is at least ``near − far`` for pairs of groups: paid once however many pairs ask for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR, HOST
from hetpart.partitioner.bounds.milp import LinearProgram, Rows
from hetpart.partitioner.problem import NO_OP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.uses import Uses

NOBODY = -1
"""Stands for the host where a group would. For the accelerator, where the caller keeps values there, stands a group
without ops behind all others, which is always there and holds what the caller gives."""
BYTES = 1e3
"""What the budget is in the program's own unit of bytes: HiGHS's tolerances are absolute."""


@dataclass(frozen=True, slots=True)
class Cover:
    """One variable that is at least ``x[near] − x[far]`` for every pair of groups; ``far`` may be nobody."""

    variable: int
    near: tuple[int, ...]
    far: tuple[int, ...]
    seconds: float
    nbytes: int

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return [(near, far) for near in self.near for far in self.far]


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Costs, bytes and covers of a problem, moments left out."""

    problem: PlacementProblem
    of_op: NDArray[np.int64]
    """(N,) Group of every op."""
    constant: float
    seconds: NDArray[np.float64]
    """(G,) What a group on the accelerator adds to the cost."""
    nbytes: NDArray[np.int64]
    """(G,) Bytes of the weights that it alone reads."""
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    covers: tuple[Cover, ...]
    down: dict[int, int]
    """Value → the variable that is 1 where it is made on the accelerator and copied to the host for some op."""
    up: dict[int, int]
    """Value → the variable that is 1 where it is made on the host and copied to the accelerator."""

    @classmethod
    def of(cls, problem: PlacementProblem) -> Program:
        return _Builder(problem).build()

    @property
    def groups(self) -> int:
        return len(self.seconds)

    @property
    def variables(self) -> int:
        """Of groups and covers; the next one is free."""
        return self.groups + len(self.covers)

    @property
    def budget(self) -> int:
        return int(self.problem.budgets[ACCELERATOR])

    @property
    def unit(self) -> float:
        """What a byte is in the program."""
        return BYTES / max(1, self.budget)

    def placement(self, solution: NDArray[np.float64]) -> Placement:
        """The device of every op."""
        return (solution[: self.groups] > 0.5)[self.of_op].astype(np.int8)

    @property
    def weights(self) -> list[tuple[int, int]]:
        """Variables that hold weights on the accelerator, each with their bytes."""
        alone: list[tuple[int, int]] = [(at, int(self.nbytes[at])) for at in np.flatnonzero(self.nbytes).tolist()]
        return alone + [(cover.variable, cover.nbytes) for cover in self.covers if cover.nbytes]

    def weighs(self, solution: NDArray[np.float64]) -> int:
        """Bytes of weights that the accelerator holds in ``solution``, exactly."""
        there = solution > 0.5
        shared = (cover.nbytes for cover in self.covers if cover.nbytes and there[[*cover.near]].any())
        return int(self.nbytes[there[: self.groups]].sum()) + sum(shared)

    def linear(
        self,
        more: Rows,
        extra: int,
        sides: NDArray[np.int8] | None,
        budget: int,
        whole: tuple[int, ...] = (),
    ) -> LinearProgram:
        """The whole program.

        Args:
            more: Rows on the variables of groups and covers, one for the bytes of weights, and ``extra`` after it.
            extra: Variables of those rows alone.
            sides: (G,) Device of the groups that are proven to stand there, else ``NOBODY``.
            budget: Bytes of weights.
            whole: Variables of those rows that are 0 or 1.
        """
        rows = more.copy()
        for cover in self.covers:
            for near, far in cover.pairs:
                rows.add([(cover.variable, 1.0), (near, -1.0), *([(far, 1.0)] if far != NOBODY else [])], 0.0)
        unit = self.unit
        rows.add([(self.variables, 1.0), *((at, -unit * nbytes) for at, nbytes in self.weights)], 0.0)
        lower, upper = self.lower.copy(), self.upper.copy()
        if sides is not None:
            lower[sides == ACCELERATOR], upper[sides == HOST] = 1.0, 0.0
        others = len(self.covers) + 1 + extra
        upper = np.concatenate([upper, np.ones(others)])
        upper[self.variables] = max(0.0, budget * unit)
        integral = np.arange(self.groups + others) < self.groups
        integral[list(whole)] = True
        return LinearProgram(
            self.constant,
            np.concatenate([self.seconds, [cover.seconds for cover in self.covers], np.zeros(1 + extra)]),
            np.concatenate([lower, np.zeros(others)]),
            upper,
            integral,
            rows,
        )


@dataclass(slots=True, eq=False)
class _Builder:
    problem: PlacementProblem
    of_op: NDArray[np.int64] = field(init=False)
    seconds: NDArray[np.float64] = field(init=False)
    nbytes: NDArray[np.int64] = field(init=False)
    known: dict[tuple[tuple[int, ...], tuple[int, ...], bool], int] = field(init=False)
    """Pairs of a cover → its place."""
    figures: list[tuple[float, int]] = field(init=False)
    """(seconds, bytes) of every cover."""
    down: dict[int, int] = field(init=False)
    up: dict[int, int] = field(init=False)

    def build(self) -> Program:
        problem = self.problem
        names, self.of_op = np.unique(problem.groups, return_inverse=True)
        legal = problem.legal()
        lower, upper = np.zeros(len(names)), np.ones(len(names))
        lower[self.of_op[~legal[HOST]]] = 1.0
        upper[self.of_op[~legal[ACCELERATOR]]] = 0.0
        # Where a device is shut nothing is ever paid on it.
        finite = np.where(np.isfinite(problem.seconds), problem.seconds, 0.0)
        self.seconds = np.bincount(self.of_op, finite[ACCELERATOR] - finite[HOST], len(names)).astype(np.float64)
        self.nbytes = np.zeros(len(names), np.int64)
        if self._keeps:
            # The caller's own group.
            lower, upper = np.append(lower, 1.0), np.append(upper, 1.0)
            self.seconds, self.nbytes = np.append(self.seconds, 0.0), np.append(self.nbytes, problem.given_bytes)
        groups = len(lower)
        self.known, self.figures, self.down, self.up = {}, [], {}, {}
        self._values()
        self._weights()
        covers = tuple(
            Cover(groups + place, near, far, seconds, nbytes)
            for ((near, far, _), place), (seconds, nbytes) in zip(self.known.items(), self.figures, strict=True)
        )
        constant = float(finite[HOST].sum())
        down = {value: groups + place for value, place in self.down.items()}
        up = {value: groups + place for value, place in self.up.items()}
        return Program(problem, self.of_op, constant, self.seconds, self.nbytes, lower, upper, covers, down, up)

    @property
    def _keeps(self) -> bool:
        return bool(self.problem.given_there.any() or self.problem.wanted_there.any())

    def _values(self) -> None:
        problem = self.problem
        down, up = problem.copy_seconds[ACCELERATOR, HOST].tolist(), problem.copy_seconds[HOST, ACCELERATOR].tolist()
        on_host, wanted = problem.wanted_on_host, problem.wanted_there.tolist()
        on_host[problem.value_uses.rows[problem.value_uses.on_host]] = True
        homes, callers = home_groups(problem, self.of_op).tolist(), callers_group(self.of_op)
        for value, users in enumerate(user_groups(problem.value_uses, self.of_op)):
            home = homes[value]
            away = tuple(user for user in users if user != home)
            if home != NOBODY and on_host[value]:
                self.seconds[home] += down[value]
            elif home != NOBODY and away:
                self.down[value] = self._cover((home,), away, down[value], 0)
            if wanted[value]:
                away = (callers,)  # whoever else reads it there finds it there
            if away and home != callers:
                self._up(value, home, away, up[value])

    def _up(self, value: int, home: int, users: tuple[int, ...], seconds: float) -> None:
        if home == NOBODY and len(users) == 1:
            self.seconds[users[0]] += seconds
        else:
            self.up[value] = self._cover(users, (home,), seconds, 0)

    def _weights(self) -> None:
        sizes: list[int] = self.problem.weight_bytes.tolist()
        for size, users in zip(sizes, user_groups(self.problem.weight_uses, self.of_op), strict=True):
            if len(users) == 1:
                self.nbytes[users[0]] += size
            elif users and size:
                self._cover(users, (NOBODY,), 0.0, size)

    def _cover(self, near: tuple[int, ...], far: tuple[int, ...], seconds: float, nbytes: int) -> int:
        """Covers of the same pairs are one."""
        place = self.known.setdefault((near, far, nbytes > 0), len(self.known))
        if place == len(self.figures):
            self.figures.append((0.0, 0))
        before = self.figures[place]
        self.figures[place] = (before[0] + seconds, before[1] + nbytes)
        return place


def home_groups(problem: PlacementProblem, of_op: NDArray[np.int64]) -> NDArray[np.int64]:
    """(V,) The group whose device a value is made on; nobody where that is the host whatever the placement."""
    home = np.full(problem.values, NOBODY, np.int64)
    home[problem.given_there] = callers_group(of_op)
    by = problem.placed_by
    home[by != NO_OP] = of_op[by[by != NO_OP]]
    return home


def callers_group(of_op: NDArray[np.int64]) -> int:
    """The group that stands for the caller on the accelerator, where it keeps values there."""
    return int(of_op.max(initial=-1)) + 1


def user_groups(uses: Uses, of_op: NDArray[np.int64]) -> list[tuple[int, ...]]:
    """Per hyperedge: the groups that use it on their own device, each once, in ascending order."""
    here = ~uses.on_host
    pairs = np.unique(np.stack([uses.rows[here], of_op[uses.ops[here]]], axis=1), axis=0)
    ends: list[int] = np.searchsorted(pairs[:, 0], np.arange(len(uses.offsets))).tolist()
    groups: list[int] = pairs[:, 1].tolist()
    return [tuple(groups[start:end]) for start, end in pairwise(ends)]
