"""Rows of a problem of three states that every placement keeps which fits the budget.

While an op runs on the accelerator, every weight that it reads there is there, held or streamed, beside all that is
held for other ops; and so is all that ``moments`` knows to be alive then. So is what streams by for the op that comes
next, where the two certainly share a partition before that is cut into pieces: they are in one piece then, or in two
that follow each other. What else streams by is left out.

Where an op writes its output over what it reads, as an activation between two products, and the op before it reads
weights too, all three in a partition: either the first two share a piece, and what streams by for the first is still
there; or what the second reads lies in a buffer, over which nothing is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.bounds.certain import Case, Certain
from hetpart.partitioner.bounds.milp import Rows
from hetpart.partitioner.bounds.moments import Alive, Moments
from hetpart.partitioner.bounds.program import BYTES, NOBODY, user_groups
from hetpart.partitioner.problem import NO_OP
from hetpart.partitioner.scores.fixing import while_running
from hetpart.partitioner.uses import unique_pairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from hetpart.partitioner.bounds.program import Program
    from hetpart.partitioner.problem import PlacementProblem

Terms = tuple[tuple[int, float], ...]
MOST_OPS = 2000
"""Up to which all that is alive is written down."""


def streaming_moments(program: Program) -> Moments:
    """What there is at every op beside all that is held, as far as it can exceed the budget."""
    if program.problem.stands_for_weight is None or not program.problem.stands_for_weight.any():
        return Moments(Rows(), 0, ())
    weights, alive, unit = _Streamable.of(program), Alive.of(program), program.unit
    held, rows = alive.new("held"), alive.rows
    # All that is held: the program's bytes, with the whole of what is held in place of what streams by at least.
    terms = [(held, BYTES), (program.variables, -1.0)]
    for share, used, holder in zip(weights.shares, weights.used, weights.holders, strict=True):
        terms += [(used, unit * share), (holder, -unit * share)]
    rows.add(_summed(terms), 0.0)
    _Ops(program, weights, alive, held).add_rows()
    return Moments(rows, len(alive.extra), (), small=True)


@dataclass(frozen=True, slots=True)
class _Brought:
    """Bytes that are there where a variable is 1 and a weight is not held."""

    variable: int
    place: int
    """Of the weight, among those that may be streamed."""
    nbytes: int


@dataclass(slots=True, eq=False)
class _Ops:
    """Rows of what there is while each op runs."""

    program: Program
    weights: _Streamable
    alive: Alive
    held: int
    """The variable of all that is held."""
    certain: Certain = field(init=False)
    read: dict[int, list[int]] = field(init=False)
    """Per op that reads some of them: the weights."""
    next: list[int] = field(init=False)
    """Per op: the next that is no weight's; itself if there is none."""
    before: dict[int, int] = field(init=False)
    """Per op, that it is the next of: the one that is no weight's."""
    known: set[Terms] = field(default_factory=set[Terms])

    def __post_init__(self) -> None:
        problem = self.program.problem
        self.certain, self.read = Certain.of(self.alive), read_by(self.program.problem, self.weights.values)
        ops = np.setdiff1d(np.arange(problem.ops), problem.value_producer[self.weights.values])
        later = np.searchsorted(ops, np.arange(problem.ops), side="right")
        self.next = np.append(ops, ops[-1:])[later].tolist()
        self.before = {later: op for op, later in pairwise(ops.tolist())}

    def add_rows(self) -> None:
        for op, there in self._at_every_op():
            group = int(self.program.of_op[op])
            brought = self._whole((group, place) for place in self.read.get(op, []))
            following = self._whole(self._brought_next(op))
            self._add(there, brought)
            self._add(there, brought + following)
            if following:
                self._add(there, brought + following + self._stayed(op))

    def _at_every_op(self) -> Iterator[tuple[int, dict[int, int]]]:
        """Bytes by variable of what is alive; of many ops only those that read weights, with what they alone need."""
        problem = self.program.problem
        if problem.ops <= MOST_OPS:
            yield from ((op, there) for op, _, there in self.alive.at_every_op())
            return
        # What the caller gives there is counted with weights.
        needs = while_running(replace(problem, value_bytes=np.where(problem.given_there, 0, problem.value_bytes)))
        yield from ((op, {int(self.program.of_op[op]): int(needs[op])}) for op in self.read)

    def _whole(self, brought: Iterable[tuple[int, int]]) -> list[_Brought]:
        return [_Brought(variable, place, self.weights.sizes[place]) for variable, place in brought]

    def _add(self, there: dict[int, int], streamed: list[_Brought]) -> None:
        """Beside all that is held: bytes by variable, and what is streamed."""
        problem, unit = self.program.problem, self.program.unit
        most = int(problem.weight_bytes.sum()) + problem.given_bytes + sum(one.nbytes for one in streamed)
        if most + sum(there.values()) <= self.program.budget:
            return
        used = [(variable, -unit * nbytes) for variable, nbytes in there.items()]
        brought = [(one.variable, -unit * one.nbytes) for one in streamed]
        kept = [(self.weights.holders[one.place], unit * one.nbytes) for one in streamed]
        terms = tuple(_summed([(self.held, -BYTES), *used, *brought, *kept]))
        if terms not in self.known:
            self.known.add(terms)
            self.alive.rows.add([*terms], -unit * self.program.budget)

    def _stayed(self, op: int) -> list[_Brought]:
        """Of a weight that streams by for the op before: what ``op`` writes over else, if all three are together."""
        earlier, later = self.before.get(op, op), self.next[op]
        others = {*self.read.get(op, []), *self.read[later]}
        weights = [place for place in self.read.get(earlier, []) if place not in others]
        shared = self._written_over(op) if weights and self.alive.reach.before(earlier, op) else 0
        if not shared:
            return []
        groups = self.certain.together(earlier, op, later)
        together = self.certain.variable([Case(groups)] if groups else [])
        place = max(weights, key=lambda place: self.weights.sizes[place])
        return [] if together == NOBODY else [_Brought(together, place, min(shared, self.weights.sizes[place]))]

    def _written_over(self, op: int) -> int:
        """Bytes of what ``op`` makes over what it reads, where the next op reads all of that and does no such thing."""
        scratch, later = self.program.problem.scratch_bytes, self.next[op]
        if not scratch[op] < 0 <= scratch[later]:
            return 0
        makers, readers, sizes = self.alive.reach.makers, self.alive.readers, self.alive.sizes
        made = [value for value, maker in enumerate(makers) if maker == op and sizes[value]]
        return -int(scratch[op]) if all(later in readers[value] for value in made) else 0

    def _brought_next(self, op: int) -> list[tuple[int, int]]:
        """Weights that the next op reads, each with a variable that is 1 where it shares the partition of ``op``."""
        following, here = self.next[op], self.read.get(op, [])
        if following == op or following not in self.read or not self.alive.reach.before(op, following):
            return []
        groups = self.certain.together(op, following)
        together = self.certain.variable([Case(groups)] if groups else [])
        more = [place for place in self.read[following] if place not in here]
        return [] if together == NOBODY else [(together, place) for place in more]


