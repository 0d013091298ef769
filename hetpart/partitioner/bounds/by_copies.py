"""A bound on placements that stream, by what the copies take, from cuts that are known anyway.

At a price of a byte a placement costs no less than the cut, if all weights that the accelerator uses are counted. One
that streams some takes their copies for what those bytes cost: at any price where copies are dearer, at least the
least of the differences more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.scores.streaming import ThreeStates

if TYPE_CHECKING:
    from hetpart.partitioner.bounds.price import KnownCut, PriceSearch
    from hetpart.partitioner.problem import PlacementProblem


def least_streaming(problem: PlacementProblem, within: PlacementProblem, search: PriceSearch) -> float:
    """What every placement that streams something and fits costs at least.

    Args:
        problem: Whose weights may be streamed.
        within: The same where none may be, with what can fit nowhere then shut out.
        search: Of ``within``.
    """
    if _may_run_streaming(problem, within):
        return -np.inf
    return max((_by_cut(problem, known) for known in search.cuts), default=-np.inf)


def _may_run_streaming(problem: PlacementProblem, within: PlacementProblem) -> bool:
    """Whether some op that is shut out for the weights it holds is not where they are streamed."""
    shut = np.isfinite(problem.seconds) & ~np.isfinite(within.seconds)
    if not shut.any():
        return False
    states = ThreeStates.of(problem)
    return bool((shut & np.isfinite(states.problem.seconds[:, states.ops])).any())


def _by_cut(problem: PlacementProblem, known: KnownCut) -> float:
    assert problem.streaming is not None
    allowed, budget = problem.streaming.allowed, int(problem.budgets[ACCELERATOR])
    more = problem.streaming.seconds[allowed] - known.price * problem.weight_bytes[allowed]
    # Of several that are cheaper streamed all may be; else one is at least.
    cheaper = float(more[more < 0].sum())
    return known.cut.value - known.price * budget + (cheaper or float(more.min(initial=np.inf)))
