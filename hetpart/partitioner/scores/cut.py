"""From a placement to partitions whose graph has no cycle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.problem import Placement, PlacementProblem, unique_pairs
from hetpart.partitioner.scores.edge_sweeps import Sweeps

if TYPE_CHECKING:
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


def dependencies(problem: PlacementProblem) -> Sweeps:
    """The edges between ops."""
    uses = problem.value_uses
    producers = problem.value_producer[uses.rows]
    made = problem.made[uses.rows]
    users, producers = unique_pairs(uses.ops[made].astype(np.int64), producers[made].astype(np.int64))
    return Sweeps.of(producers.astype(np.int32), users.astype(np.int32), problem.ops)


def cut(problem: PlacementProblem, placement: Placement, edges: Sweeps | None = None) -> Cut:
    """Group ops into the fewest partitions that two sweeps find.

    An op's stage is the largest number of device changes on a path that leads to it (or, swept backwards, away from
    it). Stages never fall along an edge, and between two devices they rise, so (stage, device) pairs have no cycle.
    Ops that are run apart count as on a device of their own.
    """
    if problem.ops == 0:
        return Cut(np.zeros(0, np.int32), np.zeros(0, np.int8))
    edges = dependencies(problem) if edges is None else edges
    places = placement if problem.apart is None else placement + np.int8(len(problem.devices)) * problem.apart
    earliest = edges.forwards.changes(places)
    latest = edges.backwards.changes(places)
    candidates = (_number(earliest, places), _number(latest.max() - latest, places))
    found = min(candidates, key=lambda found: found.partitions)
    return Cut(found.partition, (found.devices % len(problem.devices)).astype(np.int8))


def _number(stages: NDArray[np.int32], placement: Placement) -> Cut:
    keys = stages.astype(np.int64) * (int(placement.max()) + 1) + placement
    distinct, partition = np.unique(keys, return_inverse=True)
    return Cut(partition.astype(np.int32), (distinct % (int(placement.max()) + 1)).astype(np.int8))
