"""What a placement really holds: the liveness peak of every device, everything counted.

Liveness is per session. A value that crosses a partition's border lives in a buffer from the partition that makes it
(or the step that copies it in) until the last partition that reads it has run; a value inside a partition lives from
its op to its last user. Copies to the host start as soon as the value exists, copies to an accelerator just before the
first partition that needs it: both keep the accelerator's peak low.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import HOST
from hetpart.partitioner.problem import NO_BUDGET, NO_OP, Placement, PlacementProblem
from hetpart.partitioner.scores.sessions import sessions_on
from hetpart.partitioner.uses import use_devices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.scores.cut import Cut


@dataclass(frozen=True, slots=True, eq=False)
class Buffers:
    """Values held across partition borders. Steps are partitions in run order; both ends are inclusive."""

    value: NDArray[np.int64]
    device: NDArray[np.int8]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    nbytes: NDArray[np.int64]
    at_home: NDArray[np.bool_]
    """Whether it is where the value is made, or given."""

    def live(self, devices: int, steps: int) -> NDArray[np.int64]:
        """(D, steps + 1) Bytes alive at each step; the last is the hand-over to the caller."""
        change = np.zeros(devices * (steps + 2), np.int64)
        row = self.device.astype(np.int64) * (steps + 2)
        np.add.at(change, row + self.first, self.nbytes)
        np.subtract.at(change, row + self.last + 1, self.nbytes)
        return change.reshape(devices, steps + 2).cumsum(axis=1)[:, :-1]


@dataclass(frozen=True, slots=True, eq=False)
class Usage:
    """Bytes per device, (D,) each. ``peak`` is the sum of the others."""

    weights: NDArray[np.int64]
    buffers: NDArray[np.int64]
    """Most bytes of crossing values alive at one step."""
    inside: NDArray[np.int64]
    """Most bytes any partition holds inside itself."""
    sessions: NDArray[np.int64]
    peak: NDArray[np.int64]
    inside_partition: NDArray[np.int64]
    """(P,) The bytes each partition holds inside itself at its peak."""

    def packed(self, packed: Packed, cut: Cut, limited: NDArray[np.bool_]) -> Usage:
        """The same as it is ``packed`` on the (D,) devices that have a budget: only of those is that known."""
        inside_partition = np.where(limited[cut.devices], packed.inside_partition, self.inside_partition)
        within = _most_inside(cut, inside_partition, len(self.weights))
        held = np.where(limited, packed.buffers, self.buffers)
        peak = self.weights + held + within + self.sessions
        return Usage(self.weights, held, within, self.sessions, peak, inside_partition)

    def fits(self, problem: PlacementProblem) -> bool:
        limited = problem.budgets != NO_BUDGET
        return bool((self.peak[limited] <= problem.budgets[limited]).all())


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """What a run takes of real memory, which can be more than what is alive in it."""

    inside_partition: NDArray[np.int64]
    """(P,) Bytes each partition takes inside itself."""
    buffers: NDArray[np.int64]
    """(D,) Bytes that crossing values take on every device."""


def usage(problem: PlacementProblem, placement: Placement, cut: Cut) -> Usage:
    """The bytes every device holds at its peak when ``cut`` runs in order."""
    devices = len(problem.devices)
    crossing = crossing_values(problem, cut)
    held = buffers(problem, placement, cut, crossing)
    live = held.live(devices, cut.partitions)
    weights = problem.held_bytes(placement)
    sessions = sessions_on(problem, cut) * problem.session_bytes
    inside_partition = inside(problem, cut, crossing).peaks
    within = _most_inside(cut, inside_partition, devices)
    peak_buffers = live.max(axis=1, initial=0)
    return Usage(weights, peak_buffers, within, sessions, weights + peak_buffers + within + sessions, inside_partition)


def _most_inside(cut: Cut, inside_partition: NDArray[np.int64], devices: int) -> NDArray[np.int64]:
    """(D,) Of the partitions of each device."""
    most = np.zeros(devices, np.int64)
    np.maximum.at(most, cut.devices, inside_partition)
    return most


def crossing_values(problem: PlacementProblem, cut: Cut) -> NDArray[np.bool_]:
    """(V,) Values that leave the partition that makes them, or come from outside."""
    crossing = problem.value_returned | (problem.value_producer == NO_OP)
    rows = problem.value_uses.rows
    producers = problem.value_producer[rows]
    made = producers != NO_OP
    outside = cut.partition[problem.value_uses.ops[made]] != cut.partition[producers[made]]
    crossing[rows[made][outside]] = True
    return crossing


def buffers(problem: PlacementProblem, placement: Placement, cut: Cut, crossing: NDArray[np.bool_]) -> Buffers:
    """Every buffer that holds a crossing value, with the steps it is held for."""
    steps, devices = cut.partitions, len(problem.devices)
    home = problem.home(placement)
    made = _made_at(problem, cut)
    first_read, last_read = _reads(problem, placement, cut)
    last_read[HOST, problem.wanted_on_host] = steps
    if problem.value_kept is not None:
        there = np.flatnonzero(problem.wanted_there)
        last_read[problem.kept[there], there] = steps
        # The caller holds what it gives on an accelerator.
        given = np.flatnonzero(problem.given_there)
        last_read[home[given], given] = steps
    nbytes = np.tile(problem.copied_bytes, (devices, 1))
    nbytes[home, np.arange(problem.values)] = problem.value_bytes
    if problem.streamed is not None:
        first_read[:, problem.streamed] = _fetched(cut, first_read[:, problem.streamed])
        nbytes = np.where(problem.streamed & (np.arange(devices) == HOST)[:, None], 0, nbytes)
    copied = crossing & (last_read >= 0)
    copied[home, np.arange(problem.values)] = False
    owned = np.zeros_like(copied)
    owned[home, np.arange(problem.values)] = crossing
    # On the way to the host as soon as it is there: what the caller gives is from the start.
    ready = np.where(problem.value_producer == NO_OP, 0, made + 1)
    first = np.where(owned, made, first_read)
    first[HOST] = np.where(copied[HOST], ready, first[HOST])
    # The owner keeps a value until it has been read at home and copied everywhere it goes.
    arrival = np.where(copied, first, -1).max(axis=0, initial=-1)
    arrival = np.where(copied[HOST], np.maximum(ready, arrival), arrival)
    last = np.where(owned, np.maximum(np.maximum(last_read, arrival), made), last_read)
    device, value = np.nonzero(owned | copied)
    return Buffers(
        value,
        device.astype(np.int8),
        first[device, value],
        last[device, value],
        nbytes[device, value],
        owned[device, value],
    )


def _fetched(cut: Cut, first_read: NDArray[np.int64]) -> NDArray[np.int64]:
    """(D, S) When streamed weights begin to be copied: while the partition runs that comes before on their device."""
    fetched = first_read.copy()
    for device in range(len(first_read)):
        steps = np.flatnonzero(cut.devices == device)
        before = np.append(np.concatenate([steps[:1], steps[:-1]]), cut.partitions)
        fetched[device] = before[np.searchsorted(steps, first_read[device])]
    return fetched


def _made_at(problem: PlacementProblem, cut: Cut) -> NDArray[np.int64]:
    """(V,) Partition that makes each value; 0 for graph inputs, which are there from the start."""
    made = problem.value_producer != NO_OP
    step = np.zeros(problem.values, np.int64)
    step[made] = cut.partition[problem.value_producer[made]]
    return step


def _reads(problem: PlacementProblem, placement: Placement, cut: Cut) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(D, V) First and last partition, other than the one that makes it, that reads each value from each device."""
    shape = (len(problem.devices), problem.values)
    first = np.full(shape[0] * shape[1], cut.partitions, np.int64)
    last = np.full(shape[0] * shape[1], -1, np.int64)
    rows = problem.value_uses.rows
    steps = cut.partition[problem.value_uses.ops]
    outside = (problem.value_producer[rows] == NO_OP) | (steps != _made_at(problem, cut)[rows])
    where = use_devices(problem.value_uses, placement)[outside] * np.int64(problem.values) + rows[outside]
    np.minimum.at(first, where, steps[outside])
    np.maximum.at(last, where, steps[outside])
    return first.reshape(shape), last.reshape(shape)


