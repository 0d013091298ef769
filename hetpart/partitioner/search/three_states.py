"""The best placement where weights may be on the host, held by the accelerator, or copied to it in every run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.by_copies import least_streaming
from hetpart.partitioner.bounds.by_partitions import bound_by_partitions
from hetpart.partitioner.bounds.by_rings import bound_by_rings
from hetpart.partitioner.bounds.chain import search_with_sessions
from hetpart.partitioner.bounds.clock import Clock
from hetpart.partitioner.bounds.exact import AIM, AIM_WITH_MOMENTS
from hetpart.partitioner.bounds.mincut import CutNetwork
from hetpart.partitioner.bounds.price import search_price
from hetpart.partitioner.bounds.relaxed import relaxed_floor
from hetpart.partitioner.problem import NO_BUDGET, NOTHING_KNOWN
from hetpart.partitioner.scores.fixing import without_misfits
from hetpart.partitioner.scores.gap import gap
from hetpart.partitioner.scores.streamed import StreamScored, StreamScorer
from hetpart.partitioner.search.baselines import BASELINES
from hetpart.partitioner.search.enumerated import enumerated
from hetpart.partitioner.search.optimise import optimise
from hetpart.partitioner.search.optimum import Optimum
from hetpart.partitioner.search.solve import (
    MOST_DEVICES,
    OPTIMAL,
    RANDOM,
    NothingFitsError,
    Solution,
    solution,
    solve,
)
from hetpart.partitioner.search.streams import streaming_starts, touched_up
from hetpart.plan.figures import NONE_STREAMED

if TYPE_CHECKING:
    from hetpart.partitioner.bounds.price import PriceSearch
    from hetpart.partitioner.problem import Known, Placement, PlacementProblem
    from hetpart.partitioner.scores.scoring import Packing, Scored

SOLVER = "solver"
TWO_STATES = "two states"
MAY_STREAM = "; weights may be streamed"
ALONE = f"; of any placement {NONE_STREAMED}"
HALF = 0.5
PROMISING = 0.1
"""By how much what streams may be cheaper than all that does not, where it is looked at first."""
SHARE = 0.75
"""Of the time, for the best placement that streams nothing: no other is worse."""


def solve_three_states(
    problem: PlacementProblem,
    *,
    source: str | Placement = OPTIMAL,
    time_limit: float = 30.0,
    packing: Packing | None = None,
    known: Known = NOTHING_KNOWN,
) -> Solution:
    """As ``solve``, with weights streamed where ``problem`` allows it and it pays.

    Of the other sources random ones stream weights at random, where that is asked for.

    Args:
        problem: What to place.
        source: As in ``solve``.
        time_limit: As in ``solve``.
        packing: As in ``solve``.
        known: As in ``solve``, with starts that stream.

    Raises:
        NothingFitsError: No placement fits the budgets, or the one asked for does not.
        InvalidOptionError: The source is unknown, or puts an op where it may not run.
    """
    two = replace(problem, streaming=None)
    optimal = isinstance(source, str) and source == OPTIMAL
    if not optimal or not _is_open(problem):
        found = solve(two, source=source, time_limit=time_limit, packing=packing, known=known)
        return _as_asked_for(problem, found, packing)
    clock = Clock.of(time_limit)
    within = without_misfits(two)
    least = search_with_sessions(within)
    begun, floor = _looked_at_first(problem, within, least, packing, known, clock)
    if begun is not None and begun.beats(floor):
        found = begun.finished(None, floor, clock)
        assert found is not None
        return found
    try:
        best = solve(two, time_limit=time_limit * SHARE, packing=packing, known=known)
    except NothingFitsError:
        begun = begun or _Begun.of(problem, packing, known, clock)
        found = begun.finished(None, np.inf, clock)
        if found is None:
            raise
        return found
    floor = least_streaming(problem, within, least)
    assert problem.streaming is not None
    if gap(best.total_seconds, floor) <= AIM and not problem.streaming.asked:  # it gains next to nothing
        return of_those_that_hold(best, floor)
    if begun is None:
        begun = _Begun.of(problem, packing, known, clock, near=(best.placement,)).touched(clock)
        begun = begun if begun.beats(best.total_seconds) else None
    found = None if begun is None else begun.finished(best, best.lower_bound, clock)
    return found or of_those_that_hold(best, floor)


def _looked_at_first(
    problem: PlacementProblem, within: PlacementProblem, least: PriceSearch, packing: Packing | None, known: Known,
    clock: Clock,
) -> tuple[_Begun | None, float]:  # fmt: skip
    """What streams, where that promises something, and what all that streams nothing costs at least."""
    if _may_pay(problem, least) or len(known.holding) < len(known.starts):
        return _Begun.of(problem, packing, known, clock), least.bound
    # Where what is alive fills the budget, the price of a weight's byte does not say what streaming it is worth.
    floor = relaxed_floor(within, least, clock)
    if least_streaming(problem, within, least) >= floor * (1 - PROMISING):
        return None, floor
    begun = _Begun.of(problem, packing, known, clock)
    return (begun if begun.beats(floor) else None), floor


def _is_open(problem: PlacementProblem) -> bool:
    """Whether there is a weight that may be streamed, and memory to be saved by it."""
    limited = len(problem.devices) == MOST_DEVICES and problem.budgets[ACCELERATOR] != NO_BUDGET
    return limited and problem.streaming is not None and bool(problem.streaming.allowed.any())


def _may_pay(problem: PlacementProblem, search: PriceSearch) -> bool:
    """Whether a byte on the accelerator is worth more than copying one takes."""
    assert problem.streaming is not None
    if problem.streaming.asked:
        return True
    large = problem.streaming.allowed & (problem.weight_bytes > 0)
    each = problem.streaming.seconds[large] / problem.weight_bytes[large]
    return bool((each < search.price).any())


@dataclass(frozen=True, slots=True, eq=False)
class _Begun:
    """What is known of three states before the search proper."""

    scorer: StreamScorer
    within: PlacementProblem
    """With what can fit nowhere shut out."""
    search: PriceSearch
    lifted: dict[str, Scored]
    """What the rules make of it."""
    more: dict[str, Scored]
    """Placements that stream."""

    @classmethod
    def of(
        cls, problem: PlacementProblem, packing: Packing | None, known: Known, clock: Clock,
        near: tuple[Placement, ...] = (),
    ) -> _Begun:  # fmt: skip
        scorer = StreamScorer.over(problem, packing)
        baselines = {name: rule(scorer.plain.problem) for name, rule in BASELINES.items()}
        lifted = {name: scorer.score(scorer.states.lifted(placement)) for name, placement in baselines.items()}
        within = without_misfits(scorer.problem)
        search = search_price(within, CutNetwork.of(within))
        met = (scorer.states.apart(placement)[0] for placement in (search.above, search.below))
        starts = streaming_starts(scorer, chain([baselines["all-accelerator"]], met, near), clock.expired)
        told = (scorer.states.together(ops, streamed) for ops, streamed in known.starts if streamed is not None)
        begun = chain(starts, map(scorer.score, told))
        more = {f"streaming {number}": found for number, found in enumerate(begun)}
        return cls(scorer, within, search, lifted, more)

    def touched(self, clock: Clock) -> _Begun:
        """With the best that streams touched up."""
        best = min(self.more.values(), key=lambda found: found.fit_rank, default=None)
        if best is None:
            return self
        return replace(self, more={**self.more, "touched up": touched_up(self.scorer, best, clock.expired)})

    def beats(self, bound: float) -> bool:
        """Whether a placement that streams is better than all that stream nothing, which cost ``bound`` at least."""
        return any(found.fits and found.total_seconds < bound for found in self.more.values())

    def finished(self, best: Solution | None, floor: float, clock: Clock) -> Solution | None:
        """The best placement of three states; None where nothing is found that fits.

        Args:
            best: The best that streams nothing, if it may be better than what streams.
            floor: What streams nothing costs so much at least.
            clock: When it is up the best so far is returned.
        """
        scorer = self.scorer
        two = {} if best is None else {TWO_STATES: scorer.score(scorer.states.lifted(best.placement))}
        starts = {**self.lifted, **two, **self.more}
        nearest = min(starts.values(), key=lambda found: found.fit_rank)
        exact = enumerated(scorer, self.within, clock.expired)
        known, optimum = (self.search.bound, exact) if exact else self._searched(starts, nearest, floor, clock)
        rivals = {SOLVER: optimum.found, **starts}
        name = min(rivals, key=lambda name: rivals[name].fit_rank)
        taken = _in_own_terms(rivals[name] if exact else touched_up(scorer, rivals[name], clock.expired))
        if not taken.fits:
            return None
        # Either something is streamed, which the optimum's bound is of, or nothing.
        bound = max(known, min(floor, optimum.bound))
        if taken.cost < nearest.cost or not nearest.fits:
            bound = max(bound, min(floor, self._by_rings(taken, bound, floor, clock)))
        name = SOLVER if name in self.more or taken is not rivals[name] else name
        return self._solution(name, taken, bound, best)

    def _searched(
        self, starts: dict[str, Scored], nearest: Scored, floor: float, clock: Clock
    ) -> tuple[float, Optimum]:
        """A bound on what streams, and the best that is found from ``starts``, of which one is ``nearest``."""
        enough = min(floor, nearest.cost * (1 - AIM)) if nearest.fits else floor
        streaming = bound_by_partitions(self.scorer.states, self.within, enough, clock.expired)
        streaming = max(streaming, self._by_rings(nearest, min(floor, streaming), floor, clock))
        search = replace(self.search, bound=max(self.search.bound, min(floor, streaming)))
        # What rings and what lives beside them take is more than that: nothing exact would come of it.
        if nearest.fits and gap(nearest.cost, search.bound) <= AIM_WITH_MOMENTS:
            return search.bound, Optimum(nearest, search.bound, by_moments=False)
        return search.bound, optimise(self.scorer, search, starts, clock)

    def _by_rings(self, found: Scored, known: float, floor: float, clock: Clock) -> float:
        """A bound on what streams, as far as it matters to ``found``; nothing where what is ``known`` proves that."""
        aim = min(floor, found.cost * (1 - AIM_WITH_MOMENTS))
        if not found.fits or max(known, self.search.bound) >= aim or clock.expired():
            return -np.inf
        return bound_by_rings(self.scorer.states, self.within, aim, clock)

    def _solution(self, name: str, taken: StreamScored, bound: float, best: Solution | None) -> Solution:
        problem = self.scorer.states.own
        assert problem.streaming is not None
        if best is not None and not taken.streamed.any() and not problem.streaming.asked:
            return of_those_that_hold(_or_better(best, taken.own), bound)
        chosen = best.chosen if best is not None and name == TWO_STATES else name
        results = {name: _in_own_terms(self.lifted[name]).own for name in BASELINES}
        found = solution(chosen, Optimum(taken.own, bound, by_moments=False), self.search.price, results)
        streamed = taken.streamed if taken.streamed.any() else None
        return replace(found, streamed=streamed, speaks_of=found.speaks_of + MAY_STREAM)


def of_those_that_hold(best: Solution, bound: float) -> Solution:
    """``best`` of those that stream nothing, and whether its bound is one of all, which cost ``bound`` at least."""
    if bound >= best.lower_bound:
        return best
    return replace(best, bound_of_all=max(0.0, bound), speaks_of=best.speaks_of + ALONE)


def _or_better(best: Solution, found: Scored) -> Solution:
    """``best``, or what streams nothing, fits and takes less, with the bound that holds for both."""
    if found.total_seconds >= best.total_seconds:
        return best
    bound = min(best.lower_bound, found.cost)
    return replace(
        best, placement=found.placement, cut=found.cut, usage=found.usage, cost=found.cost,
        total_seconds=found.total_seconds, lower_bound=bound, bound_of_all=bound,
        gap=gap(found.cost, bound), chosen=SOLVER,
    )  # fmt: skip


def _as_asked_for(problem: PlacementProblem, found: Solution, packing: Packing | None) -> Solution:
    """``found``, which streams nothing so far and is not the best; random ones stream where that is asked for."""
    found = _streaming_by_chance(problem, found, packing)
    if found.streamed is not None or not _is_open(problem):
        return found
    within = without_misfits(replace(problem, streaming=None))
    return of_those_that_hold(found, least_streaming(problem, within, search_with_sessions(within)))


def _streaming_by_chance(problem: PlacementProblem, found: Solution, packing: Packing | None) -> Solution:
    """``found`` with a random half of its weights streamed, where it is random itself and fits so."""
    name, _, seed = found.chosen.partition(":")
    if name != RANDOM or problem.streaming is None or not problem.streaming.asked:
        return found
    scorer = StreamScorer.over(problem, packing)
    streamed = problem.streaming.allowed & (np.random.default_rng(int(seed)).random(len(problem.weight_bytes)) < HALF)
    taken = _in_own_terms(scorer.score(scorer.states.together(found.placement, streamed)))
    if not taken.fits or not taken.streamed.any():
        return found
    own = taken.own
    gone = gap(own.cost, 0.0)
    return replace(
        found, cut=own.cut, usage=own.usage, cost=own.cost, total_seconds=own.total_seconds, lower_bound=0.0,
        bound_of_all=0.0, gap=gone, streamed=taken.streamed,
    )  # fmt: skip


def _in_own_terms(found: Scored) -> StreamScored:
    assert isinstance(found, StreamScored)
    return found
