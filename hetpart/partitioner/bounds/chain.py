"""One path through the model, along which sessions can be counted in a cut.

Of a path's ops, two on one device with one on the other between them cannot share a partition: partitions run one after
another and the path runs through all three. So a placement has at least as many partitions on the accelerator as the
path has stretches there, and each holds a session's bytes. Ops that run apart are in no session: paths leave them out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.mincut import CutNetwork, Path
from hetpart.partitioner.bounds.price import PriceSearch, search_price
from hetpart.partitioner.problem import NO_BUDGET, NO_OP
from hetpart.partitioner.uses import unique_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Placement, PlacementProblem

MOST_OPS = 50_000
"""Beyond, cuts that must not nest take too long."""
STEP = 1e-6
"""What an op without weights adds to a path, as a share of all weights: of equal paths the longer."""


def heaviest_chain(problem: PlacementProblem) -> NDArray[np.int64]:
    """The path whose ops read most bytes of weights, from its first op on; empty where sessions hold no bytes."""
    if not problem.session_bytes[ACCELERATOR] or problem.ops > MOST_OPS:
        return np.zeros(0, np.int64)
    path = _longest(_own_bytes(problem).tolist(), *edges(problem))
    return path[problem.in_sessions[path]]


def heaviest_path(problem: PlacementProblem, own: NDArray[np.float64]) -> NDArray[np.int64]:
    """The path whose ops have most of the (N,) ``own`` figures, from its first op on."""
    return _longest(own.tolist(), *edges(problem))


def search_with_sessions(problem: PlacementProblem) -> PriceSearch:
    """The better of the bounds with sessions counted along the chain and without them.

    The one without finds a bound wherever weights can fit, the other only where sessions do beside them.
    """
    plain, chain = search_price(problem, CutNetwork.of(problem)), heaviest_chain(problem)
    if problem.budgets[ACCELERATOR] == NO_BUDGET or not len(chain):
        return plain
    path = Path(chain, float(problem.session_bytes[ACCELERATOR]))
    return max(plain, search_price(problem, CutNetwork.of(problem, path)), key=lambda search: search.bound)


@dataclass(frozen=True, slots=True, eq=False)
class Ways:
    """The paths of a problem, and how heavy they are."""

    producers: list[int]
    users: list[int]
    """Of every edge, ascending."""
    in_sessions: NDArray[np.bool_]
    own: list[float]
    """Share of all weights, less than 1 on any path."""

    @classmethod
    def of(cls, problem: PlacementProblem) -> Ways:
        own = _own_bytes(problem)
        return cls(*edges(problem), problem.in_sessions, (own / (2 * own.sum() + 1.0)).tolist())

    def most_often(self, placement: Placement) -> NDArray[np.int64]:
        """The path that enters the accelerator most often, the heaviest of such; without ops that run apart."""
        there: list[bool] = (placement == ACCELERATOR).tolist()
        first = [near + begins for near, begins in zip(self.own, there, strict=True)]
        before, reached = [NO_OP] * len(first), first.copy()
        for producer, user in zip(self.producers, self.users, strict=True):
            so_far = reached[producer] + (self.own[user] if there[producer] else first[user])
            if so_far > reached[user]:
                reached[user], before[user] = so_far, producer
        path = _traced(reached, before)
        return path[self.in_sessions[path]]


def _own_bytes(problem: PlacementProblem) -> NDArray[np.float64]:
    """(N,) Bytes of the weights that each op reads, and a little for the op itself."""
    uses = problem.weight_uses
    own = np.bincount(uses.ops, problem.weight_bytes[uses.rows], problem.ops)
    return np.where(problem.in_sessions, own + problem.weight_bytes.sum() * STEP + 1.0, 0.0)


def edges(problem: PlacementProblem) -> tuple[list[int], list[int]]:
    """(producers, users) of ops, sorted by user."""
    uses = problem.value_uses
    producers = problem.value_producer[uses.rows]
    made = problem.made[uses.rows]
    users, producers = unique_pairs(uses.ops[made].astype(np.int64), producers[made].astype(np.int64))
    return producers.tolist(), users.tolist()


def _longest(own: list[float], producers: list[int], users: list[int]) -> NDArray[np.int64]:
    before, reached = [NO_OP] * len(own), [0.0] * len(own)
    for producer, user in zip(producers, users, strict=True):
        if reached[producer] + own[producer] > reached[user]:
            reached[user], before[user] = reached[producer] + own[producer], producer
    return _traced([far + near for far, near in zip(reached, own, strict=True)], before)


def _traced(ends: list[float], before: list[int]) -> NDArray[np.int64]:
    """The path that ends where most is."""
    path = [max(range(len(ends)), key=ends.__getitem__)] if ends else []
    while path and before[path[-1]] != NO_OP:
        path.append(before[path[-1]])
    return np.array(path[::-1], np.int64)
