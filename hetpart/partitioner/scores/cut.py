"""From a placement to partitions whose graph has no cycle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.partitioner.problem import Placement, PlacementProblem
from hetpart.partitioner.scores.edge_sweeps import Sweeps
from hetpart.partitioner.uses import unique_pairs

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
    return min(both_cuts(problem, placement, edges), key=lambda found: found.partitions)


def both_cuts(problem: PlacementProblem, placement: Placement, edges: Sweeps | None = None) -> tuple[Cut, Cut]:
    """The partitions that the sweep along edges finds, and those of the sweep against them."""
    if problem.ops == 0:
        nothing = Cut(np.zeros(0, np.int32), np.zeros(0, np.int8))
        return nothing, nothing
    edges = dependencies(problem) if edges is None else edges
    devices = len(problem.devices)
    places = placement if problem.apart is None else placement + np.int8(devices) * problem.apart
    earliest = edges.forwards.changes(places)
    latest = edges.backwards.changes(places)
    return _number(earliest, places, devices), _number(latest.max() - latest, places, devices)


def _number(stages: NDArray[np.int32], places: Placement, devices: int) -> Cut:
    keys = stages.astype(np.int64) * (int(places.max()) + 1) + places
    distinct, partition = np.unique(keys, return_inverse=True)
    return Cut(partition.astype(np.int32), (distinct % (int(places.max()) + 1) % devices).astype(np.int8))
