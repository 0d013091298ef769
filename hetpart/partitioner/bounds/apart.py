"""Rows that tell what lies between partitions from what is inside them.

Both have a peak, at moments of their own, and a device has room for both peaks:

    weights + most between + most inside <= budget

Most between is at least what certainly is in buffers while an op runs: what is copied, what is returned, and what waits
behind ops on the host; and what enters and leaves one partition, all of which is there at once, counted along ops that
certainly share it. Most inside is at least what certainly stays inside the partition of an op while that runs. Both
together are at least all that is alive then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hetpart.partitioner.bounds.certain import Case, Certain, Sweep
from hetpart.partitioner.bounds.milp import Rows
from hetpart.partitioner.bounds.moments import MOST_NEAR, Alive, Moments
from hetpart.partitioner.bounds.program import NOBODY
from hetpart.partitioner.scores.finer import may_be_cut_finer

if TYPE_CHECKING:
    from hetpart.partitioner.bounds.program import Program

Terms = dict[int, int]
"""Bytes by variable."""
Row = tuple[tuple[int, ...], frozenset[tuple[int, int]]]
"""The variables that are at least these (variable, bytes)."""


def between_and_inside(program: Program) -> Moments:
    """What lies between partitions, and inside them, as far as both can exceed the budget."""
    problem, alive = program.problem, Alive.of(program)
    most = sum(alive.sizes) + int(problem.beside_bytes.max(initial=0))
    if not most or most + int(problem.weight_bytes.sum()) + problem.given_bytes <= program.budget:
        return Moments(Rows(), 0, ())
    sweep = Sweep.NEITHER if may_be_cut_finer(problem) else Sweep.EITHER
    return Builder(alive, Certain.of(alive, sweep)).build()


@dataclass(slots=True, eq=False)
class Builder:
    """Makes the rows of a program."""

    alive: Alive
    certain: Certain
    between: int = field(init=False)
    """Variables: most of either, as a share of the budget."""
    inside: int = field(init=False)
    known: set[Row] = field(default_factory=set[Row])
    live: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    """Per op: values that may be alive while it runs."""
    reordered: list[frozenset[int]] = field(init=False)
    beside: list[int] = field(init=False)
    """Per op: bytes inside its session wherever its values lie."""

    def __post_init__(self) -> None:
        problem = self.alive.program.problem
        self.reordered, self.beside = problem.reordered, problem.beside_bytes.tolist()

    def build(self) -> Moments:
        """All of them."""
        alive, program = self.alive, self.alive.program
        self.between, self.inside = alive.new("between"), alive.new("inside")
        whole = program.unit * program.budget
        alive.rows.add([(program.variables, -1.0), (self.between, -whole), (self.inside, -whole)], -whole)
        for op, live, terms in alive.at_every_op():
            self.live[op] = live
            self._at_least((self.between, self.inside), terms)
            self._at_least((self.between,), self.summed((value, self.buffered(op, value)) for value in live))
            self._at_least((self.inside,), self._within(op, live))
        self.along_partitions()
        return Moments(alive.rows, len(alive.extra), (0,), sharp=True)

    def _at_least(self, most: tuple[int, ...], terms: Terms) -> None:
        key = most, frozenset((variable, nbytes) for variable, nbytes in terms.items() if nbytes)
        if key[1] and key not in self.known:
            self.known.add(key)
            self.alive.rows.add([*((one, 1.0) for one in most), *self.shares(terms, -1.0)], 0.0)

    def shares(self, terms: Terms, sign: float) -> list[tuple[int, float]]:
        """Bytes by variable as parts of the budget, times ``sign``."""
        budget = max(1, self.alive.program.budget)
        return [(variable, sign * nbytes / budget) for variable, nbytes in sorted(terms.items()) if nbytes]

    def summed(self, cases: Iterable[tuple[int, list[Case]]]) -> Terms:
        """Bytes of values, each by the variable that is 1 in any of its cases."""
        terms: Terms = {}
        for value, any_of in cases:
            variable = self.certain.variable(any_of) if self.alive.sizes[value] else NOBODY
            if variable != NOBODY:
                terms[variable] = terms.get(variable, 0) + self.alive.sizes[value]
        return terms

    def buffered(self, op: int, value: int) -> list[Case]:
        """When ``value`` is certainly in a buffer on the accelerator while ``op`` runs."""
        alive, reach = self.alive, self.alive.reach
        if reach.makers[value] == op:
            return self.certain.leaves(value)
        readers = alive.readers[value]
        here = [op] if op in readers else []
        after = [reader for reader in readers if reach.before(op, reader)][:MOST_NEAR]
        before = [reader for reader in readers if reach.before(reader, op)][-MOST_NEAR:]
        home = alive.homes[value]
        cases = [
            Case.of((alive.group[one], alive.group[other]), (home,)) for one in (*before, *here) for other in after
        ]
        cases += [Case.of((alive.group[op],), (home,)) for _ in here]
        if reach.makers[value] >= 0 and reach.before(reach.makers[value], op):
            cases += self.certain.waits(value, [*after, *here])
        return cases

    def _within(self, op: int, live: list[int]) -> Terms:
        """What is certainly inside the partition of ``op`` while that runs."""
        alive, reach = self.alive, self.alive.reach
        inner: list[tuple[int, list[Case]]] = []
        for value in live:
            if value in self.reordered[op]:
                continue
            maker, readers = reach.makers[value], self.certain.users[value]
            begun = maker == op or (maker >= 0 and reach.before(maker, op))
            if begun and (maker == op or any(reader == op or reach.before(op, reader) for reader in readers)):
                inner.append((value, self.certain.stays_inside(value)))
            else:
                inner.append((value, self.certain.stays_inside_beside(value, op)))
        terms = self.summed(inner)
        group = alive.group[op]
        terms[group] = terms.get(group, 0) + self.beside[op]
        return terms

    def along_partitions(self) -> None:
        """A variable per op for what certainly enters and leaves its partition, as far as ops that come before tell."""
        alive, certain = self.alive, self.certain
        made: list[list[int]] = [[] for _ in certain.sources]
        entered: list[list[int]] = [[] for _ in certain.sources]
        for value, size in enumerate(alive.sizes):
            if size and alive.reach.makers[value] >= 0:
                made[alive.reach.makers[value]].append(value)
            if size and alive.readers[value]:
                entered[alive.readers[value][0]].append(value)
        so_far = [alive.new(("so far", op)) for op in range(len(certain.sources))]
        for op, variable in enumerate(so_far):
            own = self.summed(
                [
                    *((value, certain.leaves(value)) for value in made[op]),
                    *((value, certain.enters(value, op)) for value in entered[op]),
                ]
            )
            self._add_up(variable, own, {})
            gate = certain.gate(op)
            for source in sorted({*certain.sources[op], *(() if gate is None else (gate,))}):
                groups = certain.together(source, op)
                if groups:
                    self._add_up(variable, own, dict.fromkeys(groups, 1), so_far[source])
            alive.rows.add([(self.between, 1.0), (variable, -1.0)], 0.0)

    def _add_up(self, variable: int, own: Terms, together: dict[int, int], source: int | None = None) -> None:
        """``variable`` is at least what is its own, beside what there is at ``source`` where all are ``together``."""
        terms = {one: -share for one, share in self.shares(own, 1.0)}
        for group in together:
            terms[group] = terms.get(group, 0.0) - 1.0
        before = [] if source is None else [(source, -1.0)]
        if terms or before:
            self.alive.rows.add([(variable, 1.0), *before, *sorted(terms.items())], -float(len(together)))
