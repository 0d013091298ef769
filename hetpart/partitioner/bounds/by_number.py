"""Rows of the placements that have so many sessions on the accelerator, some number from one to another.

Few tell what many sessions cannot: what is copied lies in buffers beside some session, of n of them beside one 1/n at
least, and so does what a session hands to ops that run apart, as gradients to their updates, until it ends. All that
one op brings and leaves lies beside one session: of nine equal such pieces, as caches of layers, one of four sessions
has three. And of what could break a path's stretches there are n − 1 (``inside``). What lies between partitions and
what is inside them have peaks of their own, and a device has room for both:

    weights + sessions + most between + most inside <= budget

Sessions are counted along all paths at once: no placement has fewer than the path that enters the accelerator most
often. So there are few rows, and few numbers that are 0 or 1 beside groups: such programs are solved to their end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR, HOST
from hetpart.partitioner.bounds.inside import Insides
from hetpart.partitioner.bounds.levels import Levels
from hetpart.partitioner.bounds.mincut import held_if_copied
from hetpart.partitioner.bounds.moments import Alive, Moments
from hetpart.partitioner.bounds.program import NOBODY, home_groups, user_groups
from hetpart.partitioner.bounds.single import edges_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hetpart.partitioner.bounds.inside import Stretches
    from hetpart.partitioner.bounds.program import Program
    from hetpart.partitioner.problem import PlacementProblem

MOST_AMOUNTS = 4
"""Of what stretches hold inside, from the largest on."""
MOST_SIZES, MOST_IN_PORTION = 2, 16
"""Of what lies beside sessions: sizes that are told apart, and values of such a size beside one session."""


def by_number(fewest: int, most: int) -> Callable[[Program], Moments]:
    """Rows for so many sessions, ``fewest`` of which are off the budget already."""

    def rows(program: Program) -> Moments:
        return _Builder(program, Alive.of(program), fewest, most).build()

    return rows


@dataclass(slots=True, eq=False)
class _Builder:
    program: Program
    alive: Alive
    fewest: int
    most: int
    between: int = NOBODY
    """Variables: most of either, as a share of the budget."""
    inside: int = NOBODY

    def build(self) -> Moments:
        program, alive = self.program, self.alive
        self.between, self.inside = alive.new("between"), alive.new("inside")
        further = alive.new("further")
        whole = program.unit * program.budget
        more = program.unit * float(program.problem.session_bytes[ACCELERATOR]) * self.most
        taken = [(program.variables, -1.0), (self.between, -whole), (self.inside, -whole), (further, -more)]
        alive.rows.add(taken, -whole)
        beside = [*self._beside_sessions()]
        self._holds((self.between,), _together(beside), 1.0 / self.most)
        known = set[frozenset[tuple[int, int]]]()
        for _, _, terms in alive.at_every_op():
            content = frozenset(terms.items())
            if any(terms.values()) and content not in known:
                known.add(content)
                self._holds((self.between, self.inside), terms)
        told = Insides.of(program.problem, Levels.of_ops(program.problem).of_op).known
        many = [stretches for stretches in told if len(stretches.ends) >= self.most]
        unbroken = tuple(self._inside_one(stretches) for stretches in many[:MOST_AMOUNTS])
        portions = tuple(chain.from_iterable(self._portion(beside, size) for size in _sizes(beside)))
        self._count(further)
        return Moments(alive.rows, len(alive.extra), (0,), unbroken + portions)

    def _holds(self, most: tuple[int, ...], held: dict[int, int], share: float = 1.0) -> None:
        """These, shares of the budget, are together at least what is held."""
        each = share / max(1, self.program.budget)
        terms = [(variable, -each * nbytes) for variable, nbytes in sorted(held.items()) if nbytes]
        if terms:
            self.alive.rows.add([*((one, 1.0) for one in most), *terms], 0.0)

    def _beside_sessions(self) -> Iterator[tuple[int, int]]:
        """What certainly lies beside a session, as it is copied or handed to what runs apart: variables with bytes.

        What one op brings and leaves lies beside one session, and is one.
        """
        program, problem, found = self.program, self.program.problem, dict[tuple[int, int], int]()
        handed, sizes = handed_on(problem).tolist(), problem.value_bytes.tolist()
        nbytes = held_if_copied(problem)
        homes, users = home_groups(problem, program.of_op).tolist(), user_groups(problem.value_uses, program.of_op)
        down: list[int] = nbytes[HOST].tolist()
        up: list[int] = nbytes[ACCELERATOR].tolist()
        always: list[bool] = problem.wanted_on_host.tolist()
        makers: list[int] = problem.value_producer.tolist()
        stays: list[bool] = (problem.placed_by != problem.value_producer).tolist()
        for value, home in enumerate(homes):
            away = [user for user in users[value] if user != home]
            sole = away[0] if home == NOBODY and len(away) == 1 else None
            left = home if always[value] else program.down.get(value)
            if home != NOBODY and handed[value]:
                left, down[value] = home, sizes[value]
            # A state may lie with another op, and of several readers any may be in the session it is brought to.
            readers = self.alive.readers[value]
            if home != NOBODY and left is not None:
                place = -1 - 2 * value if stays[value] else makers[value], left
                found[place] = found.get(place, 0) + down[value]
            brought = program.up.get(value, sole)
            if brought is not None:
                place = -2 - 2 * value if stays[value] or len(readers) != 1 else readers[0], brought
                found[place] = found.get(place, 0) + up[value]
        return ((variable, nbytes) for (_, variable), nbytes in found.items())

    def _portion(self, beside: list[tuple[int, int]], size: int) -> Iterator[int]:
        """Variables of 0 or 1, one for every piece of this size that lies beside the session with most of them."""
        units = _together([(variable, nbytes // size) for variable, nbytes in beside])
        most = -(-sum(units.values()) // self.most)
        if most > MOST_IN_PORTION:
            return
        portion = [self.alive.new(("portion", size, number)) for number in range(most)]
        counted = [(variable, -float(times)) for variable, times in sorted(units.items()) if times]
        self.alive.rows.add([*((one, float(self.most)) for one in portion), *counted], 0.0)
        for more, fewer in zip(portion[1:], portion, strict=False):
            self.alive.rows.add([(fewer, 1.0), (more, -1.0)], 0.0)
        self._holds((self.between,), dict.fromkeys(portion, size))
        yield from portion

    def _inside_one(self, stretches: Stretches) -> int:
        """The variable that is 1 where so many stretches have both ends there that one is in a single partition."""
        alive = self.alive
        whole = alive.new(("unbroken", stretches.nbytes))
        there = dict[int, float]()
        ends: list[list[int]] = stretches.ends.tolist()
        for first, last in ends:
            both = alive.both(first, last)
            there[both] = there.get(both, 0.0) - 1.0
        alive.rows.add([(whole, len(stretches.ends) - self.most + 1.0), *sorted(there.items())], 1.0 - self.most)
        self._holds((self.inside,), {whole: stretches.nbytes})
        return whole

    def _count(self, further: int) -> None:
        """Of the most sessions, how many each op has come to; ``further``, those beyond the fewest, as a share."""
        program, alive, step = self.program, self.alive, 1.0 / self.most
        counts: list[bool] = program.problem.in_sessions.tolist()
        begun = [alive.new(("begun", op)) for op in range(program.problem.ops)]
        for op, group in enumerate(alive.group):
            if counts[op]:
                alive.rows.add([(begun[op], 1.0), (group, -step)], 0.0)
            if self.fewest < self.most:
                alive.rows.add([(further, 1.0), (begun[op], -1.0)], -self.fewest * step)
        for maker, user in edges_of(program):
            never_falls = [(begun[user], 1.0), (begun[maker], -1.0)]
            alive.rows.add(never_falls, 0.0)
            if counts[user] and not counts[maker]:
                alive.rows.add([*never_falls, (alive.group[user], -step)], 0.0)
            elif counts[user] and alive.group[user] != alive.group[maker]:
                alive.rows.add([*never_falls, (alive.group[user], -step), (alive.group[maker], step)], 0.0)


def _together(beside: list[tuple[int, int]]) -> dict[int, int]:
    """Bytes by variable."""
    found = dict[int, int]()
    for variable, nbytes in beside:
        found[variable] = found.get(variable, 0) + nbytes
    return found


def _sizes(beside: list[tuple[int, int]]) -> list[int]:
    """The sizes that most bytes have."""
    together = Counter[int]()
    for _, nbytes in beside:
        together[nbytes] += nbytes
    known = sorted(((whole, size) for size, whole in together.items() if whole), reverse=True)
    return [size for _, size in known[:MOST_SIZES]]


def handed_on(problem: PlacementProblem) -> NDArray[np.bool_]:
    """(V,) What a session makes, on whichever device, for an op that runs apart: it is in a buffer from then on."""
    found, uses = np.zeros(problem.values, np.bool_), problem.value_uses
    found[uses.rows[~problem.in_sessions[uses.ops]]] = True
    made = problem.made & ~problem.value_left_on_host
    found &= made
    found[made] &= problem.in_sessions[problem.value_producer[made]]
    return found
