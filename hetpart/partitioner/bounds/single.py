"""Rows of the placements that have one partition on the accelerator, where what it holds can be written down.

Then no path leaves the accelerator and comes back, and all that crosses its border is held at once: what is copied in,
what is copied out, what is returned. Every other value made there is inside, alive from its maker to its last reader in
the order of the ops. So the rows are no relaxation: whole solutions keep to the budget as the problem counts it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.bounds.milp import Rows
from hetpart.partitioner.bounds.moments import Moments
from hetpart.partitioner.bounds.program import callers_group, home_groups, user_groups
from hetpart.partitioner.problem import NO_OP
from hetpart.partitioner.uses import unique_pairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hetpart.partitioner.bounds.program import Program
    from hetpart.partitioner.problem import PlacementProblem


def single(program: Program) -> Moments:
    """The rows of ``program``. What a session holds is off its budget already."""
    return _Builder(program).build()


@dataclass(slots=True, eq=False)
class _Builder:
    program: Program
    rows: Rows = field(default_factory=Rows)
    extra: int = 0
    group: list[int] = field(init=False)
    sizes: list[int] = field(init=False)
    inner: dict[int, int] = field(default_factory=dict[int, int])
    """Value → the variable that is 1 where it is made on the accelerator and stays inside."""

    def build(self) -> Moments:
        program = self.program
        self.group = program.of_op.tolist()
        self.sizes = program.problem.value_bytes.tolist()
        border, inside = self._new(), self._new()
        begun = self._in_one_piece()
        self._holds(border, [(variable, self.sizes[value]) for value, variable in self._crossing().items()])
        self._handed_over(border)
        beside: list[int] = program.problem.beside_bytes.tolist()
        for op, alive in fullest(program.problem, self.inner):
            held = [(self.inner[value], self.sizes[value]) for value in alive]
            self._holds(inside, [*held, *([(self.group[op], beside[op])] if beside[op] else [])])
        whole = program.unit * program.budget
        self.rows.add([(program.variables, -1.0), (border, -whole), (inside, -whole)], -whole)
        return Moments(self.rows, self.extra, (len(self.rows.least) - 1,), begun)

    def _new(self) -> int:
        self.extra += 1
        return self.program.variables + self.extra

    def _holds(self, most: int, held: list[tuple[int, int]]) -> None:
        """``most``, a share of the budget, is at least what is held."""
        budget = max(1, self.program.budget)
        if held:
            self.rows.add([(most, 1.0), *((variable, -nbytes / budget) for variable, nbytes in held)], 0.0)

    def _handed_over(self, border: int) -> None:
        """At the end all is there that the caller wants there."""
        problem = self.program.problem
        wanted = int(problem.value_bytes[problem.wanted_there & ~problem.given_there].sum())
        if wanted:
            self._holds(border, [(callers_group(self.program.of_op), wanted)])

    def _in_one_piece(self) -> tuple[int, ...]:
        """A variable per op that never falls along an edge, and rises where a path enters the accelerator."""
        begun = tuple(self._new() for _ in self.group)
        for op, group in enumerate(self.group):
            self.rows.add([(begun[op], 1.0), (group, -1.0)], 0.0)
        for maker, user in edges_of(self.program):
            never_falls = [(begun[user], 1.0), (begun[maker], -1.0)]
            self.rows.add(never_falls, 0.0)
            if self.group[user] != self.group[maker]:
                self.rows.add([*never_falls, (self.group[user], -1.0), (self.group[maker], 1.0)], 0.0)
        return begun

    def _crossing(self) -> dict[int, int]:
        """Value → the variable that is 1 where it has a buffer on the accelerator. Fills ``inner`` on the way."""
        program, problem = self.program, self.program.problem
        homes = home_groups(problem, program.of_op).tolist()
        made_outside, given = (problem.value_producer == NO_OP).tolist(), problem.given_there.tolist()
        left: list[bool] = problem.value_left_on_host.tolist()
        returned: list[bool] = problem.value_returned.tolist()
        read_there = user_groups(problem.value_uses, program.of_op)
        readers = _reader_groups(program)
        crossing: dict[int, int] = {}
        for value, size in enumerate(self.sizes):
            home = homes[value]
            if not size or left[value] or given[value]:  # what the caller gives there is counted with weights
                continue
            if made_outside[value]:
                if read_there[value]:
                    crossing[value] = self._at_least([[(group, 1.0)] for group in read_there[value]])
                continue
            away = [group for group in readers[value] if group != home]
            entering = [[(group, 1.0), (home, -1.0)] for group in read_there[value] if group != home]
            if returned[value]:
                crossing[value] = self._at_least([[(home, 1.0)], *entering])
            elif away:
                leaving = [[(home, 1.0), (group, -1.0)] for group in away]
                crossing[value] = self._at_least([*leaving, *entering])
                self.inner[value] = self._at_least([[(home, 1.0), (crossing[value], -1.0)]])
            else:
                self.inner[value] = home
        return crossing

    def _at_least(self, sums: list[list[tuple[int, float]]]) -> int:
        """A variable no less than any of the sums."""
        if len(sums) == 1 and len(sums[0]) == 1:
            return sums[0][0][0]
        variable = self._new()
        for terms in sums:
            self.rows.add([(variable, 1.0), *((other, -factor) for other, factor in terms)], 0.0)
        return variable


def fullest(problem: PlacementProblem, inner: Iterable[int]) -> Iterator[tuple[int, list[int]]]:
    """Ops with what may be alive inside while they run; of such that hold the same or less, only the fullest.

    Args:
        problem: Whose they are.
        inner: Values that may stay inside.
    """
    makers: list[int] = problem.value_producer.tolist()
    last = list(makers)
    read: list[int] = problem.value_uses.rows.tolist()
    readers: list[int] = problem.value_uses.ops.tolist()
    for value, op in zip(read, readers, strict=True):
        last[value] = max(last[value], op)
    born: list[list[int]] = [list[int]() for _ in range(problem.ops)]
    for value in inner:
        born[makers[value]].append(value)
    scratch: list[int] = problem.scratch_bytes.tolist()
    reordered = problem.reordered
    live = list[int]()
    grown = False
    for op in range(problem.ops):
        live += born[op]
        grown |= bool(born[op])
        staying = [value for value in live if last[value] > op]
        shares_next = op + 1 < problem.ops and scratch[op + 1] < 0
        if scratch[op] or reordered[op] or (grown and (shares_next or len(staying) < len(live))):
            yield op, [value for value in live if value not in reordered[op]]
            grown = scratch[op] < 0
        live = staying


def edges_of(program: Program) -> list[tuple[int, int]]:
    """Every (maker, user) of ops, once."""
    uses, problem = program.problem.value_uses, program.problem
    makers = problem.value_producer[uses.rows]
    made = problem.made[uses.rows]
    first, second = unique_pairs(makers[made].astype(np.int64), uses.ops[made].astype(np.int64))
    return list(zip(first.tolist(), second.tolist(), strict=True))


def _reader_groups(program: Program) -> list[list[int]]:
    """Per value: the groups whose ops read it, from wherever, each once."""
    problem = program.problem
    readers: list[list[int]] = [list[int]() for _ in range(problem.values)]
    rows, groups = unique_pairs(problem.value_uses.rows, program.of_op[problem.value_uses.ops].astype(np.int64))
    values: list[int] = rows.tolist()
    for value, group in zip(values, groups.tolist(), strict=True):
        readers[value].append(group)
    return readers
