"""The cheapest placements whose weights fit, of those that a network of states holds: all but those proven too dear.

A price of a byte bounds what any placement costs, and a little less than that often remains to be proven: weights come
in whole pieces. So placements are followed op by op with what they cost and hold so far. One is given up where, at all
prices, the cheapest way to the end is too dear; or where another comes to the same state that is no dearer and holds no
more (Aneja, Aggarwal and Nair 1983). Where many are left, those that promise most go on, and what the others promise is
a bound.

Whether a placement fits may depend on more than such a network knows, as on what memory a session takes beyond what is
alive in it. Then all that are cheap enough are listed: no placement beats another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    past: NDArray[np.int64]
    """A number for each placement of the ops so far, from 0 on; all 0 where they may beat each other."""

    def undominated(self) -> NDArray[np.int64]:
        """Those that no other beats: of one state that holds as much, what is dearer has less weights."""
        states = self.past * (int(self.state.max(initial=0)) + 1) + self.state
        order = np.lexsort((self.nbytes, self.cost, self.held, states))
        state, held, nbytes = states[order], self.held[order], self.nbytes[order]
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
            self.past[chosen],
        )

    def told_apart(self) -> _Labels:
        """By the placements that came to them, and the side they are on now."""
        return replace(self, past=np.unique(self.past * 2 + self.side, return_inverse=True)[1])


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """Placements that keep to a room and cost less than what was asked for."""

    placements: NDArray[np.int8]
    """(K, N) The cheapest first."""
    costs: NDArray[np.float64]
    """(K,) None costs less."""
    labels: int
    """How many were followed, of all ops together."""


@dataclass(frozen=True, slots=True, eq=False)
class _Passed:
    """What is left of the placements, op by op."""

    each: list[_Labels]
    bound: float
    """Of what was left behind."""
    followed: int


def cheapest(layers: Layers, prices: NDArray[np.float64], room: Room, enough: float, most: int) -> Cheapest:
    """The cheapest placement of those with less than ``enough``, or a bound on all.

    Args:
        layers: Of the problem.
        prices: (K,) Seconds of a byte at which what is to come is bounded.
        room: (1,) each.
        enough: Seconds.
        most: Placements followed at once.
    """
    passed = _passed(layers, prices, room, enough, most, apart=False)
    bound, whole, costs = passed.bound, passed.bound == enough, passed.each[-1].cost
    if not len(costs):
        return Cheapest(bound, None, whole, passed.followed)
    best = int(costs.argmin())
    found = _traced(passed.each, np.array([best]), layers)[0]
    return Cheapest(min(bound, float(costs[best])), found, whole, passed.followed)


def listed(layers: Layers, prices: NDArray[np.float64], room: Room, enough: float, most: int) -> Listed | None:
    """All placements with less than ``enough``; None where more are to be followed at once than ``most``.

    Args:
        layers: As for ``cheapest``.
        prices: The same.
        room: The same.
        enough: The same.
        most: The same.
    """
    passed = _passed(layers, prices, room, enough, most, apart=True)
    if passed.bound < enough:
        return None
    last = passed.each[-1]
    order = np.lexsort((last.past, last.cost))
    _, first = np.unique(last.past[order], return_index=True)
    chosen = order[np.sort(first)]
    return Listed(_traced(passed.each, chosen, layers), last.cost[chosen], passed.followed)


def _passed(
    layers: Layers, prices: NDArray[np.float64], room: Room, enough: float, most: int, *, apart: bool
) -> _Passed:
    """What is cheap enough, op by op; as far as anything is.

    With ``apart`` no placement beats another, and nothing is followed further once there are too many.
    """
    prices = np.append(prices, 0.0)
    limit, ahead = float(room.weights[0]), layers.to_come(prices, room)
    first, nothing = np.zeros(1, np.int64), np.zeros(1)
    labels = _Labels(first, nothing, nothing, nothing, first, np.zeros(1, np.int8), first)
    passed, bound, followed = list[_Labels](), enough, 0
    for layer, to_come in zip(layers.each, ahead, strict=True):
        labels = _followed(layer, labels, room)
        followed += len(labels.cost)
        left = limit - labels.nbytes
        promised = labels.cost + (to_come[labels.state] - prices * left[:, None]).max(axis=1, initial=-np.inf)
        kept = np.flatnonzero((left >= 0.0) & (promised < enough))
        fresh = labels.among(kept)
        kept = kept[(fresh.told_apart() if apart else fresh).undominated()]
        if len(kept) > most:
            kept = kept[np.argsort(promised[kept], kind="stable")]
            bound = min(bound, float(promised[kept[most]]))
            kept = kept[:most]
        labels = labels.among(kept)
        labels = labels.told_apart() if apart else labels
        passed.append(labels)
        if not len(kept) or (apart and bound < enough):
            break
    return _Passed(passed, bound, followed)


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
        labels.past[came],
    )


def _traced(passed: list[_Labels], labels: NDArray[np.int64], layers: Layers) -> NDArray[np.int8]:
    """(K, N) The placements that came to ``labels``."""
    sides = np.zeros((len(passed), len(labels)), np.int8)
    for layer in reversed(range(len(passed))):
        sides[layer] = passed[layer].side[labels]
        labels = passed[layer].came[labels]
    return np.repeat(sides, layers.ops[: len(passed)], axis=0).T
