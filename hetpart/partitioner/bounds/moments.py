"""Rows that every placement keeps which fits the budget, whatever order its partitions run in.

While an op runs, its device holds what the op reads and makes there and its scratch. And whatever the order, a value
that is on the accelerator for an op before it (an ancestor) and for one after it (a descendant) is there at that
moment, also where the op itself runs on the host: within one partition nothing on the host can lie between the two,
and across partitions the value waits in a buffer. What the order alone decides is left out, so the rows bound the
liveness peak of every order from below, and nothing here is an estimate.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.bounds.milp import Rows
from hetpart.partitioner.bounds.program import NOBODY, home_groups
from hetpart.partitioner.problem import NO_OP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hetpart.partitioner.bounds.program import Program
    from hetpart.partitioner.problem import PlacementProblem

MOST_NEAR = 4
"""Readers on either side of a moment that are paired. Leaving pairs out leaves a row weaker, never wrong."""


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Rows over a program's variables, the one for its weights' bytes, and ``extra`` more."""

    rows: Rows
    extra: int
    caps: tuple[int, ...]
    """Rows that hold the budget."""
    whole: tuple[int, ...] = ()
    """Of the ``extra`` variables those that are 0 or 1."""
    stages: tuple[tuple[int, ...], ...] = ()
    """Per op: those that are 1 where it has come to a stage, in which a program is halved."""
    sharp: bool = False
    """Whether most of what order adds to a peak is in the rows, so that a small gap is worth asking for."""
    small: bool = False
    """Whether the program is solved quickly, nearly to its end."""

    def within(self, program: Program, budget: int) -> Rows:
        """The rows for another budget."""
        rows = self.rows.copy()
        for row in self.caps:
            rows.least[row] = -program.unit * budget
        return rows


def moments(program: Program) -> Moments:
    """What is alive together at every op, as far as it can exceed the budget."""
    problem, alive = program.problem, Alive.of(program)
    known: set[frozenset[tuple[int, int]]] = set()
    caps: list[int] = []
    weights = int(problem.weight_bytes.sum()) + problem.given_bytes
    for _, _, terms in alive.at_every_op():
        content, most = frozenset(terms.items()), sum(terms.values())
        if content in known or most == 0 or most + weights <= program.budget:
            continue
        known.add(content)
        caps.append(len(alive.rows.least))
        held = [(variable, -program.unit * nbytes) for variable, nbytes in sorted(terms.items()) if nbytes]
        alive.rows.add([(program.variables, -1.0), *held], -program.unit * program.budget)
    return Moments(alive.rows, len(alive.extra), tuple(caps))


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A value that may wait on the accelerator while an op runs that is not its last reader."""

    value: int
    before: tuple[int, ...]
    """Groups that have had it on their device, its maker's among them."""
    after: tuple[int, ...]
    """Groups that still read it."""
    reader: int
    """The group of the op itself where it reads the value, else nobody."""
    maker: int
    """Its maker's group where that came before and decides where the value is; else nobody."""
    keeper: int = NOBODY
    """The group that it lies with, of a state: on that device it is no copy, and counted with weights."""


