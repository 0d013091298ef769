"""Last touches, judged by the true peak and with session overheads: partitions merged, groups moved one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.problem import Placement
from hetpart.partitioner.scores.ledger import Ledger
from hetpart.partitioner.scores.wiring import Wiring, rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetpart.partitioner.scores.scoring import Scored, Scorer

MOST_MERGES_TRIED = 64
NUDGED_OPS = 100_000
"""Ops scored in single moves, all together: small models try every move again and again, large ones hardly any."""
MOST_EXCHANGED = 24
"""Moves that another makes room for."""
MOST_PARTNERS = 3
"""Groups that might."""


def merged(scorer: Scorer, wiring: Wiring, best: Scored) -> Scored:
    """``best`` with partitions moved to the other device as long as that saves seconds, overheads counted."""
    tried, alive = 0, scorer.unpacked()
    while tried < MOST_MERGES_TRIED:
        better, scored = _merge_once(scorer, alive, wiring, best, MOST_MERGES_TRIED - tried)
        tried += scored
        if better is None:
            break
        best = better
    return best


def _merge_once(scorer: Scorer, alive: Scorer, wiring: Wiring, best: Scored, tries: int) -> tuple[Scored | None, int]:
    """The first merge that helps, the most promising tried first, and how many were scored."""
    most_saved = 2 * float(scorer.problem.session_seconds.sum())
    promising = [(loss, groups) for loss, groups in _moves(wiring, best) if loss < most_saved]
    for count, (_, groups) in enumerate(sorted(promising)[:tries], 1):
        found = _scored(scorer, alive, flipped(wiring, best.placement, groups), best)
        if found.fits and found.rank < best.rank:
            return found, count
    return None, tries


def _moves(wiring: Wiring, best: Scored) -> list[tuple[float, Sequence[int]]]:
    """For every partition that may move whole: the seconds that costs, overheads aside, and its groups."""
    ledger, movable = Ledger(wiring, best.placement), set(wiring.movable)
    found: list[tuple[float, Sequence[int]]] = []
    members = np.stack([best.cut.partition.astype(np.int64), wiring.groups.of_op], axis=1)
    for groups in rows_of(members, best.cut.partitions):
        if movable.issuperset(groups):
            before = ledger.cost
            ledger.flip_all(groups)
            found.append((ledger.cost - before, groups))
            ledger.flip_all(groups)
    return found


def flipped(wiring: Wiring, placement: Placement, groups: Sequence[int]) -> Placement:
    """``placement`` with ``groups`` on the other device."""
    turned = np.zeros(len(wiring.groups), np.bool_)
    turned[list(groups)] = True
    return placement ^ turned[wiring.groups.of_op].astype(np.int8)


def at_the_border(wiring: Wiring, placement: Placement) -> list[int]:
    """Groups on the accelerator that may leave it and have a neighbour on the host."""
    side = np.zeros(len(wiring.groups), np.bool_)
    side[wiring.groups.of_op] = placement > 0
    return [group for group in wiring.movable if side[group] and not side[list(wiring.neighbours[group])].all()]


def nudged(scorer: Scorer, wiring: Wiring, best: Scored) -> Scored:
    """``best`` with groups moved, or two for one another, as long as one of the most promising moves helps."""
    left, most_saved = NUDGED_OPS // max(1, scorer.problem.ops), 2 * float(scorer.problem.session_seconds.sum())
    alive = scorer.unpacked()
    while left > 0:
        ledger = Ledger(wiring, best.placement)
        losses = ((ledger.delta(group)[0], group) for group in wiring.movable)
        promising = [group for loss, group in sorted(losses) if loss < most_saved or not best.fits][:left]
        left -= len(promising)
        tried = ((flipped(wiring, best.placement, [group]), group) for group in promising)
        moves = [(_scored(scorer, alive, placement, best), group) for placement, group in tried]
        exchanged = _exchanged(scorer, wiring, best, moves, min(MOST_EXCHANGED, left // MOST_PARTNERS))
        together = _together(scorer, wiring, best, moves)
        left -= len(exchanged) + len(together)
        found = [*(one for one, _ in moves), *exchanged, *together]
        better = min(found, key=lambda one: one.fit_rank, default=best)
        if better.fit_rank >= best.fit_rank:
            break
        best = better
    return best


def _scored(scorer: Scorer, alive: Scorer, placement: Placement, best: Scored) -> Scored:
    """``placement``, judged by what is alive where it is slower than ``best``: no real memory makes it better."""
    found = alive.score(placement)
    return found if best.fits and found.total_seconds > best.total_seconds else scorer.score(placement)


def _together(scorer: Scorer, wiring: Wiring, best: Scored, moves: list[tuple[Scored, int]]) -> list[Scored]:
    """``best`` with all the moves that help, with the better half of them, the better quarter, and so on."""
    helping = [group for moved, group in sorted(moves, key=_by_rank) if moved.fit_rank < best.fit_rank]
    counts = [len(helping) >> halved for halved in range(len(helping).bit_length() - 1)]
    return [scorer.score(flipped(wiring, best.placement, helping[:count])) for count in counts]


def _by_rank(move: tuple[Scored, int]) -> tuple[int, tuple[float, int, bytes]]:
    return move[0].fit_rank


def _exchanged(
    scorer: Scorer, wiring: Wiring, best: Scored, moves: list[tuple[Scored, int]], count: int
) -> list[Scored]:
    """``best`` with one of ``count`` moves that do not fit, and another group off the accelerator that makes room."""
    ledger, found = Ledger(wiring, best.placement), list["Scored"]()
    nearest = sorted((move for move in moves if not move[0].fits), key=lambda move: move[0].fit_rank)
    for moved, group in nearest[:count]:
        ledger.flip(group)
        prices = ((other, *ledger.delta(other)) for other in wiring.movable if ledger.side[other] and other != group)
        leaving = sorted((seconds, other) for other, seconds, nbytes in prices if -nbytes >= moved.excess)
        found += [
            scorer.score(flipped(wiring, best.placement, [group, other]))
            for seconds, other in leaving[:MOST_PARTNERS]
            if ledger.cost + seconds < best.cost
        ]
        ledger.flip(group)
    return found
