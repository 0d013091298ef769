"""A bound on placements that stream, by a program for each small number of partitions that leaves something open.

A price sees parts of weights; what streams at once is of whole ones. Few numbers of partitions are in question where
sessions take room, and each has a program small enough to be solved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.inside import Insides
from hetpart.partitioner.bounds.levels import Levels
from hetpart.partitioner.bounds.milp import Effort
from hetpart.partitioner.bounds.mincut import CutNetwork
from hetpart.partitioner.bounds.passing import Passing
from hetpart.partitioner.bounds.price import search_price
from hetpart.partitioner.bounds.program import Program
from hetpart.partitioner.bounds.ring_rows import ring_program
from hetpart.partitioner.scores.sessions import most_others
from hetpart.partitioner.scores.streaming import LEAST_PARTITIONS, ROUNDING, least_partitions, least_sessions, ring

if TYPE_CHECKING:
    from hetpart.partitioner.bounds.clock import Clock
    from hetpart.partitioner.problem import PlacementProblem
    from hetpart.partitioner.scores.streaming import ThreeStates

MOST_NUMBERS = 8
"""Partitions up to which there is a program."""
MOST_OPS = 2000
"""Up to which programs are written down."""
OP_NODES = 60_000
"""Nodes of a search tree times ops."""
NEARLY, NEAR = 0.9, 0.97
"""Of what is enough: what prices must say for programs to be written down, and what a program must say with parts of
groups allowed to be solved."""
GAP = 1e-3
"""Relative; what a program may leave itself."""


def bound_by_rings(states: ThreeStates, within: PlacementProblem, enough: float, clock: Clock) -> float:
    """A bound on what streams something and fits; nothing is looked for beyond ``enough``.

    Args:
        states: Of the problem.
        within: Its placements, with what can fit nowhere shut out.
        enough: As far as the bound matters.
        clock: When it is up no more is solved.
    """
    if within.ops > MOST_OPS:
        return -np.inf
    numbers = Numbers(states, within)
    others, least = numbers.most, least_partitions(within)
    for number in range(least, min(numbers.most, MOST_NUMBERS) + 1):
        if numbers.priced(number + 1, numbers.most) >= enough:
            others = number
            break
    if others > MOST_NUMBERS:
        return -np.inf
    bounds = [numbers.priced(number, number) for number in range(least, others + 1)]
    for place, bound in enumerate(bounds):
        # A program is of partitions that follow each other.
        if enough * NEARLY <= min(bounds) and bound < enough and place + least >= LEAST_PARTITIONS:
            bounds[place] = max(bound, numbers.solved(place + least, enough, clock))
    return min([enough, *bounds])


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """What is said of each number of partitions."""

    states: ThreeStates
    within: PlacementProblem

    @property
    def most(self) -> int:
        """Partitions on the accelerator."""
        session, budget = int(self.within.session_bytes[ACCELERATOR]), int(self.within.budgets[ACCELERATOR])
        most = int(self.within.legal()[ACCELERATOR].sum())
        return min(most, budget // session + most_others(self.within)) if session else most

    def _left(self, partitions: int) -> PlacementProblem | None:
        """What so many partitions' sessions leave."""
        budgets = self.within.budgets.copy()
        budgets[ACCELERATOR] -= least_sessions(self.within, partitions) * int(self.within.session_bytes[ACCELERATOR])
        return None if budgets[ACCELERATOR] < 0 else replace(self.within, budgets=budgets)

    def priced(self, fewest: int, most: int) -> float:
        """What the price of a byte says of so many partitions, from one number to another."""
        left = self._left(fewest) if fewest <= most else None
        if left is None:
            return np.inf
        shared = self.states.with_share(left, float(ring(np.array([most]))[0]) * (1 - ROUNDING))
        return search_price(shared, CutNetwork.of(shared)).bound

    def solved(self, partitions: int, enough: float, clock: Clock) -> float:
        """What the program of so many partitions says, as far as it matters."""
        left = self._left(partitions)
        assert left is not None
        assert self.states.own.streaming is not None
        left = self.states.with_share(left, 0.0)
        insides = Insides.of(self.within, Levels.of(self.states).of_op)
        sizes = self.states.own.streaming.nbytes[self.states.weights]
        linear = ring_program(Program.of(left), sizes, insides, Passing.of(left), partitions)
        bound = linear.relaxed().solve(Effort(GAP, 1, clock.left)).bound
        if bound < enough * NEAR or bound >= enough or clock.expired():
            return bound
        return linear.below(enough).solve(Effort(GAP, max(1, OP_NODES // self.within.ops), clock.left)).bound
