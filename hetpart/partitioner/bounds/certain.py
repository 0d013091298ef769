"""What is certain of partitions from where some ops run: which ops share one, and which values lie between two.

``scores.cut`` makes as few partitions as two sweeps find, by the most device changes on a path to an op, or from it. Of
two ops on the accelerator, one before the other, the path with most changes to the later one ends there in ops of the
accelerator behind some last op elsewhere. Where all ops that lead to the later and not to the earlier one are on the
accelerator, that last op leads to the earlier one too, which hence comes behind as many changes. So the two share a
partition of the sweep along edges where all those are on the accelerator; and of the sweep against edges where all are
that follow the earlier but not the later one. In either they do not where an op between them is on the host, and hence
no op does that certainly shares the partition of one of the two with the other. Of problems whose sessions may be cut
finer no two ops share one for certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.bounds.program import NOBODY

if TYPE_CHECKING:
    from hetpart.partitioner.bounds.moments import Alive

MOST_OPS = 32
"""On whose devices one thing may depend. What depends on more is left out: a bound is weaker for it, never wrong."""
MOST_LINKED = 128
"""The same of one sweep's partitions."""


class Sweep(Enum):
    """By which partitions are numbered."""

    ALONG = "along edges"
    AGAINST = "against edges"
    EITHER = "whichever makes fewer partitions"
    NEITHER = "cut finer than either does"


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """Groups, or variables, that are 1, and groups that are 0."""

    ones: tuple[int, ...]
    zeros: tuple[int, ...] = ()

    @classmethod
    def of(cls, ones: Iterable[int], zeros: Iterable[int] = ()) -> Case:
        """Nobody is always 0."""
        return cls(tuple(sorted({*ones})), tuple(sorted({*zeros} - {NOBODY})))

    @property
    def possible(self) -> bool:
        return not {*self.ones} & {*self.zeros}