@dataclass(slots=True, eq=False)
class Alive:
    """What is alive while each op runs, as variables with rows that hold them down to what is certain."""

    program: Program
    group: list[int]
    """Of every op."""
    sizes: list[int]
    """Bytes of every value that can be alive on the accelerator beside weights; of a state those of a copy."""
    homes: list[int]
    readers: list[list[int]]
    """Per value: ops that read it on their own device."""
    reach: Reach
    rows: Rows = field(default_factory=Rows)
    extra: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    """Variables beside those of the program, by what they stand for."""

    @classmethod
    def of(cls, program: Program) -> Alive:
        problem = program.problem
        # What the caller gives there is counted with weights.
        elsewhere = problem.value_left_on_host | problem.given_there
        return cls(
            program,
            program.of_op.tolist(),
            np.where(elsewhere, 0, _sizes(problem)).tolist(),
            home_groups(problem, program.of_op).tolist(),
            _readers(problem),
            Reach.of(problem),
        )

    def new(self, key: Hashable) -> int:
        """A variable from 0 to 1 that stands for ``key``, which none has so far."""
        self.extra[key] = self.program.variables + 1 + len(self.extra)
        return self.extra[key]

    def both(self, op: int, other: int) -> int:
        """The variable that is 1 where the groups of both ops are on the accelerator."""
        one, last = sorted((self.group[op], self.group[other]))
        if one == last:
            return one
        key = "both", one, last
        if key not in self.extra:
            self.rows.add([(self.new(key), 1.0), (one, -1.0), (last, -1.0)], -1.0)
        return self.extra[key]

    def at_every_op(self) -> Iterator[tuple[int, list[int], dict[int, int]]]:
        """Every op with values that may be alive while it runs, and bytes by variable of what is."""
        problem = self.program.problem
        scratch: list[int] = problem.scratch_bytes.tolist()
        for op, live in _live(problem, self.readers, self.sizes):
            terms = {self.group[op]: scratch[op]}
            for value in live:
                variable = self._variable(op, value)
                if variable != NOBODY:
                    terms[variable] = terms.get(variable, 0) + self.sizes[value]
            yield op, live, terms

    def _variable(self, op: int, value: int) -> int:
        """The variable that is 1 where ``value`` is on the accelerator while ``op`` runs; nobody if that is unsure."""
        reach = self.reach
        if reach.makers[value] == op:
            return self.group[op]
        if reach.makers[value] < 0 and self.homes[value] != NOBODY:
            return self._copy(op, value)
        readers = self.readers[value]
        after = [self.group[reader] for reader in readers if reach.before(op, reader)]
        reads = op in readers
        if not after:
            return self.group[op] if reads else NOBODY
        before = [self.group[reader] for reader in readers if reach.before(reader, op)]
        made = self.homes[value] if reach.makers[value] >= 0 and reach.before(reach.makers[value], op) else NOBODY
        if not before and made == NOBODY and not reads:
            return NOBODY
        near = {*before[-MOST_NEAR:], made} - {NOBODY}
        reader = self.group[op] if reads else NOBODY
        return self._waits(_Waiting(value, tuple(sorted(near)), tuple(sorted({*after[:MOST_NEAR]})), reader, made))

    def _copy(self, op: int, value: int) -> int:
        """The variable that is 1 where a copy of a state is certainly there while ``op`` runs; nobody if none is."""
        reach, home = self.reach, self.homes[value]
        readers = [reader for reader in self.readers[value] if self.group[reader] != home]
        before = {self.group[reader] for reader in [one for one in readers if reach.before(one, op)][-MOST_NEAR:]}
        after = {self.group[reader] for reader in [one for one in readers if reach.before(op, one)][:MOST_NEAR]}
        reader = self.group[op] if op in readers else NOBODY
        if reader == NOBODY and not (before and after):
            return NOBODY
        return self._waits(_Waiting(value, tuple(sorted(before)), tuple(sorted(after)), reader, NOBODY, home))

    def _waits(self, found: _Waiting) -> int:
        if found in self.extra:
            return self.extra[found]
        variable = self.new(found)
        there = [(variable, 1.0)] if found.keeper == NOBODY else [(variable, 1.0), (found.keeper, 1.0)]
        for before in found.before:
            for after in found.after:
                both = [(before, -1.0), (after, -1.0)] if before != after else [(before, -1.0)]
                self.rows.add([*there, *both], 1.0 - len(both))
        if found.reader != NOBODY:
            self.rows.add([*there, (found.reader, -1.0)], 0.0)
        self._rows_by_copies(found, variable)
        return variable

    def _rows_by_copies(self, found: _Waiting, variable: int) -> None:
        """What is made on the accelerator waits unless it is copied; what is read there was copied or has waited."""
        if found.maker == NOBODY:
            return
        down, up = self.program.down.get(found.value), self.program.up.get(found.value)
        if down is not None:
            self.rows.add([(variable, 1.0), (found.maker, -1.0), (down, 1.0)], 0.0)
        for after in found.after:
            if up is not None and after != found.maker:
                self.rows.add([(variable, 1.0), (after, -1.0), (up, 1.0)], 0.0)


def _sizes(problem: PlacementProblem) -> NDArray[np.int64]:
    states = problem.states
    return (
        problem.value_bytes if states is None else np.where(states.keeper == NO_OP, problem.value_bytes, states.nbytes)
    )


def _readers(problem: PlacementProblem) -> list[list[int]]:
    readers: list[list[int]] = [list[int]() for _ in range(problem.values)]
    uses = problem.value_uses
    here = ~uses.on_host
    rows: list[int] = uses.rows[here].tolist()
    ops: list[int] = uses.ops[here].tolist()
    for value, op in zip(rows, ops, strict=True):
        readers[value].append(op)
    return [sorted(set(found)) for found in readers]


def _live(problem: PlacementProblem, readers: list[list[int]], sizes: list[int]) -> Iterator[tuple[int, list[int]]]:
    """Every op with the values that may be alive while it runs, were they to run in the order they have."""
    starts: list[list[int]] = [list[int]() for _ in range(problem.ops)]
    live = list[int]()
    makers: list[int] = problem.value_producer.tolist()
    last = [0] * problem.values
    for value, ops in enumerate(readers):
        first = makers[value] if makers[value] >= 0 else min(ops, default=0)
        last[value] = max([first, *ops])
        if sizes[value] and (ops or makers[value] >= 0):
            starts[first].append(value)
    for op in range(problem.ops):
        live = [value for value in live if last[value] >= op] + starts[op]
        yield op, live


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """Which op must run before which."""

    makers: list[int]
    ancestors: list[int]
    """Per op: a bit for each op that must run before it."""

    @classmethod
    def of(cls, problem: PlacementProblem) -> Reach:
        # What stands for a weight comes before nothing.
        makers: list[int] = np.where(problem.made, problem.value_producer, NO_OP).tolist()
        uses = problem.value_uses
        ancestors = [0] * problem.ops
        order = np.argsort(uses.ops, kind="stable")
        for value, op in zip(uses.rows[order].tolist(), uses.ops[order].tolist(), strict=True):
            if makers[value] >= 0:
                ancestors[op] |= ancestors[makers[value]] | 1 << makers[value]
        return cls(makers, ancestors)

    def before(self, earlier: int, later: int) -> bool:
        return bool(self.ancestors[later] >> earlier & 1)