def _summed(terms: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Every variable once."""
    found: dict[int, float] = {}
    for variable, factor in terms:
        found[variable] = found.get(variable, 0.0) + factor
    return sorted(found.items())


@dataclass(frozen=True, slots=True)
class _Streamable:
    """Weights that may be streamed, with their variables."""

    values: list[int]
    """The value that stands for each."""
    holders: list[int]
    """1 where it is held."""
    used: list[int]
    """At least 1 where the accelerator uses it."""
    sizes: list[int]
    shares: list[int]
    """What of it takes room wherever it is held."""

    @classmethod
    def of(cls, program: Program) -> _Streamable:
        problem = program.problem
        assert problem.stands_for_weight is not None
        values = np.flatnonzero(problem.stands_for_weight)
        holders = problem.value_producer[values].astype(np.int64)
        # What takes room wherever a weight is held comes behind all weights, in the same order.
        first = len(problem.weight_bytes) - len(values)
        shares = problem.weight_bytes[first:]
        return cls(
            values.tolist(),
            program.of_op[holders].tolist(),
            _used(program, first),
            (problem.weight_bytes[_held_by(problem, holders)] + shares).tolist(),
            shares.tolist(),
        )


def read_by(problem: PlacementProblem, weights: Sequence[int]) -> dict[int, list[int]]:
    """Which of ``weights``, by their places among them, every op reads on its own device, if any."""
    place = {value: number for number, value in enumerate(weights)}
    uses, found = problem.value_uses, dict[int, list[int]]()
    here = ~uses.on_host
    values, ops = unique_pairs(uses.rows[here], uses.ops[here].astype(np.int64))
    for value, op in zip(values.tolist(), ops.tolist(), strict=True):
        if value in place:
            found.setdefault(op, []).append(place[value])
    return found


def _held_by(problem: PlacementProblem, holders: NDArray[np.int64]) -> NDArray[np.int64]:
    """The weight that each of ``holders`` holds, which holds no other."""
    held = np.full(problem.ops, NO_OP, np.int64)
    held[problem.weight_uses.ops] = problem.weight_uses.rows
    return held[holders]


def _used(program: Program, first: int) -> list[int]:
    """The variables of the weights from ``first`` on."""
    covers = {cover.near: cover.variable for cover in program.covers if cover.nbytes and cover.far == (NOBODY,)}
    users = user_groups(program.problem.weight_uses, program.of_op)[first:]
    return [groups[0] if len(groups) == 1 else covers.get(groups, groups[0]) for groups in users]
