"""The mixed-integer program that closes what the price of a byte leaves open.

A price bounds nothing tightly where one block of ops flips at once, and it knows nothing of activations. The program
knows both. It is solved over what a better placement may still differ in: groups that provably stand where the cheapest
cut at the price has them are fixed, first all but the most doubtful half, then those that no placement turns which is
cheaper than the best one known. What is left out costs more than the limit it was left out by, so the bound is the
least of that limit and the program's own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.clock import Clock
from hetpart.partitioner.bounds.digits import kept_exactly
from hetpart.partitioner.bounds.halving import MOST_OPS as MOST_HALVED
from hetpart.partitioner.bounds.halving import Halving
from hetpart.partitioner.bounds.highs import refuted
from hetpart.partitioner.bounds.margins import Margins, margins
from hetpart.partitioner.bounds.milp import Effort
from hetpart.partitioner.bounds.program import Program
from hetpart.partitioner.problem import NO_BUDGET
from hetpart.partitioner.scores.scoring import weight_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hetpart.partitioner.bounds.milp import LinearProgram, Outcome
    from hetpart.partitioner.bounds.moments import Moments
    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.scores.scoring import Scored

AIM = 9e-4
"""Relative gap that is asked for where weights alone fill the budget: less than what shows as 0.1 %."""
AIM_WITH_MOMENTS = 9.5e-3
"""The same where activations do: what order adds to them, which the program leaves out, is more than that."""
AIM_SHARP = 4e-3
"""The same where the rows tell most of what order adds."""
ROOM = 1e-6
"""Of the budget, by which programs have more of it that are to have no solution."""
FAR, FAR_GROUPS = 0.8, 64
"""Of what matters, a bound that is not worth a large tree; and groups up to which none is large."""
MOST_GROUPS = 6000
"""Groups up to which the program is written down at all."""
MOST_ROWS = 20_000
"""Rows of what is alive up to which it is solved in any case: beyond, its first relaxation alone takes up to 40 s."""
AMPLE_SECONDS = 60.0
"""Left, larger ones are begun too: less would be spent on what does not end in time and proves nothing."""
MOST_TURNED = 2500
"""Groups up to which each is turned."""
MOST, NEARLY_ALL = 0.8, 0.1
"""Of the gap that is asked for, what a program may leave itself."""
GROUP_NODES = 300_000
"""Nodes of a search tree times groups: large programs get fewer nodes, and at least one."""
MOMENTS_SHARE = 0.02
"""Of the nodes, where activations fill the budget: those programs' nodes take longer."""
WHOLE_SHARE = 1.5
"""The same where the rows speak of partitions: those programs close."""
SHARP_SHARE = 0.03
"""The same where they tell what lies between partitions from what is inside them."""
SMALL_SHARE = 3.0
"""The same of small programs: their nodes take little time."""
CORE_SHARE = 0.1
"""Of the nodes: what the first, small program gets."""
CORE = 0.5
"""Share of the groups that it leaves open."""
FITTED_GAP = 1e-2
"""Relative; of programs that only look for a placement."""
MOST_FITTED = 2
"""Times less and less room is tried."""
FITTED_GROUPS, NEAR = 256, 0.05
"""Up to which that is done with rows that tell inside from between; beyond, where a relaxation takes seconds, only for
what is so near to its bound."""
NEAR_IN_PARTS, IN_PARTS = 0.04, 3.0
"""How near a placement is, relative, to a bound that programs of some placements each are to raise; of the nodes, what
each of those gets."""


