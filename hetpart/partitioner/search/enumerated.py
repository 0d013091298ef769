"""Small problems: every placement in the order of its cost, until the first that fits."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.scores.scoring import Scored, Scorer, forced_placement
from hetpart.partitioner.search.optimum import Optimum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.scores.wiring import Wiring

MOST_GROUPS = 12
"""That may stand on either device: 4,096 placements are priced in a quarter of a second."""
MOST_SCORED = 2000
"""Of which each takes up to some milliseconds, where its sessions are run through."""


def enumerated(scorer: Scorer, wiring: Wiring, within: PlacementProblem, expired: Callable[[], bool]) -> Optimum | None:
    """The optimum; nothing where placements are too many, time is up, or none fits.

    Args:
        scorer: Of the problem.
        wiring: Of ``within``.
        within: The problem with what can fit nowhere shut out.
        expired: Whether time is up.
    """
    if len(wiring.movable) > MOST_GROUPS:
        return None
    priced = [(within.cost(placement), number, placement) for number, placement in enumerate(_all(within, wiring))]
    best, bound = None, np.inf
    for count, (cost, _, placement) in enumerate(sorted(priced, key=lambda one: one[:2])):
        if best is not None and cost > best.total_seconds:
            break
        if count == MOST_SCORED or expired():
            return None
        found = scorer.score(placement)
        if found.fits:
            best, bound = _better(best, found), min(bound, cost)
    return None if best is None else Optimum(best, bound, by_moments=True)


def _better(best: Scored | None, found: Scored) -> Scored:
    return found if best is None else min(best, found, key=lambda one: one.rank)


def _all(within: PlacementProblem, wiring: Wiring) -> Iterator[Placement]:
    """Every legal placement."""
    base, movable = forced_placement(within), list(wiring.movable)
    sides = np.zeros(len(wiring.groups), np.int8)
    for chosen in product((0, 1), repeat=len(movable)):
        sides[movable] = chosen
        yield base | sides[wiring.groups.of_op]