@dataclass(frozen=True, slots=True, eq=False)
class Inside:
    """Values that never leave their partition, with ops numbered in the order they run."""

    order: NDArray[np.int64]
    """(N,) Ops by partition, then as the problem has them."""
    starts: NDArray[np.int64]
    """(P,) Position of each partition's first op."""
    value: NDArray[np.int64]
    first: NDArray[np.int64]
    """Per value: the position that makes it."""
    last: NDArray[np.int64]
    """Per value: the last position that reads it."""
    alive: NDArray[np.int64]
    """(N,) Bytes alive while the op at each position runs, its scratch included."""

    @property
    def peaks(self) -> NDArray[np.int64]:
        """(P,) Most bytes alive in each partition."""
        return np.maximum.reduceat(self.alive, self.starts) if len(self.starts) else np.zeros(0, np.int64)


def inside(problem: PlacementProblem, cut: Cut, crossing: NDArray[np.bool_]) -> Inside:
    """What every partition holds inside itself, op by op."""
    order = np.argsort(cut.partition, kind="stable")
    position = np.empty(problem.ops, np.int64)
    position[order] = np.arange(problem.ops)
    inner = np.flatnonzero(~crossing)
    first = position[problem.value_producer[inner]]
    last_use = np.full(problem.values, -1, np.int64)
    np.maximum.at(last_use, problem.value_uses.rows, position[problem.value_uses.ops])
    last = np.maximum(last_use[inner], first)
    change = np.zeros(problem.ops + 1, np.int64)
    np.add.at(change, first, problem.value_bytes[inner])
    np.subtract.at(change, last + 1, problem.value_bytes[inner])
    beside = problem.scratch_bytes.copy()
    if problem.reorders is not None:
        outside = crossing[problem.reorders.values]
        values = problem.reorders.values[outside]
        np.add.at(beside, problem.reorders.ops[outside], problem.value_bytes[values])
    alive = np.maximum(change.cumsum()[:-1] + beside[order], 0)
    starts = np.searchsorted(cut.partition[order], np.arange(cut.partitions))
    return Inside(order, starts, inner, first, last, alive)
