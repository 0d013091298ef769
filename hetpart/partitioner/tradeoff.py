"""Latency against the accelerator's budget: one problem solved under one budget after another.

Placements fit every larger budget too, and a lower bound holds under every smaller one: what is known of one budget
serves the others. Each is solved from the plans of its neighbours on, the larger one's made to fit, and from the bound
of the larger ones; budgets proven early leave their time to those that are not, which are solved again from what has
been found around them since. A plan that is optimal, that no more memory would make faster and that takes less than a
smaller budget is that budget's plan as well; a budget below one that nothing fits is not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING

from hetpart.devices import ACCELERATOR
from hetpart.errors import InfeasibleError
from hetpart.partitioner.assembly.device_use import device_uses
from hetpart.partitioner.problem import Known
from hetpart.partitioner.scores.gap import gap
from hetpart.partitioner.slopes import with_knees, with_prices
from hetpart.plan.curves import CurvePoint, TargetBudget

if TYPE_CHECKING:
    from hetpart.partitioner.assembly.assemble import Assembly
    from hetpart.partitioner.formulate import Formulation

Place = Callable[["Formulation", float], "Assembly"]
"""Solves a formulation within so many seconds."""

PROVEN = 1e-6
"""A smaller gap is rounding."""
OPEN = 1e-3
"""A larger gap is worth another search."""
MOST_ROUNDS = 3
"""Times that open budgets are solved again, from the smallest on and from the largest on in turns."""
LEAST_SECONDS = 0.5
"""Less is not worth beginning a search for."""
FIRST_SHARE = 0.6
"""Of a budget's time, for its first search."""
_NARROW = 0.005
"""The budget that meets a target is found to this part of it."""


@dataclass(frozen=True, slots=True, eq=False)
class _Outcome:
    """What solving under one budget gave: a placement with its peak, or why there is none."""

    assembly: Assembly | None
    peak: int = 0
    lower_bound: float = float("inf")
    """Of placements that stream nothing."""
    streaming_bound: float = float("inf")
    """Of all, whether they stream or not."""
    price: float = 0.0
    required_bytes: int = 0
    required_on: str = ""

    @classmethod
    def of(cls, assembly: Assembly) -> _Outcome:
        solution, peak = assembly.solution, device_uses(assembly)[ACCELERATOR].peak_bytes
        return cls(assembly, peak, solution.lower_bound, solution.bound_of_all, solution.price)

    @property
    def seconds(self) -> float:
        return self.assembly.solution.total_seconds if self.assembly else float("inf")

    @property
    def streams(self) -> bool:
        return self.assembly is not None and self.assembly.solution.streamed is not None

    @property
    def all_fits(self) -> bool:
        """Whether all that may be on the accelerator fits there."""
        rules = self.assembly.solution.baselines if self.assembly else ()
        return any(rule.fits for rule in rules if rule.name == "all-accelerator")

    def or_better(self, other: _Outcome) -> _Outcome:
        """The faster plan of two under one budget, with the better bounds."""
        if other.assembly is None:
            return self
        return replace(
            min(self, other, key=lambda found: found.seconds),
            lower_bound=max(self.lower_bound, other.lower_bound),
            streaming_bound=max(self.streaming_bound, other.streaming_bound),
            price=other.price or self.price,
        )


