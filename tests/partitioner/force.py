"""The best of all placements: all of them priced at once, then laid out from the cheapest on until one fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetpart.partitioner.problem import NO_BUDGET, NO_OP, Placement, PlacementProblem
from hetpart.partitioner.scores.scoring import Scored, Scorer
from hetpart.partitioner.scores.streamed import StreamScorer
from hetpart.partitioner.uses import Uses

HOST, ACCELERATOR = 0, 1
ROUNDING = 1e-9


@dataclass(frozen=True)
class Best:
    """What no placement that fits is better than."""

    cost: float
    total_seconds: float
    streams: bool
    """Whether that takes streaming."""


def best_of_all(problem: PlacementProblem) -> Best | None:
    """The least cost and the least total seconds of all placements and streamed sets that fit; None where none does."""
    rows = _Rows.of(problem)
    order = np.argsort(rows.cost, kind="stable")
    order = order[rows.held[order] <= _limit(problem, ACCELERATOR)]
    cost, best = np.inf, (np.inf, False)
    for least, total, streams in _fitting(problem, rows, order):
        cost = min(cost, least)
        if least > best[0]:  # sessions only add to what is left
            break
        best = min(best, (total, streams))
    return Best(cost, *best) if np.isfinite(cost) else None


def _limit(problem: PlacementProblem, device: int) -> float:
    budget = int(problem.budgets[device])
    return np.inf if budget == NO_BUDGET else budget


def _fitting(problem: PlacementProblem, rows: _Rows, order: NDArray[np.int64]) -> Iterator[tuple[float, float, bool]]:
    """(cost, total seconds, streams) of those that fit, the cheapest first."""
    scored = _scoring(problem)
    for row in order.tolist():
        found = scored(rows.placements[row], rows.streamed[row])
        if found.fits:
            assert abs(found.cost - rows.cost[row]) <= ROUNDING * max(1.0, found.cost), "two ways to price differ"
            yield found.cost, found.total_seconds, bool(rows.streamed[row].any())


def _scoring(problem: PlacementProblem) -> Callable[[Placement, NDArray[np.bool_]], Scored]:
    if problem.streaming is None:
        plain = Scorer.of(problem)
        return lambda placement, _: plain.score(placement)
    scorer = StreamScorer.over(problem)
    return lambda placement, streamed: scorer.score(scorer.states.together(placement, streamed))


@dataclass(frozen=True)
class _Rows:
    """Every legal placement with every set of weights that it may stream."""

    placements: NDArray[np.int8]
    streamed: NDArray[np.bool_]
    cost: NDArray[np.float64]
    held: NDArray[np.int64]
    """Bytes of weights on the accelerator: more than that is always held there."""

    @classmethod
    def of(cls, problem: PlacementProblem) -> _Rows:
        placements = every_placement(problem)
        sets = _streamed_sets(problem)
        used = _any_use(problem.weight_uses, placements, ACCELERATOR)
        pairs = [np.flatnonzero((used | ~chosen).all(axis=1)) for chosen in sets]
        rows = np.concatenate(pairs)
        streamed = np.repeat(sets, [len(pair) for pair in pairs], axis=0)
        seconds = np.zeros(len(problem.weight_bytes)) if problem.streaming is None else problem.streaming.seconds
        seconds = np.where(np.isfinite(seconds), seconds, 0.0)
        return cls(
            placements[rows],
            streamed,
            costs(problem, placements)[rows] + streamed @ seconds,
            (used[rows] & ~streamed) @ problem.weight_bytes,
        )


def every_placement(problem: PlacementProblem) -> NDArray[np.int8]:
    """(rows, N) Every legal placement."""
    names, group = np.unique(problem.groups, return_inverse=True)
    legal = problem.legal()
    sides = (np.arange(2 ** len(names))[:, None] >> np.arange(len(names)) & 1).astype(np.int8)
    placements = sides[:, group]
    return placements[legal[placements, np.arange(problem.ops)].all(axis=1)]


def costs(problem: PlacementProblem, placements: NDArray[np.int8]) -> NDArray[np.float64]:
    """(rows,) Seconds of every op and of every copy."""
    total = problem.seconds[placements, np.arange(problem.ops)].sum(axis=1)
    made = problem.value_producer != NO_OP
    home = np.zeros((len(placements), problem.values), np.int8)
    home[:, made] = placements[:, problem.value_producer[made]]
    home[:, problem.value_left_on_host] = HOST
    there = _any_use(problem.value_uses, placements, ACCELERATOR)
    here = _any_use(problem.value_uses, placements, HOST)
    kept = np.zeros(problem.values) if problem.value_kept is None else problem.value_kept
    home[:, ~made & (kept == ACCELERATOR)] = ACCELERATOR
    for value in [] if problem.states is None else np.flatnonzero(problem.states.keeper != NO_OP):
        home[:, value] = placements[:, problem.states.keeper[value]]
    there[:, problem.value_returned & (kept == ACCELERATOR)] = True
    here[:, problem.value_returned & (kept == HOST)] = True
    total += ((home == HOST) & there) @ problem.copy_seconds[HOST, ACCELERATOR]
    return total + ((home == ACCELERATOR) & here) @ problem.copy_seconds[ACCELERATOR, HOST]


def _any_use(uses: Uses, placements: NDArray[np.int8], device: int) -> NDArray[np.bool_]:
    """(rows, hyperedges) Whether something reads it on the device."""
    reads = np.where(uses.on_host, HOST, placements[:, uses.ops]) == device
    belongs = np.zeros((len(uses.ops), len(uses.offsets) - 1))
    belongs[np.arange(len(uses.ops)), uses.rows] = 1
    return reads @ belongs > 0


def _streamed_sets(problem: PlacementProblem) -> NDArray[np.bool_]:
    count = len(problem.weight_bytes)
    allowed = np.zeros(0, np.int64) if problem.streaming is None else np.flatnonzero(problem.streaming.allowed)
    sets = np.zeros((2 ** len(allowed), count), np.bool_)
    sets[:, allowed] = np.arange(len(sets))[:, None] >> np.arange(len(allowed)) & 1
    return sets