@dataclass(slots=True, eq=False)
class Relaxation:
    """The program of a problem: everything but what the order of partitions adds to the peak."""

    program: Program
    moments: Moments
    price: float
    """Of a byte, at which groups are proven to stand where they stand."""
    clock: Clock
    bound: float
    """No placement that fits costs less."""
    _margins: Margins | None = None
    """Once they are asked for: a bound with parts of groups allowed needs none."""

    @property
    def margins(self) -> Margins:
        """How much every group costs at least on the side that it is not given."""
        if self._margins is None:
            turned = self.clock.expired if self.program.groups <= MOST_TURNED else lambda: True
            self._margins = margins(self.program, self.price, turned)
        return self._margins

    @classmethod
    def of(
        cls,
        problem: PlacementProblem,
        price: float,
        bound: float,
        clock: Clock,
        rows: Callable[[Program], Moments],
    ) -> Relaxation | None:
        """The relaxation of ``problem``, or nothing where no budget binds or it is too large.

        Args:
            problem: What to relax.
            price: Of a byte, at which groups are proven to stand where they stand.
            bound: Known already.
            clock: When it is up nothing more is solved.
            rows: What is held beside weights.
        """
        groups = len(np.unique(problem.groups))
        if problem.budgets[ACCELERATOR] == NO_BUDGET or groups > MOST_GROUPS or clock.expired():
            return None
        program = Program.of(problem)
        alive = rows(program)
        if len(alive.rows.least) > MOST_ROWS and clock.left < AMPLE_SECONDS:
            return None
        return cls(program, alive, price, clock, bound)

    def tighten(self, known: Scored, score: Callable[[Placement], Scored]) -> list[Scored]:
        """Raise the bound as far as it matters to ``known``; every placement met on the way, the best bound's last."""
        met: list[Scored] = []
        core = float(np.sort(self.margins.turned)[int(CORE * self.program.groups)])
        for limit, share in ((core, CORE_SHARE), (np.inf, 1.0)):
            # No bound of the program exceeds what it itself places, whether that fits or not.
            cost = min([limit, self._aim(known.cost), *(found.cost for found in met)])
            hopeless = cost < FAR * self._aim(known.cost) and self.program.groups > FAR_GROUPS
            if self.bound < cost and not self.clock.expired():
                found = self._below(cost, CORE_SHARE if hopeless else share)
                self.bound = max(self.bound, min(cost, found.bound))
                met += [score(placement) for placement in self._placed(found)]
        return met

    def shut_out(self, known: Scored, score: Callable[[Placement], Scored], share: float = 1.0) -> list[Scored]:
        """Raise the bound as far as it matters to ``known`` if nothing that costs less is in the program.

        That is soon proven where it is so; else what comes back is what was met in a ``share`` of the nodes.
        """
        aim = self._aim(known.cost)
        if self.bound >= aim or self.clock.expired():
            return []
        found = self._under(aim, share)
        self.bound = max(self.bound, min(aim, found.bound))
        return [score(placement) for placement in self._placed(found)]

    def halve(
        self, known: Scored, look: Callable[[Placement], Scored], stages: Callable[[Program], Moments] | None = None
    ) -> None:
        """Raise the bound by halves of the program, as far as it matters.

        Args:
            known: The best placement so far.
            look: Is shown what relaxed solutions are nearest to, which need not fit; gives the best placement then.
            stages: Rows to take in place of these.
        """
        aim = self._aim(known.cost)
        if self.bound >= aim or self.program.problem.ops > MOST_HALVED or self.clock.expired():
            return
        moments = self.moments if stages is None else stages(self.program)
        halving = Halving.of(self.program, moments, self.margins.sides(aim))
        raised = halving.raised(aim, self.clock, lambda placement: self._aim(look(placement).cost))
        self.bound = max(self.bound, min(aim, raised))

    def refute(self, known: Scored) -> None:
        """Raise the bound as far as it matters to ``known``, where that nothing costs less is soon proven."""
        aim = self._aim(known.cost)
        done = self.bound >= aim or self.clock.expired()
        if not done and refuted(self._linear(self.margins.sides(aim), self._roomy), aim, self.clock.left):
            self.bound = aim

    def in_parts(
        self, parts: tuple[Callable[[Program], Moments], ...], known: Scored, score: Callable[[Placement], Scored]
    ) -> list[Scored]:
        """Raise the bound by programs of some placements each, if ``known`` is near to it; every placement met.

        No more are solved once one of them says no more than is known. Trees of what is no cheaper than what is asked
        for end soon, so no more is asked for than where activations fill a budget.
        """
        met: list[Scored] = []
        bound = known.cost * (1 - AIM_WITH_MOMENTS)
        near = self.moments.sharp and self.bound >= known.cost * (1 - NEAR_IN_PARTS)
        if not near or self.bound >= bound:
            return met
        for rows in parts:
            found = replace(self, moments=rows(self.program))._under(bound, IN_PARTS)
            met += [score(placement) for placement in self._placed(found)]
            bound = min(bound, found.bound)
            if bound <= self.bound or self.clock.expired():
                return met
        self.bound = bound
        return met

    def relaxed(self) -> list[Placement]:
        """Raise the bound by what the program says with parts of groups allowed; the placement nearest to that."""
        found = self._linear(None, self.program.budget).relaxed().solve(Effort(self._gap, 1, self.clock.left))
        self.bound = max(self.bound, found.bound)
        return self._placed(found)

    def fitted(self, misfit: Scored, score: Callable[[Placement], Scored]) -> list[Scored]:
        """Cheap placements with less room, by what ``misfit`` and then the last one exceeded, until one fits."""
        met: list[Scored] = []
        last, budget = misfit, self.program.budget
        while len(met) < MOST_FITTED and not self.clock.expired():
            budget -= last.excess
            if not self.moments.caps:  # the same weights would do again: less room than they leave changes nothing
                budget = min(budget, self.program.budget - self._left_by_weights(last) - last.excess)
            if budget < 0:
                break
            linear, effort = self._linear(None, budget), self._effort(CORE_SHARE, FITTED_GAP)
            placed = self._placed(self._solved(linear, budget, effort))
            if not placed:
                break
            met.append(last := score(placed[0]))
            if last.fits:
                break
        return met

    def _left_by_weights(self, found: Scored) -> int:
        problem = self.program.problem
        return max(0, int(problem.budgets[ACCELERATOR]) - weight_bytes(problem, found.placement, ACCELERATOR))

    def proves(self, known: Scored) -> bool:
        """Whether no placement is better than ``known`` by more than is asked for."""
        return self.bound >= self._aim(known.cost)

    def may_be_fitted(self, known: Scored) -> bool:
        """Whether less room is worth trying: not where all that is alive counts, nor far from a large bound."""
        if self.moments.sharp:
            return self.program.groups <= FITTED_GROUPS or self.bound >= known.cost * (1 - NEAR)
        return not self.moments.whole

    @property
    def _gap(self) -> float:
        if self.moments.sharp:
            return AIM_SHARP
        return AIM_WITH_MOMENTS if self.moments.caps else AIM

    @property
    def _nodes_share(self) -> float:
        if self.moments.whole:
            return WHOLE_SHARE
        if self.moments.sharp:
            return SHARP_SHARE * min(1.0, FITTED_GROUPS / self.program.groups) ** 2
        if self.moments.small:
            return SMALL_SHARE
        return MOMENTS_SHARE if self.moments.caps else 1.0

    def _aim(self, cost: float) -> float:
        return cost * (1 - self._gap)

    def _below(self, cost: float, share: float) -> Outcome:
        """What is cheaper than ``cost``; where parts of groups are not, nothing whole is looked for."""
        linear = self._linear(self.margins.sides(cost), self.program.budget)
        relaxed = linear.relaxed().solve(Effort(self._gap, 1, self.clock.left))
        if relaxed.bound >= cost:
            return replace(relaxed, solution=None)
        return self._solved(linear, self.program.budget, self._effort(share))

    def _under(self, limit: float, share: float) -> Outcome:
        """What costs no more than ``limit``: soon known to be nothing where it is."""
        program = self._linear(self.margins.sides(limit), self._roomy).below(limit)
        return self._solved(program, self._roomy, self._effort(share))

    @property
    def _roomy(self) -> int:
        """The budget and a little more: what is a byte above it fits for HiGHS at times, and at times does not."""
        return self.program.budget + 1 + int(ROOM * self.program.budget)

    def _solved(self, linear: LinearProgram, budget: int, effort: Effort) -> Outcome:
        found = linear.solve(effort)
        if found.solution is None or self.program.weighs(found.solution) <= budget:
            return found
        # HiGHS lets go of a few bytes in a billion, and of what these would buy its bound knows nothing.
        exact = kept_exactly(linear, self.program.weights, budget).solve(effort)
        return replace(exact, bound=max(found.bound, exact.bound))

    def _linear(self, sides: NDArray[np.int8] | None, budget: int) -> LinearProgram:
        rows = self.moments.within(self.program, budget)
        return self.program.linear(rows, self.moments.extra, sides, budget, self.moments.whole)

    def _effort(self, share: float, gap: float | None = None) -> Effort:
        share *= self._nodes_share
        nodes = max(1, int(share * GROUP_NODES / self.program.groups))
        return Effort(gap or self._gap * (NEARLY_ALL if self.moments.small else MOST), nodes, self.clock.left)

    def _placed(self, found: Outcome) -> list[Placement]:
        return [] if found.solution is None else [self.program.placement(found.solution)]
