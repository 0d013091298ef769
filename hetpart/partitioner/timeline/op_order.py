"""What ops of one partition come before or after others of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.problem import NO_OP
from hetpart.partitioner.uses import unique_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.problem import PlacementProblem

Links = dict[int, list[int]]


@dataclass(frozen=True, slots=True, eq=False)
class OpOrder:
    """The edges between all ops, as pairs, and which of the ops are one."""

    producers: NDArray[np.int64]
    users: NDArray[np.int64]
    atoms: NDArray[np.int64]
    """(N,) Ops of one number stay together."""

    @classmethod
    def of(cls, problem: PlacementProblem, atoms: Sequence[int]) -> OpOrder:
        uses = problem.value_uses
        producers = problem.value_producer[uses.rows].astype(np.int64)
        made = producers != NO_OP
        found = unique_pairs(producers[made], uses.ops[made].astype(np.int64))
        return cls(*found, np.array(atoms, np.int64))

    def among(self, ops: NDArray[np.int64]) -> Neighbours:
        """The edges between ``ops`` alone, which ascend."""
        mine = np.zeros(len(self.atoms), np.bool_)
        mine[ops] = True
        inside = mine[self.producers] & mine[self.users]
        pairs = list(zip(self.producers[inside].tolist(), self.users[inside].tolist(), strict=True))
        mates: Links = {}
        for op, atom in zip(ops.tolist(), self.atoms[ops].tolist(), strict=True):
            mates.setdefault(atom, []).append(op)
        before: Links = {op: together for together in mates.values() for op in together}
        after: Links = {op: list(together) for op, together in before.items()}
        before = {op: list(together) for op, together in before.items()}
        for producer, user in pairs:
            before[user].append(producer)
            after[producer].append(user)
        return Neighbours(before, after)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Per op of one partition, the others that must run in the part before it, or after it. Its mates are in both."""

    before: Links
    after: Links

    def up_to(self, ops: Iterable[int]) -> frozenset[int]:
        """``ops`` and all that they need."""
        return _reached(self.before, ops)

    def since(self, ops: Iterable[int]) -> frozenset[int]:
        """``ops`` and all that need them."""
        return _reached(self.after, ops)


def _reached(links: Links, ops: Iterable[int]) -> frozenset[int]:
    found = set(ops)
    waiting = list(found)
    while waiting:
        for other in links[waiting.pop()]:
            if other not in found:
                found.add(other)
                waiting.append(other)
    return frozenset(found)
