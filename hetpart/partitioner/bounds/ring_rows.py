"""Rows of the placements that stream something and have so many partitions on the accelerator.

While a partition runs, what streams into it is there, and what streams into the next. So n partitions have ⌈n / 2⌉
portions of what streams, each there at once while some partition runs that streams a part of it: from the first such
partition on, it and the one behind it, then the next. A portion is of whole weights, most of which are multiples of one
size; the others are put in portions one by one. Beside a portion lies what enters that partition and what leaves it
(``passing``), and beside both what some partition holds inside itself (``inside``):

    weights + sessions + most between + most inside <= budget

Weights that are read behind all others may be counted too: no partition that streams only such comes before one that
streams others, so a portion with others in it still lies beside what crosses the borders of a partition of those.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.bounds.moments import Alive
from hetpart.partitioner.bounds.passing import Passing
from hetpart.partitioner.bounds.streaming_rows import read_by

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.bounds.inside import Insides, Stretches
    from hetpart.partitioner.bounds.milp import LinearProgram
    from hetpart.partitioner.bounds.program import Program

MOST_AMOUNTS = 4
"""Of what stretches hold inside, from the largest on."""
ROUNDED_OFF = 0.02
"""Of all bytes that may stream: what may be left out of multiples of one size."""
MOST_ODD = 8
"""Weights of other sizes that are counted one by one."""


def ring_program(
    program: Program, sizes: NDArray[np.int64], insides: Insides, passing: Passing, partitions: int
) -> LinearProgram:
    """The program of so many partitions, whose sessions are off the budget already.

    Args:
        program: Of a problem of three states, in which weights take room only where they are held.
        sizes: Bytes of every weight that may stream, where it does.
        insides: What partitions hold inside.
        passing: What crosses their borders.
        partitions: On the accelerator.
    """
    return _Builder(program, Alive.of(program), sizes.tolist(), insides, passing, partitions).build()


@dataclass(slots=True, eq=False)
class _Builder:
    program: Program
    alive: Alive
    sizes: list[int]
    insides: Insides
    passing: Passing
    partitions: int
    streamed: list[int] = field(init=False)
    """The variable that is 1 where each weight that may be is streamed."""
    holders: list[int] = field(init=False)
    """The one that is 1 where it is held."""
    whole: list[int] = field(default_factory=list[int])
    """Variables that are whole numbers."""

    def build(self) -> LinearProgram:
        program, alive, problem = self.program, self.alive, self.program.problem
        assert problem.stands_for_weight is not None
        values = np.flatnonzero(problem.stands_for_weight)
        self.streamed = [program.up[value] for value in values.tolist()]
        self.holders = program.of_op[problem.value_producer[values]].tolist()
        between, inside = alive.new("between"), alive.new("inside")
        room = program.unit * program.budget
        alive.rows.add([(program.variables, -1.0), (between, -room), (inside, -room)], -room)
        portions = self._streams(between)
        self._beside_ops(between, inside)
        for stretches in self.insides.known[:MOST_AMOUNTS]:
            if len(stretches.ends) >= self.partitions:
                self._inside_one(inside, stretches)
        linear = program.linear(alive.rows, len(alive.extra), None, program.budget, tuple(self.whole))
        upper = linear.upper.copy()
        upper[[*portions]] = [*portions.values()]
        return replace(linear, upper=upper)

    def _holds(self, most: list[int], held: dict[int, float], least: float = 0.0) -> None:
        """These, shares of the budget, are together at least what is held."""
        budget = max(1, self.program.budget)
        terms = [(variable, -nbytes / budget) for variable, nbytes in sorted(held.items()) if nbytes]
        self.alive.rows.add([*((one, 1.0) for one in most), *terms], least / budget)

    def _streams(self, between: int) -> dict[int, int]:
        """What streams and crosses borders at once; variables of portions, with the units that each has at most."""
        alive, passing, count = self.alive, self.passing, (self.partitions + 1) // 2
        self._holds([between], {one: size / count for one, size in zip(self.streamed, self.sizes, strict=True)})
        unit = _common_size(np.array(self.sizes, np.int64)[passing.weights])
        units = self._units(unit)
        most = sum(units.values())
        portions = [alive.new(("units", number)) for number in range(count)]
        self.whole += portions
        all_units = [(one, -float(times)) for one, times in units.items()]
        alive.rows.add([*((portion, 1.0) for portion in portions), *all_units], 0.0)
        odd = [self._shared(variable, size, count) for variable, size in self._odd(unit).items()]
        several = alive.new("several")
        for number, portion in enumerate(portions):
            if number:
                alive.rows.add([(portions[number - 1], 1.0), (portion, -1.0)], 0.0)
                several = several if number == 1 else alive.new(("several", number))
                self.whole.append(several)
                alive.rows.add([(several, float(most)), (portion, -1.0)], 0.0)
            beside = {several: float(passing.least())} if count > 1 else {}
            self._holds([between], {portion: float(unit), **beside, **dict(shares[number] for shares in odd)})
        return dict.fromkeys(portions, most)

    def _units(self, unit: int) -> dict[int, int]:
        """Variables of the weights that are counted in units, and how many each is."""
        here: list[bool] = self.passing.weights.tolist()
        known = zip(self.streamed, self.sizes, here, strict=True)
        return {one: size // unit for one, size, regular in known if regular and size >= unit}

    def _odd(self, unit: int) -> dict[int, int]:
        """Variables of weights that are no multiples of a unit, or come behind those that are; the largest few."""
        regular, late = self.passing.weights.tolist(), self.passing.late.tolist()
        known = [
            (size, one)
            for one, size, here, behind in zip(self.streamed, self.sizes, regular, late, strict=True)
            if size >= unit * ROUNDED_OFF and (behind or (here and size < unit))
        ]
        return {one: size for size, one in sorted(known, reverse=True)[:MOST_ODD]}

    def _shared(self, streamed: int, size: int, count: int) -> list[tuple[int, float]]:
        """Per portion the variable that is 1 where a weight is in it, with its bytes."""
        parts = [self.alive.new(("part", streamed, number)) for number in range(count)]
        self.whole += parts
        self.alive.rows.add([*((part, 1.0) for part in parts), (streamed, -1.0)], 0.0)
        return [(part, float(size)) for part in parts]

    def _beside_ops(self, between: int, inside: int) -> None:
        """What is alive while each op runs, beside the weights that stream to it."""
        problem = self.program.problem
        assert problem.stands_for_weight is not None
        brought = read_by(problem, np.flatnonzero(problem.stands_for_weight).tolist())
        known = set[frozenset[tuple[int, int]]]()
        for op, _, terms in self.alive.at_every_op():
            group = self.alive.group[op]
            content = frozenset({*terms.items(), *((-1 - place, group) for place in brought.get(op, []))})
            if content in known:
                continue
            known.add(content)
            held = {one: float(nbytes) for one, nbytes in terms.items()}
            for place in brought.get(op, []):
                held[group] = held.get(group, 0.0) + self.sizes[place]
                held[self.holders[place]] = held.get(self.holders[place], 0.0) - self.sizes[place]
            self._holds([between, inside], held)

    def _inside_one(self, inside: int, stretches: Stretches) -> None:
        """Where so many ends of stretches are there that one is in a single partition."""
        alive, few = self.alive, stretches.most_on(self.partitions)
        whole = alive.new(("unbroken", stretches.nbytes))
        self.whole.append(whole)
        ends: list[list[int]] = stretches.ends.tolist()
        there, both = dict[int, float](), dict[int, float]()
        for first, last in ends:
            pair = alive.both(first, last)
            both[pair] = both.get(pair, 0.0) - 1.0
            for op in (first, last):
                there[alive.group[op]] = there.get(alive.group[op], 0.0) - 1.0
        alive.rows.add([(whole, len(ends) - self.partitions + 1.0), *sorted(both.items())], 1.0 - self.partitions)
        alive.rows.add([(whole, float(2 * len(ends) - few)), *sorted(there.items())], -float(few))
        self._holds([inside], {whole: float(stretches.nbytes)})


def _common_size(sizes: NDArray[np.int64]) -> int:
    """The largest size of which all but little of ``sizes`` is multiples."""
    for size in np.unique(sizes[sizes > 0])[::-1].tolist():
        if int((sizes // size * size).sum()) >= (1 - ROUNDED_OFF) * int(sizes.sum()):
            return size
    return 1
