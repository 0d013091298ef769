"""From a placement to partitions whose graph has no cycle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.problem import NO_OP, Placement, PlacementProblem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """Partitions in the order they run."""

    partition: NDArray[np.int32]
    """(N,) Partition of every op. Along every edge it never falls."""
    devices: NDArray[np.int8]
    """(P,) Device of every partition."""

    @property
    def partitions(self) -> int:
        return len(self.devices)


def dependencies(problem: PlacementProblem) -> list[tuple[int, int]]:
    """Every (producer, user) pair of ops, sorted by user."""
    uses = problem.value_uses
    producers = problem.value_producer[uses.rows]
    made = producers != NO_OP
    pairs = np.unique(np.stack([uses.ops[made], producers[made]], axis=1), axis=0)
    return [(int(producer), int(user)) for user, producer in pairs]


def cut(problem: PlacementProblem, placement: Placement, edges: list[tuple[int, int]] | None = None) -> Cut:
    """Group ops into the fewest partitions that two sweeps find.

    An op's stage is the largest number of device changes on a path that leads to it (or, swept backwards, away from
    it). Stages never fall along an edge, and between two devices they rise, so (stage, device) pairs have no cycle.
    """
    if problem.ops == 0:
        return Cut(np.zeros(0, np.int32), np.zeros(0, np.int8))
    edges = dependencies(problem) if edges is None else edges
    devices: list[int] = placement.tolist()
    earliest = _stages(edges, devices)
    # Edges sorted by user are also a legal order for a backward sweep once reversed: every user precedes its producers.
    latest = _stages(((user, producer) for producer, user in reversed(edges)), devices)
    candidates = (_number(earliest, placement), _number(latest.max() - latest, placement))
    return min(candidates, key=lambda found: found.partitions)


def _stages(edges: Iterable[tuple[int, int]], devices: list[int]) -> NDArray[np.int64]:
    stage = [0] * len(devices)
    for before, after in edges:
        reached = stage[before] + (devices[before] != devices[after])
        if reached > stage[after]:
            stage[after] = reached
    return np.array(stage, np.int64)


def _number(stages: NDArray[np.int64], placement: Placement) -> Cut:
    keys = stages * (int(placement.max()) + 1) + placement
    distinct, partition = np.unique(keys, return_inverse=True)
    return Cut(partition.astype(np.int32), (distinct % (int(placement.max()) + 1)).astype(np.int8))
