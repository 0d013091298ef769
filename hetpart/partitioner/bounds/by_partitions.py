"""A bound on placements that stream, by how many partitions they have on the accelerator.

In n partitions, those of two that follow each other are there at once: with n even, of n/2 pairs one streams 2/n of all
bytes that are streamed at least; with n odd, of (n + 1)/2. So few partitions hold much of what streams, and many hold
their sessions' bytes. Numbers from p to q hold at least p sessions and what q would stream at once: that is a price
search. Where its bound is the least and too low, the range is halved.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from math import isqrt
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.mincut import CutNetwork
from hetpart.partitioner.bounds.price import search_price
from hetpart.partitioner.scores.streaming import LEAST_PARTITIONS, ROUNDING, ring

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetpart.partitioner.problem import PlacementProblem
    from hetpart.partitioner.scores.streaming import ThreeStates

SEARCHED_OPS = 200_000
"""Ops that ranges are searched on, all together."""
MOST_RANGES = 64


def bound_by_partitions(
    states: ThreeStates, within: PlacementProblem, enough: float, expired: Callable[[], bool]
) -> float:
    """A bound on what streams something and fits, raised until it is ``enough`` or the ranges are many.

    Args:
        states: Of the problem.
        within: Its placements, with what can fit nowhere shut out.
        enough: More is not looked for.
        expired: Whether time is up.
    """
    session, budget = int(within.session_bytes[ACCELERATOR]), int(within.budgets[ACCELERATOR])
    most = int(within.legal()[ACCELERATOR].sum())
    most = min(most, budget // session) if session else most
    left = [(-np.inf, LEAST_PARTITIONS, most)]
    for _ in range(min(MOST_RANGES, SEARCHED_OPS // max(1, within.ops))):
        bound, first, last = left[0]
        if most < LEAST_PARTITIONS or bound >= enough or (bound > -np.inf and first == last) or expired():
            break
        heappop(left)
        middle = min(last, isqrt(first * last)) if bound > -np.inf else last
        ranges = ((first, middle), (middle + 1, last)) if middle < last else ((first, last),)
        for few, many in ranges:
            heappush(left, (max(bound, _bound(states, within, few, many)), few, many))
    return left[0][0]


def _bound(states: ThreeStates, within: PlacementProblem, fewest: int, most: int) -> float:
    """Of numbers of partitions from ``fewest`` to ``most``."""
    share = float(ring(np.array([most]))[0]) * (1 - ROUNDING)
    budgets = within.budgets.copy()
    budgets[ACCELERATOR] -= fewest * int(within.session_bytes[ACCELERATOR])
    left = states.with_share(replace(within, budgets=budgets), share)
    return search_price(left, CutNetwork.of(left)).bound
