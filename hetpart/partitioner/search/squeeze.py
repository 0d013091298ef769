"""Search for any placement that fits, when the search for a fast one found none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.problem import NO_BUDGET
from hetpart.partitioner.scores.scoring import fit_rank
from hetpart.partitioner.search.polish import flipped

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.scores.scoring import Scored, Scorer
    from hetpart.partitioner.scores.wiring import Wiring

FEW = 10
"""Movable groups up to which every placement is scored."""
TRIED = 12
MOST_STEPS = 40


def squeezed(scorer: Scorer, wiring: Wiring, start: Scored) -> Scored:
    """The placement nearest to the budgets: of all where there are few, else reached from ``start`` move by move."""
    if len(wiring.movable) <= FEW:
        return _nearest_of_all(scorer, wiring, start)
    for _ in range(MOST_STEPS):
        if start.fits:
            break
        moves = _moves(wiring, start)
        better = min((scorer.score(flipped(wiring, start.placement, move)) for move in moves), key=fit_rank)
        if better.excess >= start.excess:
            break
        start = better
    return start


def _nearest_of_all(scorer: Scorer, wiring: Wiring, start: Scored) -> Scored:
    """Those that hold least are scored first, until weights alone take the others further beyond the budget."""
    sides = _all_sides(wiring, start)
    excess = _least_excess(wiring, sides)
    best = start
    for row in np.argsort(excess, kind="stable").tolist():
        if excess[row] > best.excess:
            break
        best = min(best, scorer.score(sides[row, wiring.groups.of_op]), key=fit_rank)
    return best


def _all_sides(wiring: Wiring, start: Scored) -> NDArray[np.int8]:
    """(rows, groups) The device of every group, in every way that the movable ones can stand."""
    side = np.zeros(len(wiring.groups), np.int8)
    side[wiring.groups.of_op] = start.placement
    count = len(wiring.movable)
    sides = np.tile(side, (2**count, 1))
    sides[:, list(wiring.movable)] = np.arange(2**count)[:, None] >> np.arange(count) & 1
    return sides


def _least_excess(wiring: Wiring, sides: NDArray[np.int8]) -> NDArray[np.int64]:
    """(rows,) Bytes over the accelerator's budget that weights alone make."""
    groups, budget = wiring.groups, int(wiring.problem.budgets[ACCELERATOR])
    if budget == NO_BUDGET:
        return np.zeros(len(sides), np.int64)
    reads = np.zeros((len(groups), len(groups.weight_bytes)), np.int64)
    reads[np.repeat(np.arange(len(groups)), np.diff(groups.weights.offsets)), groups.weights.weights] = 1
    held = (sides @ reads > 0) @ groups.weight_bytes
    return np.maximum(held - budget, 0)


def _moves(wiring: Wiring, scored: Scored) -> list[list[int]]:
    """The groups with the most bytes of either device, alone, and those of a full device 2, 4, 8, … together."""
    problem = wiring.problem
    full = (problem.budgets != NO_BUDGET) & (scored.usage.peak > problem.budgets)
    side = np.zeros(len(wiring.groups), np.int64)
    side[wiring.groups.of_op] = scored.placement
    nbytes = _bytes_of(wiring)
    heaviest = sorted(wiring.movable, key=lambda group: (-nbytes[group], group))
    there = [group for group in heaviest if full[side[group]]]
    away = [group for group in heaviest if not full[side[group]]]
    together = [there[: 2**power] for power in range(1, len(there).bit_length() + 1)]
    return [*([group] for group in (*there[:TRIED], *away[:TRIED])), *together]


def _bytes_of(wiring: Wiring) -> NDArray[np.int64]:
    """(groups,) Bytes of the weights and values each group touches."""
    sizes: list[int] = wiring.problem.value_bytes.tolist()
    touched = zip(wiring.makes, wiring.reads, strict=True)
    values = [sum(sizes[value] for value in (*made, *read)) for made, read in touched]
    return wiring.groups.alone() + np.array(values, np.int64)
