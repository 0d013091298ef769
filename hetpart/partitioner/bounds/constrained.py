"""The cheapest placements whose weights fit, of those that a network of states holds: all but those proven too dear.

A price of a byte bounds what any placement costs, and a little less than that often remains to be proven: weights come
in whole pieces. So placements are followed op by op with what they cost and hold so far. One is given up where, at all
prices, the cheapest way to the end is too dear; or where another comes to the same state that is no dearer and holds no
more (Aneja, Aggarwal and Nair 1983). Where many are left, those that promise most go on, and what the others promise is
a bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.bounds.passage import Layer, Layers, Room
    from hetpart.partitioner.problem import Placement


@dataclass(frozen=True, slots=True, eq=False)
class Cheapest:
    """Of the placements that fit a room and cost less than what was asked for."""

    bound: float
    """None costs less; no more than what was asked for."""
    placement: Placement | None
    """The cheapest that was met."""
    whole: bool
    """Whether all were followed that could be as cheap."""
    labels: int
    """How many were followed, of all ops together."""


@dataclass(frozen=True, slots=True, eq=False)
class _Labels:
    """Placements of the ops so far."""

    state: NDArray[np.int64]
    cost: NDArray[np.float64]
    nbytes: NDArray[np.float64]
    held: NDArray[np.float64]
    """As of a state, not rounded."""
    came: NDArray[np.int64]
    """From which of those before."""
    side: NDArray[np.int8]

    def undominated(self) -> NDArray[np.int64]:
        """Those that no other beats: of one state that holds as much, what is dearer has less weights."""
        order = np.lexsort((self.nbytes, self.cost, self.held, self.state))
        state, held, nbytes = self.state[order], self.held[order], self.nbytes[order]
        place = np.cumsum((np.diff(state, prepend=0) != 0) | (np.diff(held, prepend=0.0) != 0))
        # Bytes fall from place to place by more than they differ in one: so the least so far is that of the place.
        fallen = nbytes - place * (float(nbytes.max(initial=0.0)) + 1.0)
        least = np.minimum.accumulate(fallen)
        kept = np.ones(len(order), np.bool_)
        kept[1:] = fallen[1:] < least[:-1]
        return order[kept]

    def among(self, chosen: NDArray[np.int64]) -> _Labels:
        return _Labels(
            self.state[chosen],
            self.cost[chosen],
            self.nbytes[chosen],
            self.held[chosen],
            self.came[chosen],
            self.side[chosen],
        )


def cheapest(layers: Layers, prices: NDArray[np.float64], room: Room, enough: float, most: int) -> Cheapest:
    """The cheapest placement of those with less than ``enough``, or a bound on all.

    Args:
        layers: Of the problem.
        prices: (K,) Seconds of a byte at which what is to come is bounded.
        room: (1,) each.
        enough: Seconds.
        most: Placements followed at once.
    """
    prices = np.append(prices, 0.0)
    limit, ahead = float(room.weights[0]), layers.to_come(prices, room)
    first, nothing = np.zeros(1, np.int64), np.zeros(1)
    labels = _Labels(first, nothing, nothing, nothing, first, np.zeros(1, np.int8))
    passed, bound, followed = list[_Labels](), enough, 0
    for layer, to_come in zip(layers.each, ahead, strict=True):
        labels = _followed(layer, labels, room)
        followed += len(labels.cost)
        left = limit - labels.nbytes
        promised = labels.cost + (to_come[labels.state] - prices * left[:, None]).max(axis=1, initial=-np.inf)
        kept = np.flatnonzero((left >= 0.0) & (promised < enough))
        kept = kept[labels.among(kept).undominated()]
        if len(kept) > most:
            kept = kept[np.argsort(promised[kept], kind="stable")]
            bound = min(bound, float(promised[kept[most]]))
            kept = kept[:most]
        labels = labels.among(kept)
        passed.append(labels)
        if not len(kept):
            return Cheapest(bound, None, bound == enough, followed)
    best = int(labels.cost.argmin())
    found = np.repeat(_traced(passed, best), layers.ops)
    return Cheapest(min(bound, float(labels.cost[best])), found, bound == enough, followed)


def _followed(layer: Layer, labels: _Labels, room: Room) -> _Labels:
    """All that may follow at an op."""
    counts = layer.offsets[labels.state + 1] - layer.offsets[labels.state]
    came = np.repeat(np.arange(len(labels.state)), counts)
    first = np.cumsum(counts) - counts
    steps = layer.order[np.arange(len(came)) - first[came] + layer.offsets[labels.state][came]]
    beside = layer.beside[steps]
    between = np.maximum(layer.alone[steps], np.where(beside >= 0.0, labels.held[came] + beside, 0.0))
    kept = (between <= room.between[0]) & (layer.inside[steps] <= room.inside[0])
    steps, came = steps[kept], came[kept]
    return _Labels(
        layer.behind[steps],
        labels.cost[came] + layer.seconds[steps],
        labels.nbytes[came] + layer.nbytes[steps],
        np.where(layer.keeps[steps], labels.held[came], 0.0) + layer.held[steps],
        came,
        layer.side[steps],
    )


def _traced(passed: list[_Labels], label: int) -> Placement:
    sides = list[int]()
    for labels in reversed(passed):
        sides.append(int(labels.side[label]))
        label = int(labels.came[label])
    return np.array(sides[::-1], np.int8)