class Tradeoff:
    """The curve of one problem, solved where it is asked for.

    Args:
        formulation: The problem; its budget of the accelerator is replaced.
        place: Solves it.
        time_limit: Seconds for every budget.
    """

    __slots__ = ("_formulation", "_known", "_place", "_time_limit", "_told")

    def __init__(self, formulation: Formulation, place: Place, time_limit: float) -> None:
        self._formulation = formulation
        self._place = place
        self._time_limit = time_limit
        self._known: dict[int, _Outcome] = {}
        self._told: dict[int, list[float]] = {}
        """Seconds of the plans that each budget was solved from."""

    def solve(self, budgets: Iterable[int], say: Callable[[str], None]) -> None:
        """Solve under every budget, the largest first, then again where that may help; ``say`` how far it is."""
        asked = sorted(set(budgets), reverse=True)
        end = monotonic() + self._time_limit * len(asked)
        for number, budget in enumerate(asked, 1):
            say(f"{number} of {len(asked)}")
            self._outcome(budget, FIRST_SHARE)
        for turn in range(MOST_ROUNDS):
            asked.reverse()
            self._again(asked, end, lambda far, turn=turn: say(f"{far}, round {turn + 2}"))

    def _again(self, asked: Sequence[int], end: float, say: Callable[[str], None]) -> None:
        """Solve open budgets again whose neighbours have plans that they were not solved from."""
        open_budgets = [budget for budget in asked if self._is_open(budget)]
        for number, budget in enumerate(open_budgets, 1):
            seconds = (end - monotonic()) / (len(open_budgets) + 1 - number)
            if seconds >= min(LEAST_SECONDS, self._time_limit) and self._is_open(budget):
                say(f"{number} of {len(open_budgets)}")
                self._known[budget] = self._known[budget].or_better(self._solved(budget, seconds))

    def _is_open(self, budget: int) -> bool:
        found = self._best(budget)
        if found.assembly is None:
            return False
        cost = found.assembly.solution.cost
        fresh = self._starts(budget) != self._told.get(budget)
        return fresh and gap(cost, min(cost, self._bound(budget, found))) > OPEN

    def points(self, budgets: Iterable[int]) -> tuple[CurvePoint, ...]:
        """The points of ``budgets``, all of which are solved, with what memory buys, and knees marked."""
        return with_knees(with_prices([self._point(budget) for budget in sorted(set(budgets))]))

    def target(self, seconds: float) -> TargetBudget:
        """The smallest budget that reaches ``seconds``, between none at all and the largest that is solved."""
        largest = max(self._known)
        if self._best(largest).seconds > seconds:
            return TargetBudget(None, None, None, impossible=self._floor(largest) > seconds)
        self._outcome(0)
        while True:
            low, high = self._bracket(seconds)
            if high - low <= high * _NARROW:
                break
            self._outcome((low + high) // 2)
        below = [budget for budget in self._known if self._floor(budget) > seconds]
        return TargetBudget(high, self._best(high).seconds, max(below, default=None))

    def _bracket(self, seconds: float) -> tuple[int, int]:
        """The largest budget known not to reach ``seconds``, and the smallest known to: what the plan for it takes."""
        found = self._best(min(budget for budget in self._known if self._best(budget).seconds <= seconds))
        self._known.setdefault(found.peak, found)
        short = [budget for budget in self._known if self._best(budget).seconds > seconds]
        return max(short, default=found.peak), found.peak

    def _outcome(self, budget: int, share: float = 1.0) -> None:
        if budget not in self._known:
            self._known[budget] = self._reused(budget) or self._solved(budget, self._time_limit * share)

    def _reused(self, budget: int) -> _Outcome | None:
        """What a larger budget tells of this one."""
        above = self._known.get(min((known for known in self._known if known > budget), default=-1))
        if above is None or above.assembly is None:
            return above
        solution = above.assembly.solution
        settled = gap(solution.cost, solution.lower_bound) <= PROVEN and not solution.price
        return above if settled and above.peak <= budget else None

    def _solved(self, budget: int, seconds: float) -> _Outcome:
        problem, near = self._formulation.problem, self._near(budget)
        budgets = problem.budgets.copy()
        budgets[ACCELERATOR] = budget
        starts = tuple((found.solution.placement, found.solution.streamed) for found in near)
        known = Known(starts, self._bound(budget))
        self._told[budget] = self._starts(budget)
        try:
            found = self._place(
                replace(self._formulation, problem=replace(problem, budgets=budgets), known=known), seconds
            )
        except InfeasibleError as error:
            other = error.device not in ("", problem.devices[ACCELERATOR])
            return _Outcome(None, required_bytes=error.required_bytes, required_on=error.device if other else "")
        return _Outcome.of(found)

    def _near(self, budget: int) -> list[Assembly]:
        """The plans of this budget and of those beside it, as far as they are known."""
        below = max((known for known in self._known if known < budget), default=budget)
        above = min((known for known in self._known if known > budget), default=budget)
        near = (self._best(known).assembly for known in dict.fromkeys((below, budget, above)) if known in self._known)
        return [found for found in near if found is not None]

    def _starts(self, budget: int) -> list[float]:
        """Seconds of the plans beside it."""
        own = self._known[budget].assembly if budget in self._known else None
        return [found.solution.total_seconds for found in self._near(budget) if found is not own]

    def _best(self, budget: int) -> _Outcome:
        """The fastest plan of this budget and of all smaller ones."""
        within = [self._known[known] for known in sorted(self._known) if known <= budget]
        return min(within, key=lambda found: found.seconds)

    def _bound(self, budget: int, plan: _Outcome | None = None) -> float:
        """The best bound of this budget and of all larger ones. It says nothing where a search found nothing.

        Of placements that stream nothing; of all where ``plan`` streams.
        """
        if plan is not None and plan.streams:
            return self._bound_of_all(budget)
        return max((found.lower_bound for found in self._from(budget)), default=0.0)

    def _bound_of_all(self, budget: int) -> float:
        """As ``_bound``, of all placements, whether they stream or not."""
        return max((found.streaming_bound for found in self._from(budget)), default=0.0)

    def _from(self, budget: int) -> list[_Outcome]:
        """What is known of this budget and of larger ones, where something fits."""
        return [found for known, found in self._known.items() if known >= budget and found.assembly]

    def _floor(self, budget: int) -> float:
        """What no placement's latency goes below: its bound and one session, where anything runs."""
        problem = self._formulation.problem
        return self._bound_of_all(budget) + (float(problem.session_seconds.min()) if problem.ops else 0.0)

    def _flat(self, budget: int) -> bool:
        """Whether more memory than ``budget`` is known to make nothing faster."""
        larger = [known for known in self._known if known > budget]
        if larger:
            return self._best(max(larger)).seconds >= self._best(budget).seconds
        return self._known[budget].all_fits

    def _point(self, budget: int) -> CurvePoint:
        found, own = self._best(budget), self._known[budget]
        if found.assembly is None:
            return CurvePoint(budget, required_bytes=own.required_bytes, required_on=own.required_on)
        solution = found.assembly.solution
        bound = min(self._bound(budget, found), solution.cost)
        problem = found.assembly.formulation.problem
        copies = problem.copies(solution.placement)
        return CurvePoint(
            budget_bytes=budget,
            seconds=solution.total_seconds,
            cost=solution.cost,
            lower_bound=bound,
            of_all=bound <= self._bound_of_all(budget),
            gap=gap(solution.cost, bound),
            price=own.price or (0.0 if gap(solution.cost, bound) <= PROVEN and self._flat(budget) else None),
            peak_bytes=found.peak,
            partitions=solution.cut.partitions,
            accelerator_ops=int((solution.placement == ACCELERATOR).sum()),
            copied_bytes=int(copies.sum(axis=0) @ problem.value_bytes),
        )
