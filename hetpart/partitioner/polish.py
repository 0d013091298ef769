"""Last touches under the true peak, session overheads counted: partitions merged, broken budgets mended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.ledger import Ledger
from hetpart.partitioner.problem import NO_BUDGET, Placement, PlacementProblem
from hetpart.partitioner.wiring import Wiring, rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetpart.partitioner.scoring import Scored, Scorer

MOST_MERGES_TRIED = 64
SQUEEZES_TRIED = 12
MOST_SQUEEZES = 40


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
        found = scorer.score(_flipped(wiring, best.placement, groups))
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


def _flipped(wiring: Wiring, placement: Placement, groups: Sequence[int]) -> Placement:
    turned = np.zeros(len(wiring.groups), np.bool_)
    turned[list(groups)] = True
    return placement ^ turned[wiring.groups.of_op].astype(np.int8)


def squeezed(scorer: Scorer, wiring: Wiring, start: Scored) -> Scored:
    """``start`` moved group by group towards the budgets until it fits or no move tried comes closer."""
    for _ in range(MOST_SQUEEZES):
        if start.fits:
            break
        heavy = _heaviest(scorer.problem, wiring, start)
        tried = [scorer.score(_flipped(wiring, start.placement, groups)) for groups in heavy]
        better = min(tried, key=lambda found: (excess(scorer.problem, found), found.rank), default=start)
        if excess(scorer.problem, better) >= excess(scorer.problem, start):
            break
        start = better
    return start


def excess(problem: PlacementProblem, scored: Scored) -> int:
    """Bytes over the budgets, all devices together."""
    limited = problem.budgets != NO_BUDGET
    over = scored.usage.peak[limited] - problem.budgets[limited]
    return int(np.maximum(over, 0).sum())


def _heaviest(problem: PlacementProblem, wiring: Wiring, scored: Scored) -> list[list[int]]:
    """Moves worth trying: each of the groups with the most bytes, and the heaviest 2, 4, 8, … together."""
    nbytes = np.array([wiring.groups.alone(group) for group in wiring.movable], np.int64)
    nbytes += _value_bytes(problem, wiring)[list(wiring.movable)]
    limited = (problem.budgets != NO_BUDGET) & (scored.usage.peak > problem.budgets)
    side = np.zeros(len(wiring.groups), np.int64)
    side[wiring.groups.of_op] = scored.placement
    heaviest: list[int] = np.argsort(-nbytes, kind="stable").tolist()
    there = [wiring.movable[row] for row in heaviest if limited[side[wiring.movable[row]]]]
    together = [there[: 2**power] for power in range(1, max(1, len(there)).bit_length())]
    return [[group] for group in there[:SQUEEZES_TRIED]] + together


def _value_bytes(problem: PlacementProblem, wiring: Wiring) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """(groups,) Bytes of the values each group makes and reads."""
    total = np.zeros(len(wiring.groups), np.int64)
    for group in range(len(wiring.groups)):
        for value in (*wiring.makes[group], *wiring.reads[group]):
            total[group] += problem.value_bytes[value]
    return total
