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
NUDGED_OPS = 20_000
"""Ops scored in single moves, all together: small models try every move again and again, large ones hardly any."""


def merged(scorer: Scorer, wiring: Wiring, best: Scored) -> Scored:
    """``best`` with partitions moved to the other device as long as that saves seconds, overheads counted."""
    tried = 0
    while tried < MOST_MERGES_TRIED:
        better, scored = _merge_once(scorer, wiring, best, MOST_MERGES_TRIED - tried)
        tried += scored
        if better is None:
            break
        best = better
    return best


def _merge_once(scorer: Scorer, wiring: Wiring, best: Scored, tries: int) -> tuple[Scored | None, int]:
    """The first merge that helps, the most promising tried first, and how many were scored."""
    most_saved = 2 * float(scorer.problem.session_seconds.sum())
    promising = [(loss, groups) for loss, groups in _moves(wiring, best) if loss < most_saved]
    for count, (_, groups) in enumerate(sorted(promising)[:tries], 1):
        found = scorer.score(flipped(wiring, best.placement, groups))
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
    """``best`` with single groups moved as long as one of the most promising moves helps."""
    left = NUDGED_OPS // max(1, scorer.problem.ops)
    while left > 0:
        ledger = Ledger(wiring, best.placement)
        promising = sorted(wiring.movable, key=lambda group: (ledger.delta(group)[0], group))[:left]
        left -= len(promising)
        moves = (scorer.score(flipped(wiring, best.placement, [group])) for group in promising)
        better = min(moves, key=lambda found: found.fit_rank, default=best)
        if better.fit_rank >= best.fit_rank:
            break
        best = better
    return best
