"""Rows of a problem of three states that every placement keeps which fits the budget.

While an op runs on the accelerator, every weight that it reads there is there, held or streamed, beside all that is
held for other ops; and so is what it reads and makes, and its scratch. What else streams by at that moment is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.bounds.milp import Rows
from hetpart.partitioner.bounds.moments import Moments
from hetpart.partitioner.bounds.program import BYTES, NOBODY, user_groups
from hetpart.partitioner.problem import NO_OP, unique_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.bounds.program import Program
    from hetpart.partitioner.problem import PlacementProblem


def streaming_moments(program: Program) -> Moments:
    """What there is at every op that reads weights which may be streamed, as far as it can exceed the budget."""
    if program.problem.stands_for_weight is None or not program.problem.stands_for_weight.any():
        return Moments(Rows(), 0, ())
    weights, rows, unit = _Streamable.of(program), Rows(), program.unit
    held = program.variables + 1
    # All that is held: the program's bytes, with the whole of what is held in place of what streams by at least.
    terms = [(held, BYTES), (program.variables, -1.0)]
    for share, used, holder in zip(weights.shares, weights.used, weights.holders, strict=True):
        terms += [(used, unit * share), (holder, -unit * share)]
    rows.add(_summed(terms), 0.0)
    most = int(program.problem.weight_bytes.sum()) + program.problem.given_bytes
    for op, (there, alive) in weights.read_by(program).items():
        if alive + most > program.budget:
            brought = sum(weights.sizes[place] for place in there) + alive
            kept = [(weights.holders[place], unit * weights.sizes[place]) for place in there]
            group = int(program.of_op[op])
            rows.add(_summed([(held, -BYTES), (group, -unit * brought), *kept]), -unit * program.budget)
    return Moments(rows, 1, ())


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

    def read_by(self, program: Program) -> dict[int, tuple[list[int], int]]:
        """Per op that reads some of them on its own device: which, and the bytes of all else that it needs there."""
        problem = program.problem
        place = {value: number for number, value in enumerate(self.values)}
        uses = problem.value_uses
        here = ~uses.on_host
        here &= ~problem.given_there[uses.rows]  # counted with weights
        values, ops = unique_pairs(uses.rows[here], uses.ops[here].astype(np.int64))
        made = np.flatnonzero((problem.value_producer != NO_OP) & ~problem.value_left_on_host)
        alive = problem.scratch_bytes.astype(np.int64)
        np.add.at(alive, ops, problem.value_bytes[values])
        np.add.at(alive, problem.value_producer[made], problem.value_bytes[made])
        found: dict[int, tuple[list[int], int]] = {}
        for value, op in zip(values.tolist(), ops.tolist(), strict=True):
            if value in place:
                found.setdefault(op, ([], int(alive[op])))[0].append(place[value])
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
