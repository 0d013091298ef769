"""What placements that stream nothing cost at least, told soon: programs with parts of groups allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.branches import branches, host_seconds
from hetpart.partitioner.bounds.exact import Relaxation
from hetpart.partitioner.bounds.mincut import CutNetwork
from hetpart.partitioner.bounds.price import search_price
from hetpart.partitioner.problem import NO_BUDGET

if TYPE_CHECKING:
    from hetpart.partitioner.bounds.branches import Branch
    from hetpart.partitioner.bounds.clock import Clock
    from hetpart.partitioner.bounds.price import PriceSearch
    from hetpart.partitioner.problem import PlacementProblem

MOST_OPS = 1000
"""Up to which a relaxation takes a fraction of a second."""


def relaxed_floor(within: PlacementProblem, search: PriceSearch, clock: Clock) -> float:
    """A bound on every placement of ``within``, of which ``search`` is the prices; theirs where it is large."""
    if within.ops > MOST_OPS or within.budgets[ACCELERATOR] == NO_BUDGET:
        return search.bound
    told = [_relaxed(branch, within, search, clock) for branch in branches(within)]
    return max(search.bound, min([host_seconds(within), *told]))


def _relaxed(branch: Branch, within: PlacementProblem, search: PriceSearch, clock: Clock) -> float:
    if branch.problem is not within:
        search = search_price(branch.problem, CutNetwork.of(branch.problem))
    relaxation = Relaxation.of(branch.problem, search.price, search.bound, clock, branch.rows)
    if relaxation is None:
        return search.bound
    relaxation.relaxed()
    return relaxation.bound
