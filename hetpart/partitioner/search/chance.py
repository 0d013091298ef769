"""Seeded placements that ignore cost, so that every kind of cut is met by the tests that run them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.scores.groups import Groups
from hetpart.partitioner.scores.scoring import forced_placement

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.scores.scoring import Scored, Scorer

MOST_BLOCKS = 8


def random_placement(problem: PlacementProblem, seed: int) -> Placement:
    """A legal placement: by the seed coin flips, a few blocks along the order, or blocks with a few ops astray.

    Each accelerator draws in turn, and takes what another has drawn before it too.
    """
    rng = np.random.default_rng(seed)
    groups, legal, placement = Groups.of(problem), problem.legal(), forced_placement(problem)
    draw = (_flips, _blocks, _ragged_blocks)[int(rng.integers(3))]
    for device in range(ACCELERATOR, len(problem.devices)):
        placement[draw(rng, len(groups))[groups.of_op] & legal[device]] = device
    return placement


def fitted(scorer: Scorer, placement: Placement, seed: int) -> Scored:
    """``placement`` with as few random groups taken off the accelerator as make it fit, if any number does."""
    found = scorer.score(placement)
    if found.fits:
        return found
    of_op, forced = Groups.of(scorer.problem).of_op, forced_placement(scorer.problem)
    chosen = np.unique(of_op[placement > 0])
    order = np.random.default_rng(seed).permutation(chosen).tolist()
    fewest, most = 1, len(order)
    while fewest < most:
        dropped = (fewest + most) // 2
        if scorer.score(np.where(np.isin(of_op, order[dropped:]), placement, forced)).fits:
            most = dropped
        else:
            fewest = dropped + 1
    return scorer.score(np.where(np.isin(of_op, order[most:]), placement, forced))


def _flips(rng: np.random.Generator, groups: int) -> NDArray[np.bool_]:
    return rng.random(groups) < rng.uniform(0.2, 0.8)


def _blocks(rng: np.random.Generator, groups: int) -> NDArray[np.bool_]:
    turns = rng.integers(0, groups + 1, int(rng.integers(1, MOST_BLOCKS)))
    return (np.searchsorted(np.sort(turns), np.arange(groups), side="right") + rng.integers(2)) % 2 == 1


def _ragged_blocks(rng: np.random.Generator, groups: int) -> NDArray[np.bool_]:
    return _blocks(rng, groups) ^ (rng.random(groups) < 0.1)
