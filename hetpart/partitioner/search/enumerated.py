"""Small problems: every placement in the order of its cost, until the first that fits."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR, HOST
from hetpart.partitioner.problem import NO_OP
from hetpart.partitioner.scores.groups import Groups
from hetpart.partitioner.scores.scoring import Scored, Scorer, forced_placement
from hetpart.partitioner.search.optimum import Optimum

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hetpart.partitioner.problem import PlacementProblem
    from hetpart.partitioner.uses import Uses

MOST_OPS = 256
"""Up to which it is asked whether so few groups may move."""
MOST_GROUPS = 12
"""That may stand on either device: 4,096 placements are priced in milliseconds."""
MOST_SCORED = 2000
"""Of which each takes up to some milliseconds, where its sessions are run through."""


def enumerated(scorer: Scorer, within: PlacementProblem, expired: Callable[[], bool]) -> Optimum | None:
    """The optimum; nothing where placements are too many, time is up, or none fits.

    Args:
        scorer: Of the problem.
        within: The problem with what can fit nowhere shut out.
        expired: Whether time is up.
    """
    every = _every(within)
    if every is None:
        return None
    best, bound = None, np.inf
    for count, number in enumerate(np.argsort(_costs(within, every), kind="stable").tolist()):
        cost = within.cost(every[number])
        if best is not None and cost > best.total_seconds:
            break
        if count == MOST_SCORED or expired():
            return None
        found = scorer.score(every[number])
        if found.fits:
            best, bound = _better(best, found), min(bound, cost)
    return None if best is None else Optimum(best, bound, by_moments=True)


def _better(best: Scored | None, found: Scored) -> Scored:
    return found if best is None else min(best, found, key=lambda one: one.rank)


def _every(within: PlacementProblem) -> NDArray[np.int8] | None:
    """(P, N) Every legal placement; None where they are too many."""
    if within.ops > MOST_OPS:
        return None
    groups = Groups.of(within)
    movable = np.flatnonzero(groups.may_accelerate & ~groups.must_accelerate)
    if len(movable) > MOST_GROUPS:
        return None
    sides = np.zeros((2 ** len(movable), len(groups)), np.int8)
    sides[:, movable] = list(product((0, 1), repeat=len(movable)))
    return forced_placement(within) | sides[:, groups.of_op]


def _costs(within: PlacementProblem, every: NDArray[np.int8]) -> NDArray[np.float64]:
    """(P,) What ``within.cost`` says of each, but for rounding."""
    uses, by = within.value_uses, within.placed_by
    there = (every[:, uses.ops] == ACCELERATOR) & ~uses.on_host
    read_there = _any_use(uses, there) | within.wanted_there
    read_here = _any_use(uses, ~there) | within.wanted_on_host
    padded = np.pad(every, ((0, 0), (0, 1)))  # for what no op makes, also where there is none
    made_there = np.where(by == NO_OP, within.given_there, padded[:, by] == ACCELERATOR)
    down, up = within.copy_seconds[ACCELERATOR, HOST], within.copy_seconds[HOST, ACCELERATOR]
    copies = np.where(made_there & read_here, down, 0.0) + np.where(~made_there & read_there, up, 0.0)
    return within.seconds[every, np.arange(within.ops)].sum(axis=1) + copies.sum(axis=1)


def _any_use(uses: Uses, so: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(P, V) Whether any use of a value is ``so``, which is (P, U)."""
    until = np.pad(np.cumsum(so, axis=1), ((0, 0), (1, 0)))
    return until[:, uses.offsets[1:]] > until[:, uses.offsets[:-1]]
