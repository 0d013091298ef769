"""Fewer partitions: placements that cross less often, and the best of them that the limits on cutting allow.

Limits only shrink the set of placements, so the lower bound of the problem without them stays one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import log1p
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from hetpart.constraints import Gain, Limits
from hetpart.errors import HetpartError, InfeasibleError, InvalidOptionError
from hetpart.partitioner.scores.gap import gap
from hetpart.partitioner.scores.ledger import Ledger
from hetpart.partitioner.scores.scoring import Scored, Scorer
from hetpart.partitioner.scores.wiring import Wiring, rows_of
from hetpart.partitioner.search.solve import OPTIMAL, BaselineResult, NothingFitsError, solve
from hetpart.units import format_count

if TYPE_CHECKING:
    from hetpart.partitioner.assembly.assemble import Assembly
    from hetpart.partitioner.formulate import Formulation
    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.search.solve import Solution

Place = Callable[["Formulation", "str | Placement"], "Assembly"]
"""Solves a formulation for a source, arenas and all."""

_TOLLS = (0.005, 0.02, 0.08, 0.3)
"""Shares of the latency that one copy is charged more, to find placements that copy less."""
_WINDOWS = 8
"""Places in running order from which the accelerator is filled."""
_PROMISING = 8
"""Partitions tried at every step of merging."""
_SHARE = 0.25
"""Of the time limit, for placements that are cut less finely, whatever the best has taken of it."""
_ASSEMBLED = 5
"""Placements whose arenas are tried."""


@dataclass(frozen=True, slots=True)
class _Judge:
    """What is allowed, and what of that is best."""

    limits: Limits

    def allows(self, found: Scored) -> bool:
        most = self.limits.max_partitions
        return found.fits and (most is None or found.cut.partitions <= most)

    def broken(self, found: Scored, ours: Scored) -> str:
        """Which limit ``found`` does not keep, in words."""
        most = self.limits.max_partitions
        if most is not None and found.cut.partitions > most:
            return "cut finer than allowed"
        gain = self.limits.min_gain
        gains = gain is None or _worth(found, gain) <= _worth(ours, gain)
        return "" if gains or found.total_seconds >= ours.total_seconds else "its cuts gain too little"

    def rank(self, found: Scored) -> tuple[float, int, bytes]:
        """Least first. Of two placements the one with more cuts is better only where every one of them buys enough."""
        return (_worth(found, self.limits.min_gain), *found.rank[1:])


def _worth(found: Scored, gain: Gain | None) -> float:
    cuts = max(0, found.cut.partitions - 1)
    if gain is None or not cuts:
        return _logarithm(found.total_seconds) if gain and gain.share else found.total_seconds
    if gain.share:
        return _logarithm(found.total_seconds) - cuts * log1p(-gain.share)
    return found.total_seconds + cuts * gain.seconds


def _logarithm(seconds: float) -> float:
    return float(np.log(seconds)) if seconds > 0 else -np.inf


def place_within(formulation: Formulation, limits: Limits, source: str | Placement, place: Place,
                 time_limit: float) -> Assembly:  # fmt: skip
    """What ``place`` finds for ``source``, cut no finer than ``limits`` allow.

    Raises:
        InfeasibleError: nothing fits, or nothing that the limits allow does.
        InvalidOptionError: the limits cannot be met, or ``source`` leaves no choice.
    """
    end = monotonic() + time_limit
    best = place(formulation, source)
    if not limits:
        return best
    if not (isinstance(source, str) and source == OPTIMAL):
        return _as_given(best, limits)
    judge, scorer = _Judge(limits), Scorer.of(formulation.problem)
    end = max(end, monotonic() + _SHARE * time_limit)
    start = scorer.score(best.solution.placement)  # it fits, as its arenas hold it, whatever is alive in it
    found = [replace(start, excess=0), *_candidates(scorer, best, lambda: monotonic() > end)]
    allowed = sorted(
        {one.placement.tobytes(): one for one in reversed(found) if judge.allows(one)}.values(), key=judge.rank
    )
    if not allowed:
        raise _refusal(scorer, best, found, limits)
    made = _assembled(formulation, allowed, best, place)
    return replace(made, solution=replace(made.solution, baselines=_judged(judge, scorer, made.solution)))


def _judged(judge: _Judge, scorer: Scorer, solution: Solution) -> tuple[BaselineResult, ...]:
    """What other rules do, with the limit that each does not keep."""
    ours = scorer.score(solution.placement)
    scored = [(result, scorer.score(result.placement)) for result in solution.baselines]
    return tuple(replace(result, beyond=judge.broken(found, ours)) for result, found in scored)


def _as_given(best: Assembly, limits: Limits) -> Assembly:
    partitions = best.solution.cut.partitions
    if limits.min_gain is not None:
        raise InvalidOptionError("min_gain weighs cuts, and this placement is given", hint="leave one of them out")
    if limits.max_partitions is not None and partitions > limits.max_partitions:
        raise InvalidOptionError(
            f"the placement has {partitions} partitions, max_partitions is {limits.max_partitions}",
            hint=f"allow {partitions}, or let hetpart place the ops: placement optimal",
        )
    return best


def _candidates(scorer: Scorer, best: Assembly, expired: Callable[[], bool]) -> Iterator[Scored]:
    """Placements that cross less and less, from everything known and from problems whose copies are dearer."""
    wiring = Wiring.of(scorer.problem)
    known = [best.solution.placement, *(result.placement for result in best.solution.baselines)]
    tolled = _tolled(scorer.problem, best.solution.total_seconds, expired)
    for placement in (*known, *tolled, *_windows(scorer, wiring, expired)):
        yield from _merging(scorer, wiring, scorer.score(placement), expired)


def _tolled(problem: PlacementProblem, seconds: float, expired: Callable[[], bool]) -> Iterator[Placement]:
    if len(problem.devices) == 1:
        return
    apart = 1.0 - np.eye(len(problem.devices))[:, :, None]
    for toll in _TOLLS:
        if expired():
            return
        dearer = replace(problem, copy_seconds=problem.copy_seconds + toll * seconds * apart)
        try:
            yield solve(dearer, time_limit=1.0).placement
        except NothingFitsError:
            return


def _windows(scorer: Scorer, wiring: Wiring, expired: Callable[[], bool]) -> Iterator[Placement]:
    """From several starts in running order, the accelerator full to the budget: at most three runs of ops."""
    groups = len(wiring.groups)
    for start in range(0, groups, max(1, -(-groups // _WINDOWS))):
        fitting, end = None, groups + 1
        first = start
        while first + 1 < end and not expired():
            middle = (first + end) // 2
            found = wiring.groups.place(range(start, middle))
            if scorer.score(found).fits:
                fitting, first = found, middle
            else:
                end = middle
        if fitting is not None:
            yield fitting


def _merging(scorer: Scorer, wiring: Wiring, start: Scored, expired: Callable[[], bool]) -> Iterator[Scored]:
    """``start`` and what it becomes as partition after partition moves to the other device, the cheapest first."""
    yield start
    while start.cut.partitions > 1 and not expired():
        fewer = [found for found in _merges(scorer, wiring, start) if found.cut.partitions < start.cut.partitions]
        if not fewer:
            return
        yield from fewer
        start = min(fewer, key=lambda found: found.fit_rank)


def _merges(scorer: Scorer, wiring: Wiring, start: Scored) -> list[Scored]:
    """``start`` with one partition moved, for those that cost least to move."""
    ledger, movable = Ledger(wiring, start.placement), set(wiring.movable)
    members = np.stack([start.cut.partition.astype(np.int64), wiring.groups.of_op], axis=1)
    moves: list[tuple[float, tuple[int, ...]]] = []
    for groups in rows_of(members, start.cut.partitions):
        if movable.issuperset(groups):
            before = ledger.cost
            ledger.flip_all(groups)
            moves.append((ledger.cost - before, groups))
            ledger.flip_all(groups)
    return [scorer.score(_moved(wiring, start.placement, groups)) for _, groups in sorted(moves)[:_PROMISING]]


def _moved(wiring: Wiring, placement: Placement, groups: Iterable[int]) -> Placement:
    turned = np.isin(wiring.groups.of_op, list(groups))
    return np.where(turned, 1 - placement, placement).astype(np.int8)


def _assembled(formulation: Formulation, allowed: list[Scored], best: Assembly, place: Place) -> Assembly:
    """The first of ``allowed`` whose arenas fit, with the certificate of ``best``."""
    refused: InfeasibleError | None = None
    for found in allowed[:_ASSEMBLED]:
        if found.placement.tobytes() == best.solution.placement.tobytes():
            return best
        try:
            made = place(formulation, found.placement)
        except InfeasibleError as error:
            refused = refused or error
            continue
        bound = min(best.solution.lower_bound, made.solution.cost)
        solution = replace(
            made.solution,
            lower_bound=bound,
            gap=gap(made.solution.cost, bound),
            price=best.solution.price,
            chosen="solver",
        )
        return replace(made, solution=solution, rule=OPTIMAL)
    assert refused is not None
    raise refused


def _refusal(scorer: Scorer, best: Assembly, found: Iterable[Scored], limits: Limits) -> HetpartError:
    """Where more memory would do, how much; else the fewest partitions that anything found has."""
    fewest = min((one for one in found if one.fits), key=lambda one: one.cut.partitions)
    most, accelerator = limits.max_partitions or 1, best.device_names[-1]
    enough = [one for one in scorer.known.values() if one.cut.partitions <= most]
    asked = f"{format_count(most, 'partition')} at most"
    reached = f"the fewest found within the budget are {fewest.cut.partitions}"
    if not enough:
        return InvalidOptionError(
            f"{best.graph.name!r} cannot be cut into {asked}: {reached}",
            hint=f"allow {fewest.cut.partitions}: some ops have a kernel, or a pin, on one device only",
        )
    least = min(int(one.usage.peak[-1]) for one in enough)
    return InfeasibleError(
        f"{best.graph.name!r} cannot be cut into {asked}: {reached}; with {least:,} bytes of {accelerator} it could",
        required_bytes=least,
        hint=f"allow {fewest.cut.partitions} partitions, or raise the budget of {accelerator} to {least} bytes",
    )
