"""A placement with the bound on all, and what numbers of partitions tell of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hetpart.partitioner.bounds.branches import host_seconds
from hetpart.partitioner.bounds.by_borders import bound_by_borders
from hetpart.partitioner.bounds.exact import AIM
from hetpart.partitioner.scores.gap import gap

if TYPE_CHECKING:
    from hetpart.partitioner.bounds.clock import Clock
    from hetpart.partitioner.bounds.price import PriceSearch
    from hetpart.partitioner.problem import PlacementProblem
    from hetpart.partitioner.scores.scoring import Scored


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """What was found, and how good anything can be."""

    found: Scored
    bound: float
    """No placement that fits has a lower cost."""
    by_moments: bool
    """Whether what is alive together at every op entered the bound."""


def by_borders(found: Optimum, within: PlacementProblem, search: PriceSearch, clock: Clock) -> Optimum:
    """``found`` with the bound by numbers of partitions and what lies between them, where that is higher."""
    if within.stands_for_weight is not None or gap(found.found.cost, found.bound) <= AIM:
        return found
    enough = found.found.cost * (1 - AIM)
    bound = min(host_seconds(within), bound_by_borders(within, search.met, enough, clock.expired))
    return replace(found, bound=bound, by_moments=True) if bound > found.bound else found