@dataclass(frozen=True, slots=True, eq=False)
class Certain:
    """What is certain of the partitions of a program's placements."""

    alive: Alive
    users: tuple[tuple[int, ...], ...]
    """Per value: all ops that use it, wherever they read it."""
    sources: tuple[tuple[int, ...], ...]
    """Per op: the ops whose values it uses."""
    readers: tuple[tuple[int, ...], ...]
    """Per op: the ops that use its values."""
    followers: list[int]
    """Per op: a bit for each op that must run after it."""
    returned: list[bool]
    apart: int
    """A bit for each op whose partition holds no others."""
    sweep: Sweep

    @classmethod
    def of(cls, alive: Alive, sweep: Sweep = Sweep.EITHER) -> Certain:
        problem, makers = alive.program.problem, alive.reach.makers
        users: list[set[int]] = [set[int]() for _ in makers]
        sources: list[set[int]] = [set[int]() for _ in range(problem.ops)]
        rows: list[int] = problem.value_uses.rows.tolist()
        ops: list[int] = problem.value_uses.ops.tolist()
        for value, op in zip(rows, ops, strict=True):
            users[value].add(op)
            if makers[value] >= 0:
                sources[op].add(makers[value])
        followers = [0] * problem.ops
        readers: list[set[int]] = [set[int]() for _ in range(problem.ops)]
        for op in reversed(range(problem.ops)):
            for earlier in sources[op]:
                followers[earlier] |= followers[op] | 1 << op
                readers[earlier].add(op)
        apart: list[int] = [] if problem.apart is None else np.flatnonzero(problem.apart).tolist()
        return cls(
            alive, _sorted(users), _sorted(sources), _sorted(readers), followers, problem.value_returned.tolist(),
            sum(1 << op for op in apart), sweep,
        )  # fmt: skip

    def variable(self, cases: Iterable[Case]) -> int:
        """The variable that is 1 in any of ``cases``; nobody where none is possible."""
        key = tuple(sorted({case for case in cases if case.possible}))
        if not key:
            return NOBODY
        if len(key) == 1 and len(key[0].ones) == 1 and not key[0].zeros:
            return key[0].ones[0]
        if key not in self.alive.extra:
            variable = self.alive.new(key)
            for case in key:
                terms = [*((one, -1.0) for one in case.ones), *((zero, 1.0) for zero in case.zeros)]
                self.alive.rows.add([(variable, 1.0), *terms], 1.0 - len(case.ones))
        return self.alive.extra[key]

    def together(self, op: int, *later: int) -> tuple[int, ...]:
        """Groups that make ``op`` and those ``later`` share a partition where all are on the accelerator, if any do."""
        if self.sweep is Sweep.NEITHER:
            return ()
        before, after = self.alive.reach.ancestors, self.followers
        ops = 1 << op
        for other in later:
            ops |= 1 << other
            ops |= before[other] & ~before[op] if self.sweep is not Sweep.AGAINST else 0
            ops |= after[op] & ~after[other] if self.sweep is not Sweep.ALONG else 0
        most = MOST_OPS if self.sweep is Sweep.EITHER else MOST_LINKED
        return () if ops & self.apart or ops.bit_count() > most else self._groups(ops)

    def _groups(self, ops: int) -> tuple[int, ...]:
        return tuple(sorted({self.alive.group[one] for one in _ops(ops)}))

    def gate(self, op: int) -> int | None:
        """The last op that leads to all ops that ``op`` uses values of, or is the only one of those."""
        before = self.alive.reach.ancestors
        shared = -1
        for source in self.sources[op]:
            shared &= before[source] | 1 << source
        return shared.bit_length() - 1 if self.sources[op] and shared else None

    def outlet(self, op: int) -> int | None:
        """The first op that follows all ops that use values of ``op``, or is the only one of those."""
        shared = -1
        for reader in self.readers[op]:
            shared &= self.followers[reader] | 1 << reader
        return (shared & -shared).bit_length() - 1 if self.readers[op] and shared else None

    def linked(self, one: int, other: int) -> tuple[tuple[int, int], ...] | None:
        """Pairs of groups such that two ops come to the same partition of the accelerator, unless a pair falls.

        That is the partition of an op which is there, of any other the next that edges lead to; backwards, the one
        before. A pair falls where the first is on the accelerator and the second is not. None where nothing is known.
        """
        ends, (near, far) = sorted((one, other)), (self.sources, self.readers)
        before, after = self.alive.reach.ancestors, self.followers
        if self.sweep is Sweep.AGAINST:
            ends, (near, far), (before, after) = ends[::-1], (far, near), (after, before)
        first, last = ends
        region = before[last] & ~before[first] | 1 << first | 1 << last
        if region & self.apart or region.bit_count() > MOST_LINKED:
            return None
        inner = [op for op in _ops(region) if op != first]
        edges = {(source, op) for op in inner for source in near[op] if region >> source & 1}
        edges |= {(first, op) for op in inner if not after[first] >> op & 1}
        group = self.alive.group
        return tuple(sorted({(group[source], group[op]) for source, op in edges if group[source] != group[op]}))

    def stays_inside(self, value: int) -> list[Case]:
        """When ``value`` is certainly inside a partition of the accelerator."""
        maker = self.alive.reach.makers[value]
        if maker < 0 or self.returned[value] or not self.users[value]:
            return []
        groups = self.together(maker, *self.users[value])
        return [Case(groups)] if groups else []

    def stays_inside_beside(self, value: int, op: int) -> list[Case]:
        """When ``value`` is certainly inside the partition of ``op``, which runs behind its maker, before a user.

        Ops of a partition run in the order they have, whether or not an edge says so.
        """
        maker, users = self.alive.reach.makers[value], self.users[value]
        if self.returned[value] or not users or not 0 <= maker < op < users[-1]:
            return []
        groups = self.all_together((maker, op, *users))
        return [Case(groups)] if groups else []

    def all_together(self, ops: tuple[int, ...]) -> tuple[int, ...]:
        """As ``together``, of ops in any order: where they share the partition of one before them all, or behind."""
        before, after = self.alive.reach.ancestors, self.followers
        first, last = -1, -1
        for op in ops:
            first &= before[op] | 1 << op
            last &= after[op] | 1 << op
        found = list[tuple[int, ...]]()
        if first:
            found.append(self.together(first.bit_length() - 1, *ops))
        if last:
            end = (last & -last).bit_length() - 1
            pairs = [self.together(op, end) for op in ops]
            found.append(tuple(sorted({group for pair in pairs for group in pair})) if all(pairs) else ())
        return min(filter(None, found), key=len, default=())

    def leaves(self, value: int) -> list[Case]:
        """When ``value``, made on the accelerator, certainly lies in a buffer there from its maker's partition on."""
        home, down = self.alive.homes[value], self.alive.program.down.get(value)
        if home == NOBODY:
            return []
        copied = [home] if self.returned[value] else [] if down is None else [down]
        if any(self._parted(value, user) for user in self.users[value]):
            copied = [home]
        return [*(Case((one,)) for one in copied), *self._behind_others(value, self.alive.readers[value])]

    def waits(self, value: int, readers: list[int]) -> list[Case]:
        """When ``value``, made on the accelerator, lies in a buffer there until one of ``readers`` has run there."""
        home, down = self.alive.homes[value], self.alive.program.down.get(value)
        if home == NOBODY:
            return []
        copied = [home] if self.returned[value] else [] if down is None else [down]
        read = [Case.of((one, self.alive.group[reader])) for one in copied for reader in readers]
        read += [Case.of((home, self.alive.group[reader])) for reader in readers if self._parted(value, reader)]
        return [*read, *self._behind_others(value, readers)]

    def enters(self, value: int, reader: int) -> list[Case]:
        """When ``reader``, on the accelerator, certainly finds ``value`` in a buffer from elsewhere."""
        elsewhere = () if self._parted(value, reader) else (self.alive.homes[value],)
        brought = Case.of((self.alive.group[reader],), elsewhere)
        return [*([brought] if brought.possible else []), *self._behind_others(value, [reader])]

    def _parted(self, value: int, user: int) -> bool:
        """Whether a partition that runs apart makes ``value`` for one that does not, or the other way round."""
        maker = self.alive.reach.makers[value]
        return maker >= 0 and bool((self.apart >> maker ^ self.apart >> user) & 1)

    def _behind_others(self, value: int, readers: list[int]) -> list[Case]:
        """Made on the accelerator, and read there by one of ``readers`` in another partition."""
        home, maker = self.alive.homes[value], self.alive.reach.makers[value]
        if home == NOBODY or maker < 0:
            return []
        found: set[Case] = set()
        for reader in readers:
            between = self.followers[maker] & self.alive.reach.ancestors[reader]
            ends = home, self.alive.group[reader]
            found.update(Case.of(ends, (self.alive.group[op],)) for op in islice(_ops(between), MOST_OPS))
            found.update(self._around(maker, reader, ends))
        return sorted(case for case in found if case.possible)

    def _around(self, maker: int, reader: int, ends: tuple[int, int]) -> Iterator[Case]:
        """Where one of the two shares a partition that the other does not, since an op beside them is on the host."""
        if self.sweep is Sweep.ALONG:
            gate = self.gate(reader)
            near = () if gate is None or gate == maker else self.together(gate, maker)
            apart = NOBODY if gate is None or not near else self._apart(gate, reader)
        elif self.sweep is Sweep.AGAINST:
            outlet = self.outlet(maker)
            near = () if outlet is None or outlet == reader else self.together(reader, outlet)
            apart = NOBODY if outlet is None or not near else self._apart(maker, outlet)
        else:
            return
        if apart != NOBODY:
            yield Case.of((*near, *ends, apart))

    def _apart(self, earlier: int, later: int) -> int:
        """The variable that is 1 where an op between these, both on the accelerator, is on the host."""
        ends = self.alive.group[earlier], self.alive.group[later]
        between = self._groups(self.followers[earlier] & self.alive.reach.ancestors[later])[:MOST_OPS]
        return self.variable(Case.of(ends, (group,)) for group in between)


def _sorted(rows: list[set[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(sorted(row)) for row in rows)


def _ops(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
