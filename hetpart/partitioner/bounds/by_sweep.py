"""Rows that tell what lies between partitions from what is inside them, where it is known which sweep numbers those.

A partition of the accelerator is followed through the graph: of an op that is there its own, of any other the next that
edges lead to; against edges, the one before. Where no edge of what lies between two ops falls from the accelerator to
the host, both come to the same partition, so that all that enters it or leaves it there is in buffers at once:
branches that part and meet again are counted together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hetpart.partitioner.bounds.apart import Builder
from hetpart.partitioner.bounds.certain import Certain, Sweep
from hetpart.partitioner.bounds.moments import Alive, Moments

if TYPE_CHECKING:
    from hetpart.partitioner.bounds.apart import Terms
    from hetpart.partitioner.bounds.certain import Case
    from hetpart.partitioner.bounds.program import Program

Pair = tuple[int, int]


def by_sweep(sweep: Sweep) -> Callable[[Program], Moments]:
    """As ``between_and_inside``, of placements whose partitions ``sweep`` numbers: one of the two does for each."""

    def rows(program: Program) -> Moments:
        alive = Alive.of(program)
        return _BySweep(alive, Certain.of(alive, sweep)).build()

    return rows


@dataclass(slots=True, eq=False)
class _BySweep(Builder):
    counted: list[int] = field(init=False)
    """Per value: a bit for each op that it is counted for."""

    def along_partitions(self) -> None:
        """What enters and leaves the partition that an op comes to, with what waits while the op runs.

        Ops form trees, each with the last op before it that all paths share as its parent, or the first behind it. What
        is counted for an op is counted for its parent as well where the two come to one partition; and every value for
        one op alone that leaves it, and for one that brings it.
        """
        self.counted = [0] * len(self.alive.sizes)
        trees, own = _Trees.of(self.certain), self._brought_and_left()
        below: list[list[tuple[int, float]]] = [[] for _ in own]
        """Per op: variables of its children's bytes, with the most that each can be."""
        for op in trees.children_first:
            shares = self.shares(own[op], 1.0)
            if not shares and not below[op]:
                continue
            variable = self._sum_of(op, shares, below[op])
            self._beside(op, variable, trees.under[op])
            parent, most = trees.parents[op], min(1.0, sum(most for _, most in (*shares, *below[op])))
            pairs = None if parent is None else self.certain.linked(parent, op)
            if parent is not None and pairs is not None:
                below[parent].append((self._joined(op, variable, most, pairs), most))

    def _sum_of(self, op: int, shares: list[tuple[int, float]], below: list[tuple[int, float]]) -> int:
        """The variable that is at least what is an op's own and its children's."""
        if not shares and len(below) == 1:
            return below[0][0]
        variable = self.alive.new(("sum", op))
        terms = [*((own, -share) for own, share in shares), *((child, -1.0) for child, _ in below)]
        self.alive.rows.add([(variable, 1.0), *terms], 0.0)
        return variable

    def _joined(self, op: int, below: int, most: float, pairs: tuple[Pair, ...]) -> int:
        """The variable that is at least ``below``, which is ``most`` at most, unless one of ``pairs`` falls."""
        if not pairs:
            return below
        joined = self.alive.new(("joined", op))
        falls = [(self._falls(pair), most) for pair in pairs]
        self.alive.rows.add([(joined, 1.0), (below, -1.0), *falls], 0.0)
        return joined

    def _falls(self, pair: Pair) -> int:
        """The variable that is 0 unless the first of ``pair`` is on the accelerator and the second is not."""
        key = ("falls", pair)
        if key not in self.alive.extra:
            variable = self.alive.new(key)
            self.alive.rows.add([(pair[0], 1.0), (variable, -1.0)], 0.0)
            self.alive.rows.add([(pair[1], -1.0), (variable, -1.0)], -1.0)
        return self.alive.extra[key]

    def _beside(self, op: int, below: int, under: int) -> None:
        """Most between is at least ``below``, and what waits while ``op`` runs and is not counted for ops ``under``."""
        waiting = self.summed(
            (value, self.buffered(op, value)) for value in self.live[op] if not self.counted[value] & under
        )
        self.alive.rows.add([(self.between, 1.0), (below, -1.0), *self.shares(waiting, -1.0)], 0.0)

    def _brought_and_left(self) -> list[Terms]:
        """Per op: bytes by variable of what it makes that leaves its partition, and of what is brought to it first.

        Against edges, what is brought to it last.
        """
        alive, certain = self.alive, self.certain
        cases: list[list[tuple[int, list[Case]]]] = [[] for _ in certain.sources]
        for value, size in enumerate(alive.sizes):
            maker, readers = alive.reach.makers[value], alive.readers[value]
            # A state may lie on another device than the op that makes it.
            if size and maker >= 0 and alive.homes[value] == alive.group[maker]:
                cases[maker].append((value, certain.leaves(value)))
                self.counted[value] |= 1 << maker
            if size and readers:
                reader = readers[-1 if certain.sweep is Sweep.AGAINST else 0]
                cases[reader].append((value, certain.enters(value, reader)))
                self.counted[value] |= 1 << reader
        return [self.summed(found) for found in cases]


@dataclass(frozen=True, slots=True, eq=False)
class _Trees:
    """Ops whose partitions are looked at together."""

    parents: list[int | None]
    under: list[int]
    """Per op: a bit for itself and for all below it."""
    children_first: list[int]

    @classmethod
    def of(cls, certain: Certain) -> _Trees:
        against = certain.sweep is Sweep.AGAINST
        ops = range(len(certain.sources))
        parents = [certain.outlet(op) if against else certain.gate(op) for op in ops]
        order = [*(ops if against else reversed(ops))]
        under = [1 << op for op in ops]
        for op in order:
            parent = parents[op]
            if parent is not None:
                under[parent] |= under[op]
        return cls(parents, under, order)
