"""Rows of the placements that have so many sessions on the accelerator.

They run one after another, so what runs before the first of them, in it, between it and the second, and so on, are
states that never fall along an edge. What runs apart is in none of them. What a session holds is written down as far as
its own ops tell: what is copied for it or from it, what it returns, what it hands to others, and what is alive inside
it. Without the budget all solutions at corners are whole, so that what is relaxed says nearly all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.bounds.milp import Rows
from hetpart.partitioner.bounds.moments import Moments
from hetpart.partitioner.bounds.program import callers_group
from hetpart.partitioner.bounds.single import edges_of, fullest
from hetpart.partitioner.bounds.whichever import HEAVY, Terms, Whichever
from hetpart.partitioner.problem import NO_OP
from hetpart.partitioner.uses import unique_pairs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hetpart.partitioner.bounds.program import Program
    from hetpart.partitioner.problem import PlacementProblem


def staged(partitions: int) -> Callable[[Program], Moments]:
    """Rows for so many partitions, or fewer, whose sessions are off the budget already."""

    def rows(program: Program) -> Moments:
        return _Builder(program, partitions).build()

    return rows


@dataclass(slots=True, eq=False)
class _Builder:
    program: Program
    partitions: int
    rows: Rows = field(default_factory=Rows)
    extra: int = 0
    begun: list[list[int]] = field(init=False)
    """Per op: the variables that are 1 where it runs in the first partition or later, behind it or later, …"""
    readers: list[list[int]] = field(init=False)
    """Per value: the ops that read it, from wherever."""
    readers_there: list[list[int]] = field(init=False)
    """Per value: the ops that read it on their own device."""

    def build(self) -> Moments:
        program, problem = self.program, self.program.problem
        border, inside = self._new(), self._new()
        self.begun = [[self._new() for _ in range(2 * self.partitions)] for _ in range(problem.ops)]
        self.readers = _readers(problem, np.ones(len(problem.value_uses.ops), np.bool_))
        self.readers_there = _readers(problem, ~problem.value_uses.on_host)
        self._in_order()
        wanted = int(problem.value_bytes[problem.wanted_there & ~problem.given_there].sum())
        if wanted:
            self._holds(border, [(callers_group(program.of_op), wanted)])
        inner = [self._held_by(partition, border, inside) for partition in range(self.partitions)]
        if self.partitions > 1:
            Whichever(self.rows, self._new, self.begun, self._anywhere, inner, border, inside).add(problem)
        whole = program.unit * program.budget
        self.rows.add([(program.variables, -1.0), (border, -whole), (inside, -whole)], -whole)
        stages, caps = tuple(map(tuple, self.begun)), (len(self.rows.least) - 1,)
        return Moments(self.rows, self.extra, caps, tuple(self._whole()), stages)

    def _whole(self) -> Iterator[int]:
        """Of several partitions only the stages of ops that touch much: of others parts say nearly as much."""
        problem, least = self.program.problem, HEAVY * self.program.budget
        touches = np.zeros(problem.ops, np.bool_)
        heavy = problem.copied_bytes >= least
        touches[problem.value_uses.ops[heavy[problem.value_uses.rows]]] = True
        makers = problem.value_producer[heavy]
        touches[makers[makers != NO_OP]] = True
        for op, begun in enumerate(self.begun):
            if self.partitions == 1 or (touches[op] and problem.in_sessions[op]):
                yield from begun

    def _new(self) -> int:
        self.extra += 1
        return self.program.variables + self.extra

    def _there(self, op: int, partition: int) -> Terms:
        """1 where the op is in the partition."""
        return [(self.begun[op][2 * partition], 1.0), (self.begun[op][2 * partition + 1], -1.0)]

    def _anywhere(self, op: int) -> Terms:
        """1 where the op is in any partition."""
        return [term for partition in range(self.partitions) for term in self._there(op, partition)]

    def _in_order(self) -> None:
        group: list[int] = self.program.of_op.tolist()
        in_sessions: list[bool] = self.program.problem.in_sessions.tolist()
        for op, begun in enumerate(self.begun):
            for earlier, later in pairwise(begun):
                self.rows.add([(earlier, 1.0), (later, -1.0)], 0.0)
            anywhere = self._anywhere(op)
            there = [(group[op], 1.0)] if in_sessions[op] else []
            self.rows.add([*anywhere, *_less(there)], 0.0)
            self.rows.add([*_less(anywhere), *there], 0.0)
        for maker, user in edges_of(self.program):
            for before, after in zip(self.begun[maker], self.begun[user], strict=True):
                self.rows.add([(after, 1.0), (before, -1.0)], 0.0)

    def _held_by(self, partition: int, border: int, inside: int) -> dict[int, int]:
        """What may stay inside the partition, as of ``_values``."""
        problem = self.program.problem
        sizes: list[int] = problem.copied_bytes.tolist()
        crossing, inner = self._values(partition)
        self._holds(border, [(variable, sizes[value]) for value, variable in crossing.items()])
        beside: list[int] = problem.beside_bytes.tolist()
        for op, alive in fullest(problem, inner):
            held = [(inner[value], sizes[value]) for value in alive]
            if beside[op] > 0:
                held.append((self._at_least([self._there(op, partition)]), beside[op]))
            else:
                held += [(variable, int(sign) * beside[op]) for variable, sign in self._there(op, partition)]
            self._holds(inside, held)
        return inner

    def _holds(self, most: int, held: list[tuple[int, int]]) -> None:
        """``most``, a share of the budget, is at least what is held."""
        budget = max(1, self.program.budget)
        if held:
            self.rows.add([(most, 1.0), *((variable, -nbytes / budget) for variable, nbytes in held)], 0.0)

    def _values(self, partition: int) -> tuple[dict[int, int], dict[int, int]]:
        """Values → variables that are 1 where they cross the partition's border, and where they stay inside it."""
        problem = self.program.problem
        # What the caller gives there is counted with weights, and so is a state where it lies.
        keeper = np.full(problem.values, NO_OP, np.int32) if problem.states is None else problem.states.keeper
        nothing = np.where(keeper == NO_OP, problem.value_bytes, problem.copied_bytes) == 0
        elsewhere = problem.value_left_on_host | problem.given_there | nothing
        makers: list[int] = problem.value_producer.tolist()
        returned: list[bool] = problem.value_returned.tolist()
        crossing, inner = dict[int, int](), dict[int, int]()
        for value in np.flatnonzero(~elsewhere).tolist():
            maker = makers[value]
            read = [self._there(op, partition) for op in self.readers_there[value]]
            if keeper[value] != NO_OP:
                copied = self._copied(partition, value, int(self.program.of_op[keeper[value]]))
                crossing |= {} if copied is None else {value: copied}
                continue
            if maker == NO_OP:
                if read:
                    crossing[value] = self._at_least(read)
                continue
            made = self._there(maker, partition)
            entering = [[*there, *_less(made)] for there in read]
            if returned[value]:
                crossing[value] = self._at_least([made, *entering])
            else:
                leaving = [[*made, *_less(self._there(op, partition))] for op in self.readers[value]]
                stays = made
                if leaving:
                    crossing[value] = self._at_least([*leaving, *entering])
                    stays = [*made, (crossing[value], -1.0)]
                inner[value] = self._at_least([stays])
                self._whole_inside(inner[value], value, made, read)
        return crossing, inner

    def _whole_inside(self, inner: int, value: int, made: Terms, read: list[Terms]) -> None:
        """A large value that is read only where it is made lies there, and in no buffer where that would be cheaper."""
        large = int(self.program.problem.value_bytes[value]) >= HEAVY * self.program.budget
        if large and self.partitions > 1 and self.readers[value] == self.readers_there[value]:
            self.rows.add([(inner, 1.0), *_less(made), *(term for there in read for term in _less(there))], -len(read))

    def _copied(self, partition: int, value: int, home: int) -> int | None:
        """The variable that is 1 where a copy of a state is there: read in the partition, or before and behind it."""
        called = ~self.program.problem.in_sessions
        readers = [op for op in self.readers_there[value] if self.program.of_op[op] != home and not called[op]]
        if not readers:
            return None
        variable = self._at_least([[*self._there(op, partition), (home, -1.0)] for op in readers])
        if len(readers) > 1:
            so_far = [term for one in range(partition + 1) for term in self._there(readers[0], one)]
            to_come = [term for one in range(partition, self.partitions) for term in self._there(readers[-1], one)]
            self.rows.add([(variable, 1.0), (home, 1.0), *_less(so_far), *_less(to_come)], -1.0)
        return variable

    def _at_least(self, sums: list[Terms]) -> int:
        """A variable no less than any of the sums."""
        variable = self._new()
        for terms in sums:
            self.rows.add([(variable, 1.0), *_less(terms)], 0.0)
        return variable


def _less(terms: Terms) -> Terms:
    return [(variable, -factor) for variable, factor in terms]


def _readers(problem: PlacementProblem, kept: NDArray[np.bool_]) -> list[list[int]]:
    uses = problem.value_uses
    readers: list[list[int]] = [list[int]() for _ in range(problem.values)]
    rows, ops = unique_pairs(uses.rows[kept], uses.ops[kept].astype(np.int64))
    values: list[int] = rows.tolist()
    for value, op in zip(values, ops.tolist(), strict=True):
        readers[value].append(op)
    return readers
