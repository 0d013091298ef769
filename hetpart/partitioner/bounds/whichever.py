"""Rows of what an op needs while it runs, in whichever session that is.

Rows that tell of every session what it holds let half of an op run in each of two, which hold half of its bytes each.
But an op runs once: all that it reads and makes is on its device then, in a buffer or inside its session, and so is
what the session has already and an op behind it, in the same session, is still to read. Two ops of a path that no
session has room for are in two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetpart.partitioner.bounds.needs import Needs

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetpart.partitioner.bounds.milp import Rows
    from hetpart.partitioner.problem import PlacementProblem

HEAVY = 0.02
"""Of the budget, what values take at least that are looked at one by one."""
Terms = list[tuple[int, float]]
"""Of a row: variables with their factors."""


def needy(problem: PlacementProblem) -> bool:
    """Whether some op needs so much that these rows tell something."""
    return bool(_heavy(Needs.of(problem)))


@dataclass(frozen=True, slots=True)
class Whichever:
    """Variables of a program that says in which session every op runs."""

    rows: Rows
    new: Callable[[], int]
    """A variable more."""
    begun: list[list[int]]
    """Per op: the variables that are 1 where it has come to a stage; they never fall along an edge."""
    there: Callable[[int], Terms]
    """1 where an op is in some session."""
    inner: list[dict[int, int]]
    """Per session: values → variables that are 1 where they stay inside it."""
    border: int
    """The share of the budget that buffers take."""
    inside: int
    """The share that is alive inside a session."""

    def add(self, problem: PlacementProblem) -> None:
        """Adds the rows."""
        needs = Needs.of(problem)
        heavy = _heavy(needs)
        large = [value for value in self.inner[0] if needs.sizes[value] >= HEAVY * needs.budget]
        for op in heavy:
            more = (value for value in large if value not in needs.apart[op] and needs.stays_with(value, op))
            self._inside(needs, op, sorted({*needs.touched[op], *more}))
            self._needed(needs, op, needs.waiting(large, op))
        for first, last in needs.too_long(problem) if heavy else ():
            self.rows.add([*self._come(last, 1.0), *self._come(first, -1.0), *_less(self.there(first))], 0.0)

    def _come(self, op: int, factor: float) -> Terms:
        """How many stages an op has come to."""
        return [(at, factor) for at in self.begun[op]]

    def _inside(self, needs: Needs, op: int, values: list[int]) -> None:
        """All of ``values`` that stay inside a session are in that of ``op``."""
        held = [(one[value], float(needs.sizes[value])) for one in self.inner for value in values if value in one]
        beside = [(at, factor * needs.beside[op]) for at, factor in self.there(op)]
        if held:
            self._at_most(needs.budget, [(self.inside, 1.0)], held + beside)

    def _needed(self, needs: Needs, op: int, waiting: dict[int, int]) -> None:
        """``op`` needs its own bytes, and beside it what is ``waiting`` for ops that run in the same session."""
        there = self.there(op)
        held = [(at, factor * needs.of_op(op)) for at, factor in there]
        for reader, nbytes in sorted(waiting.items()):
            together = self.new()
            self.rows.add([(together, 1.0), *_less(there), *self._come(reader, 1.0), *self._come(op, -1.0)], 0.0)
            held.append((together, float(nbytes)))
        self._at_most(needs.budget, [(self.border, 1.0), (self.inside, 1.0)], held)

    def _at_most(self, budget: int, shares: Terms, held: Terms) -> None:
        self.rows.add([*shares, *((at, -nbytes / budget) for at, nbytes in held)], 0.0)


def _heavy(needs: Needs) -> list[int]:
    """Ops that need much."""
    return [op for op, runs in enumerate(needs.runs) if runs and needs.of_op(op) >= HEAVY * needs.budget]


def _less(terms: Terms) -> Terms:
    return [(variable, -factor) for variable, factor in terms]
