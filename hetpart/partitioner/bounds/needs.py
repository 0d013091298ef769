"""What an op needs on the accelerator while it runs there, and what a session that holds two ops takes at least.

Such a session has all that lies between the two as well: its weights; and at each of these ops all that something made
before it and one of them, it or one behind it, reads: in a buffer or inside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.chain import heaviest_path
from hetpart.partitioner.bounds.moments import Reach
from hetpart.partitioner.problem import NO_OP

if TYPE_CHECKING:
    from hetpart.partitioner.problem import PlacementProblem
    from hetpart.partitioner.uses import Uses


@dataclass(frozen=True, slots=True, eq=False)
class Needs:
    """Values are those that lie on the accelerator only as long as a run needs them there."""

    budget: int
    reach: Reach
    behind: list[int]
    """Per op: a bit for each op that must run after it."""
    runs: list[bool]
    """Per op: whether it runs in a session."""
    sizes: list[int]
    """Per value: bytes."""
    makers: list[int]
    """Per value: the op that makes it, or ``NO_OP``."""
    readers: list[list[int]]
    """Per value: the ops that read it there."""
    touched: list[frozenset[int]]
    """Per op: values that it reads there or makes, each once, but those that ``beside`` tells of."""
    apart: list[frozenset[int]]
    """Per op: those that it tells of."""
    beside: list[int]
    """Per op: bytes that it holds beside values, less than 0 where these share memory."""
    weights: list[list[int]]
    """Per op: the weights that it reads there."""
    weight_bytes: list[int]

    @classmethod
    def of(cls, problem: PlacementProblem) -> Needs:
        kept = np.zeros(problem.values, np.bool_) if problem.states is None else problem.states.keeper != NO_OP
        lying = (problem.value_bytes > 0) & ~(problem.value_left_on_host | problem.given_there | kept)
        reads, weights = _read_there(problem.value_uses, problem.ops), _read_there(problem.weight_uses, problem.ops)
        readers, touched = [list[int]() for _ in range(problem.values)], [set[int]() for _ in range(problem.ops)]
        for op, values in enumerate(reads):
            for value in values:
                if lying[value]:
                    readers[value].append(op)
                    touched[op].add(value)
        makers: list[int] = problem.value_producer.tolist()
        for value in np.flatnonzero(lying & (problem.value_producer != NO_OP)).tolist():
            touched[makers[value]].add(value)
        apart, reach = problem.reordered, Reach.of(problem)
        return cls(
            max(1, int(problem.budgets[ACCELERATOR])), reach, _behind(reach), problem.in_sessions.tolist(),
            problem.value_bytes.tolist(), makers, readers,
            [frozenset(all_ - told) for all_, told in zip(touched, apart, strict=True)], apart,
            problem.beside_bytes.tolist(), weights, problem.weight_bytes.tolist(),
        )  # fmt: skip

    def of_op(self, op: int) -> int:
        """Bytes that the op needs by itself, weights left out."""
        return self.beside[op] + sum(self.sizes[value] for value in self.touched[op])

    def waiting(self, values: list[int], op: int) -> dict[int, int]:
        """Ops behind ``op`` → bytes, of ``values``, that are there for them while it runs if they share its session."""
        found = dict[int, int]()
        for value in values:
            if self.makers[value] < op and value not in self.touched[op] | self.apart[op]:
                behind = (reader for reader in self.readers[value] if self.behind[op] >> reader & 1)
                reader = min(behind, default=NO_OP)
                if reader != NO_OP and self.runs[reader]:
                    found[reader] = found.get(reader, 0) + self.sizes[value]
        return found

    def stays_with(self, value: int, op: int) -> bool:
        """Whether a session inside which the value stays has the op as well."""
        maker = self.makers[value]
        led = maker == op or (maker != NO_OP and self.reach.before(maker, op))
        return led and any(reader == op or self.behind[op] >> reader & 1 for reader in self.readers[value])

    def together(self, first: int, last: int) -> int:
        """Bytes that a session with both ops, one of which leads to the other, takes at least."""
        among = _ops_of((self.behind[first] | 1 << first) & (self.reach.ancestors[last] | 1 << last))
        begins, ends = dict[int, int](), dict[int, int]()
        for op in among:
            for value in self.touched[op]:
                begins.setdefault(value, max(self.makers[value], first))
                ends[value] = op
        change = np.zeros(last - first + 2, np.int64)
        for value, begin in begins.items():
            change[begin - first] += self.sizes[value]
            change[ends[value] - first + 1] -= self.sizes[value]
        alive: list[int] = change.cumsum().tolist()
        told = (
            sum(self.sizes[value] for value in self.apart[op] if begins.get(value, op + 1) <= op <= ends.get(value, op))
            for op in among
        )
        most = max(alive[op - first] + self.beside[op] - twice for op, twice in zip(among, told, strict=True))
        return most + sum(self.weight_bytes[weight] for weight in {one for op in among for one in self.weights[op]})

    def too_long(self, problem: PlacementProblem) -> Iterator[tuple[int, int]]:
        """Pairs of ops of a path that no session has room for; of each first op the nearest such."""
        needed = np.array([max(0, self.of_op(op)) for op in range(len(self.touched))], np.float64)
        path = [op for op in heaviest_path(problem, needed).tolist() if self.runs[op]]
        place = 0
        for at, first in enumerate(path):
            place = max(place, at)
            while place < len(path) and self.together(first, path[place]) <= self.budget:
                place += 1
            if place == len(path):
                return
            yield first, path[place]


def _read_there(uses: Uses, ops: int) -> list[list[int]]:
    """Per op: the rows that it reads on its own device, each once."""
    found = [set[int]() for _ in range(ops)]
    rows: list[int] = uses.rows[~uses.on_host].tolist()
    readers: list[int] = uses.ops[~uses.on_host].tolist()
    for row, op in zip(rows, readers, strict=True):
        found[op].add(row)
    return [sorted(one) for one in found]


def _behind(reach: Reach) -> list[int]:
    found = [0] * len(reach.ancestors)
    for op, before in enumerate(reach.ancestors):
        for earlier in _ops_of(before):
            found[earlier] |= 1 << op
    return found


def _ops_of(bits: int) -> list[int]:
    found = list[int]()
    while bits:
        least = bits & -bits
        found.append(least.bit_length() - 1)
        bits ^= least
    return found
