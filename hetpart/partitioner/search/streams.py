"""Placements that stream: as much streamed as can be, then weights held as long as there is room; and last touches."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.scores.cut import Cut
from hetpart.partitioner.scores.groups import Groups
from hetpart.partitioner.scores.liveness import buffers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Placement
    from hetpart.partitioner.scores.scoring import Scored
    from hetpart.partitioner.scores.streamed import StreamScorer

SCORED_OPS = 30_000
"""Ops scored in last touches, all together."""
MOST_PAIRED = 24
"""Groups up to which pairs are moved too."""
MOST_FILLED = 6
"""Weights tried for what room is left when the next in order does not fit."""
MOST_SIZES = 3
"""Sizes of weights that are told apart."""
REFILLED = 12
"""Placements scored for one of ops, to say which weights to stream."""


def streaming_starts(
    scorer: StreamScorer, placements: Iterator[Placement], expired: Callable[[], bool]
) -> Iterator[Scored]:
    """Of every placement of ops: all that may be is streamed, then as many weights are held as fit.

    Those are held first whose copies take most seconds a byte; or that would lie beside most; or, in their order, those
    used first; or last; or those larger than some size, since what streams in one piece is there in one piece. Nothing
    more once time is up.
    """
    states = scorer.states
    assert states.own.streaming is not None
    nbytes = np.maximum(states.own.weight_bytes[states.weights], 1)
    dearest = np.argsort(-states.own.streaming.seconds[states.weights] / nbytes, kind="stable")
    first = np.argsort(states.holders)
    for placement in placements:
        if expired():
            return
        used = states.lifted(placement)[states.holders] == ACCELERATOR
        fullest = dearest[np.argsort(-_beside(scorer, placement)[dearest], kind="stable")]
        for order in (dearest, fullest, first, first[::-1], *_largest_before(first[used[first]], nbytes)):
            yield _most_held(scorer, placement, states.weights[order[used[order]]])


def _beside(scorer: StreamScorer, placement: Placement) -> NDArray[np.int64]:
    """(holders,) Bytes alive while each weight comes and is first read, were every op a partition of its own."""
    states, problem = scorer.states, scorer.plain.problem
    finest = Cut(np.arange(problem.ops, dtype=np.int32), placement)
    held = buffers(problem, placement, finest, np.ones(problem.values, np.bool_))
    live = held.live(len(problem.devices), problem.ops)[ACCELERATOR]
    reader = np.searchsorted(states.ops, states.holders)
    return np.maximum(live[reader], live[np.maximum(reader - 1, 0)])


def _largest_before(order: NDArray[np.int64], nbytes: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """``order`` with what is larger than some size before all else: of the sizes most bytes have, the smaller ones."""
    sizes, size = np.unique(nbytes[order], return_inverse=True)
    together = sizes * np.bincount(size, minlength=len(sizes))
    for most in np.sort(np.argsort(-together, kind="stable")[:MOST_SIZES])[:-1].tolist():
        yield np.concatenate([order[size > most], order[size <= most]])


def _most_held(scorer: StreamScorer, placement: Placement, weights: NDArray[np.int64]) -> Scored:
    """As many of ``weights``, from the first on, are held as fit, and smaller ones behind them; others are streamed."""

    def scored(scorer: StreamScorer, left: NDArray[np.int64]) -> Scored:
        streamed = np.zeros(len(scorer.states.own.weight_bytes), np.bool_)
        streamed[left] = True
        return scorer.score(scorer.states.together(placement, streamed))

    def held(scorer: StreamScorer, count: int) -> bool:
        return scored(scorer, weights[count:]).fits

    # What is alive is quickly counted, and no less than that is ever held: most counts are ruled out by it.
    most = _most(partial(held, scorer.unpacked()), 0, len(weights))
    fewest, step = most, 1
    while fewest and not held(scorer, fewest):
        most, fewest, step = fewest - 1, max(0, fewest - step), 2 * step
    fewest = _most(partial(held, scorer), fewest, most)
    return _filled_up(scorer, partial(scored, scorer), weights[fewest:])


def _most(held: Callable[[int], bool], fewest: int, most: int) -> int:
    """How many are held at most, of ``most``; ``fewest`` are, or nothing is."""
    while fewest < most:
        count = (fewest + most + 1) // 2
        if held(count):
            fewest = count
        else:
            most = count - 1
    return fewest


def _filled_up(scorer: StreamScorer, scored: Callable[[NDArray[np.int64]], Scored], left: NDArray[np.int64]) -> Scored:
    """What streams ``left``, less what is small enough to be held beside all that is, the largest first."""
    sizes, best = scorer.states.own.weight_bytes, scored(left)
    limit = int(sizes[left[:1]].sum())
    for _ in range(MOST_FILLED if best.fits else 0):
        small = left[sizes[left] < limit]
        if not len(small):
            break
        largest = small[sizes[small].argmax()]
        found = scored(left[left != largest])
        if found.fits:
            best, left = found, left[left != largest]
        else:
            limit = int(sizes[largest])
    return best


def touched_up(scorer: StreamScorer, best: Scored, expired: Callable[[], bool]) -> Scored:
    """``best`` with single groups, or pairs where there are few, moved as long as that helps and there is time."""
    groups = Groups.of(scorer.problem)
    moves = _moves(np.flatnonzero(groups.may_accelerate & ~groups.must_accelerate).tolist())
    own = Groups.of(scorer.states.own)
    own_moves = _moves(np.flatnonzero(own.may_accelerate & ~own.must_accelerate).tolist())
    left = SCORED_OPS // max(1, scorer.problem.ops)
    while left >= len(moves) and not expired():
        left -= len(moves)
        turned = [scorer.score(_turned(groups, best.placement, move)) for move in moves]
        if left >= len(own_moves) * REFILLED:
            left -= len(own_moves) * REFILLED
            ops = scorer.states.apart(best.placement)[0]
            turned += streaming_starts(scorer, (_turned(own, ops, move) for move in own_moves), expired)
        better = min(turned, key=lambda found: found.fit_rank, default=best)
        if better.fit_rank >= best.fit_rank:
            break
        best = better
    return best


def _moves(movable: list[int]) -> list[tuple[int, ...]]:
    single: list[tuple[int, ...]] = [(group,) for group in movable]
    return [*single, *combinations(movable, 2)] if len(movable) <= MOST_PAIRED else single


def _turned(groups: Groups, placement: Placement, move: tuple[int, ...]) -> Placement:
    return placement ^ np.isin(groups.of_op, move).astype(np.int8)
