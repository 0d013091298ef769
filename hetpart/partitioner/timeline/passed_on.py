"""Who waits for a partition by way of ops of its device that run apart, as updates for gradients through their sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.problem import NO_OP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.problem import PlacementProblem
    from hetpart.partitioner.scores.cut import Cut
    from hetpart.partitioner.timeline.op_order import OpOrder
    from hetpart.partitioner.timeline.timed import Timed, Values

Ops = frozenset[int]


@dataclass(frozen=True, slots=True, eq=False)
class PassedOn:
    """Follows the values of a partition into others, and through those of its device that run apart."""

    problem: PlacementProblem
    order: OpOrder

    def urgency(self, timed: Timed, partition: int) -> Values:
        """Per value that ``partition`` hands on, the longest chain of tasks of other lanes that waits for it.

        What ops that run apart are given is waited for as what they make of it is.
        """
        found, uses, of = dict(_urgency(timed, partition)), self.problem.value_uses, timed.cut.partition
        makers = self.problem.value_producer[uses.rows]
        mine = (makers != NO_OP) & (of[makers] == partition)
        for then in self._apart_from(timed.cut, partition):
            read = mine & (of[uses.ops] == then)
            chains = self._chains(timed, then) if read.any() else np.zeros(self.problem.ops)
            for value, op in zip(uses.rows[read].tolist(), uses.ops[read].tolist(), strict=True):
                if chains[op]:
                    found[value] = max(found.get(value, 0.0), float(chains[op]))
        return found

    def _chains(self, timed: Timed, partition: int) -> NDArray[np.float64]:
        """(N,) Per op of ``partition``, the longest chain that waits for what is made of its results; 0 elsewhere."""
        handed, of = _urgency(timed, partition), timed.cut.partition
        chains = np.zeros(self.problem.ops)
        np.maximum.at(chains, self.problem.value_producer[list(handed)], list(handed.values()))
        makers, users = self.order.producers, self.order.users
        inside = np.flatnonzero((of[makers] == partition) & (of[users] == partition))
        for edge in inside[np.argsort(-users[inside], kind="stable")].tolist():
            chains[makers[edge]] = max(chains[makers[edge]], chains[users[edge]])
        return chains

    def followed(self, cut: Cut, partition: int, first: Ops) -> tuple[tuple[int, Ops], ...]:
        """``first`` of ``partition``, and of those that both its parts lead to what needs none of the second."""
        of, makers, users = cut.partition, self.order.producers, self.order.users
        early, late = np.zeros(len(of), np.bool_), of == partition
        early[list(first)], late[list(first)] = True, False
        apart = self._apart_from(cut, partition)
        found = [(partition, first)]
        for other in (*apart, *np.flatnonzero(cut.devices != cut.devices[partition]).tolist()):
            into = of[users] == other
            waiting = users[into & late[makers]].tolist()
            if not waiting or not (into & early[makers]).any():
                continue
            ops = np.flatnonzero(of == other)
            ready = frozenset(ops.tolist()) - self.order.among(ops).since(waiting)
            found += [(other, ready)] if ready else []
            if other in apart:
                early[list(ready)] = True
                late[ops] = ~early[ops]
        return tuple(sorted(found, key=lambda one: one[0]))

    def _apart_from(self, cut: Cut, partition: int) -> list[int]:
        """Partitions of the same device that are others because ONNX Runtime runs one of both alone."""
        if self.problem.apart is None:
            return []
        apart = np.zeros(cut.partitions, np.bool_)
        apart[cut.partition] = self.problem.apart
        return np.flatnonzero((cut.devices == cut.devices[partition]) & (apart != apart[partition])).tolist()


def _urgency(timed: Timed, partition: int) -> Values:
    return timed.urgency[int(timed.found.of_partition[partition])]
