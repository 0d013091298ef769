"""The best placement where weights may be on the host, held by the accelerator, or copied to it in every run."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.exact import Clock
from hetpart.partitioner.bounds.mincut import CutNetwork
from hetpart.partitioner.bounds.price import search_price
from hetpart.partitioner.problem import NO_BUDGET, NOTHING_KNOWN
from hetpart.partitioner.scores.certificate import gap
from hetpart.partitioner.scores.fixing import without_misfits
from hetpart.partitioner.scores.streamed import StreamScored, StreamScorer
from hetpart.partitioner.search.baselines import BASELINES
from hetpart.partitioner.search.optimise import Optimum, optimise
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

if TYPE_CHECKING:
    from hetpart.partitioner.problem import Known, Placement, PlacementProblem
    from hetpart.partitioner.scores.scoring import Packing, Scored

SOLVER = "solver"
TWO_STATES = "two states"
MAY_STREAM = "; weights may be streamed"
NONE_STREAMED = "; of placements that stream no weight"
HALF = 0.5
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
    if not _is_open(problem, source):
        found = solve(two, source=source, time_limit=time_limit, packing=packing, known=known)
        return _streaming_by_chance(problem, found, packing)
    clock = Clock.of(time_limit)
    refusal = None
    best: Solution | None = None
    try:
        best = solve(two, time_limit=time_limit * SHARE, packing=packing, known=known)
    except NothingFitsError as error:
        refusal = error
    if best is not None and not _may_pay(problem, best) and len(known.holding) == len(known.starts):
        return best
    found = _searched(problem, best, packing, clock, known)
    if found is None:
        assert refusal is not None
        raise refusal
    assert problem.streaming is not None
    if best is not None and found.streamed is None and not problem.streaming.asked:
        return replace(best, speaks_of=best.speaks_of + NONE_STREAMED)
    return found


def _is_open(problem: PlacementProblem, source: str | Placement) -> bool:
    """Whether there is a weight that may be streamed, and memory to be saved by it."""
    asked = isinstance(source, str) and source == OPTIMAL and len(problem.devices) == MOST_DEVICES
    limited = asked and problem.budgets[ACCELERATOR] != NO_BUDGET
    return limited and problem.streaming is not None and bool(problem.streaming.allowed.any())


def _may_pay(problem: PlacementProblem, best: Solution) -> bool:
    """Whether a byte on the accelerator is worth more than copying one takes."""
    assert problem.streaming is not None
    if problem.streaming.asked:
        return True
    large = problem.streaming.allowed & (problem.weight_bytes > 0)
    each = problem.streaming.seconds[large] / problem.weight_bytes[large]
    return bool((each < best.price).any())


def _searched(
    problem: PlacementProblem, best: Solution | None, packing: Packing | None, clock: Clock, known: Known
) -> Solution | None:
    """The best placement of three states; None where nothing is found that fits."""
    scorer = StreamScorer.over(problem, packing)
    baselines = {name: rule(scorer.plain.problem) for name, rule in BASELINES.items()}
    two = baselines if best is None else {**baselines, TWO_STATES: best.placement}
    lifted = {name: scorer.score(scorer.states.lifted(placement)) for name, placement in two.items()}
    within = without_misfits(scorer.problem)
    search = search_price(within, CutNetwork.of(within))
    met = (scorer.states.apart(placement)[0] for placement in (search.above, search.below))
    starts = streaming_starts(scorer, chain([baselines["all-accelerator"]], met), clock.expired)
    told = (scorer.states.together(ops, streamed) for ops, streamed in known.starts if streamed is not None)
    begun = chain(starts, map(scorer.score, told))
    more = {f"streaming {number}": found for number, found in enumerate(begun)}
    optimum = optimise(scorer, search, {**lifted, **more}, clock)
    rivals = {SOLVER: optimum.found, **lifted, **more}
    name = min(rivals, key=lambda name: rivals[name].fit_rank)
    taken = _in_own_terms(touched_up(scorer, rivals[name], clock.expired))
    if not taken.fits:
        return None
    chosen = SOLVER if name in more or taken is not rivals[name] else name
    chosen = best.chosen if best is not None and chosen == TWO_STATES else chosen
    results = {name: _in_own_terms(lifted[name]).own for name in BASELINES}
    # Either something is streamed, which the optimum's bound is of, or nothing.
    bound = max(search.bound, optimum.bound if best is None else min(best.lower_bound, optimum.bound))
    found = solution(chosen, Optimum(taken.own, bound, by_moments=False), search.price, results)
    streamed = taken.streamed if taken.streamed.any() else None
    return replace(found, streamed=streamed, speaks_of=found.speaks_of + MAY_STREAM)


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
        found, cut=own.cut, usage=own.usage, cost=own.cost, total_seconds=own.total_seconds, lower_bound=0.0, gap=gone,
        streamed=taken.streamed,
    )  # fmt: skip


def _in_own_terms(found: Scored) -> StreamScored:
    assert isinstance(found, StreamScored)
    return found
