"""An independent check of a placement, from the problem alone.

Plain loops over ops, values and steps: it shares no formula with the code that solves, so that neither can hide the
other's mistakes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from hetpart.devices import HOST
from hetpart.partitioner.problem import NO_BUDGET, NO_OP

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.scores.cut import Cut
    from hetpart.partitioner.uses import Uses

NOWHERE, IN_PLACE = -2, -1


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a placement costs and holds, and what is wrong with it."""

    cost: float
    """Seconds of every op and every copy; infinite where an op may not run."""
    total_seconds: float
    """``cost`` and the overhead of every session."""
    peaks: tuple[int, ...]
    """Bytes each device holds at its peak."""
    legal: bool
    fits: bool
    violations: tuple[str, ...]


def check(
    problem: PlacementProblem, placement: Placement, cut: Cut, streamed: NDArray[np.bool_] | None = None
) -> Verdict:
    """Cost, peaks and legality of ``placement`` run as ``cut`` says, with (W,) ``streamed`` weights."""
    strangers = [
        f"op {op} is on device {device}, of {len(problem.devices)}" for op, device in _strangers(problem, placement)
    ]
    if strangers:
        none = tuple(0 for _ in problem.devices)
        return Verdict(math.inf, math.inf, none, legal=False, fits=False, violations=tuple(strangers))
    run = _Run.of(problem, placement, cut, streamed)
    illegal = [*_ops_out_of_place(run), *_split_groups(run), *_bad_cut(run), *_not_streamable(run)]
    cost = sum(float(problem.seconds[device, op]) for op, device in enumerate(run.placement))
    cost += sum(run.copy_seconds(value) for value in run.values) + sum(weight.seconds for weight in run.streamed)
    peaks = tuple(_peak(run, device) for device in range(len(problem.devices)))
    over = list(_over_budget(problem, peaks))
    sessions = sum(float(problem.session_seconds[device]) for device in run.devices)
    return Verdict(cost, cost + sessions, peaks, not illegal, not over, (*illegal, *over))


def _strangers(problem: PlacementProblem, placement: Placement) -> list[tuple[int, int]]:
    """Ops on a device that there is not."""
    return [(op, device) for op, device in enumerate(placement.tolist()) if not 0 <= device < len(problem.devices)]


@dataclass(frozen=True, slots=True)
class _Value:
    """A value in one run."""

    nbytes: int
    copied_bytes: int
    """On another device than its home."""
    home: int
    step: int
    """Partition that makes it; 0 for a graph input."""
    producer: int
    reads: tuple[tuple[int, int, int], ...]
    """(device, partition, op) of every use."""
    wanted_on: int
    """Device on which the caller gets it; ``NOWHERE`` for what it does not get."""
    seconds: tuple[tuple[float, ...], ...]
    """To copy it from each device to each."""

    @property
    def crosses(self) -> bool:
        """Whether it is held in a buffer rather than inside one partition."""
        outside = self.producer == NO_OP or any(step != self.step for _, step, _ in self.reads)
        return outside or self.wanted_on != NOWHERE

    @property
    def copied_to(self) -> list[int]:
        """Devices that pay for a copy."""
        needed = {device for device, _, _ in self.reads}
        return sorted((needed | {self.wanted_on}) - {self.home, NOWHERE, IN_PLACE})

    def steps_read(self, device: int, steps: int) -> list[int]:
        """Steps that read its buffer on ``device``. Inside the session that makes it nothing does."""
        given_there = self.producer == NO_OP and device == self.home != HOST
        end = [steps] if device == self.wanted_on or given_there else []
        made_there = self.step if self.producer != NO_OP else None
        return [step for where, step, _ in self.reads if where == device and step != made_there] + end

    def held(self, device: int, steps: int) -> range:
        """Steps at which ``device`` has a buffer for it."""
        read = self.steps_read(device, steps)
        if not self.crosses or (device != self.home and not read):
            return range(0)
        if device == self.home:
            copied = [self._arrival(target, steps) for target in self.copied_to if self.steps_read(target, steps)]
            return range(self.step, max([self.step, *read, *copied]) + 1)
        return range(self._arrival(device, steps), max(read) + 1)

    def _arrival(self, device: int, steps: int) -> int:
        """A copy to the host starts once the value is made, one to an accelerator when it is first read."""
        if device != HOST:
            return min(self.steps_read(device, steps))
        return 0 if self.producer == NO_OP else self.step + 1


@dataclass(frozen=True, slots=True)
class _StreamedWeight:
    """A weight that is copied to the accelerator in every run."""

    weight: int
    nbytes: int
    seconds: float
    used: tuple[int, ...]
    """Partitions there that use it."""

    def held(self, here: list[int]) -> range:
        """Steps at which the accelerator, whose partitions are ``here``, has a buffer for it."""
        first = here.index(min(self.used))
        return range(here[max(0, first - 1)], max(self.used) + 1)


@dataclass(frozen=True, slots=True)
class _Run:
    problem: PlacementProblem
    placement: tuple[int, ...]
    partition: tuple[int, ...]
    devices: tuple[int, ...]
    """Device of every partition."""
    values: tuple[_Value, ...]
    streamed: tuple[_StreamedWeight, ...]

    @classmethod
    def of(cls, problem: PlacementProblem, placement: Placement, cut: Cut, streamed: NDArray[np.bool_] | None) -> _Run:
        places, partition = tuple(placement.tolist()), tuple(cut.partition.tolist())
        rows = _rows(problem.value_uses)
        values = tuple(_value(problem, value, rows[value], places, partition) for value in range(problem.values))
        weights = () if streamed is None else _streamed_weights(problem, places, partition, streamed.tolist())
        return cls(problem, places, partition, tuple(cut.devices.tolist()), values, tuple(weights))

    def copy_seconds(self, value: _Value) -> float:
        return sum(value.seconds[value.home][device] for device in value.copied_to)


def _rows(uses: Uses) -> list[list[tuple[int, bool]]]:
    """(op, read from host memory) of every use, per hyperedge."""
    flat = list(zip(uses.ops.tolist(), uses.on_host.tolist(), strict=True))
    offsets: list[int] = uses.offsets.tolist()
    return [flat[start:end] for start, end in pairwise(offsets)]


def _value(
    problem: PlacementProblem,
    value: int,
    uses: list[tuple[int, bool]],
    places: tuple[int, ...],
    partition: tuple[int, ...],
) -> _Value:
    producer = int(problem.value_producer[value])
    kept = HOST if problem.value_kept is None else int(problem.value_kept[value])
    devices = range(len(problem.devices))
    return _Value(
        nbytes=int(problem.value_bytes[value]),
        copied_bytes=int(problem.value_bytes[value] + (0 if problem.states is None else problem.states.nbytes[value])),
        home=_home(problem, value, places, kept),
        step=0 if producer == NO_OP else partition[producer],
        producer=producer,
        reads=tuple((HOST if on_host else places[op], partition[op], op) for op, on_host in uses),
        wanted_on=kept if problem.value_returned[value] else NOWHERE,
        seconds=tuple(tuple(float(problem.copy_seconds[a, b, value]) for b in devices) for a in devices),
    )


def _home(problem: PlacementProblem, value: int, places: tuple[int, ...], kept: int) -> int:
    """The device a value is made on, or that the caller gives it on."""
    producer = int(problem.value_producer[value])
    if producer != NO_OP:
        return HOST if problem.value_left_on_host[value] else places[producer]
    keeper = NO_OP if problem.states is None else int(problem.states.keeper[value])
    return places[keeper] if keeper != NO_OP else max(kept, HOST)


def _streamed_weights(
    problem: PlacementProblem, places: tuple[int, ...], partition: tuple[int, ...], streamed: list[bool]
) -> Iterator[_StreamedWeight]:
    for weight, uses in enumerate(_rows(problem.weight_uses)):
        used = tuple(partition[op] for op, on_host in uses if places[op] != HOST and not on_host)
        if streamed[weight] and used:
            assert problem.streaming is not None
            seconds, nbytes = float(problem.streaming.seconds[weight]), int(problem.streaming.nbytes[weight])
            yield _StreamedWeight(weight, nbytes, seconds, used)


def _not_streamable(run: _Run) -> list[str]:
    return [f"weight {one.weight} may not be streamed" for one in run.streamed if not math.isfinite(one.seconds)]


def _ops_out_of_place(run: _Run) -> list[str]:
    return [
        f"op {op} may not run on {run.problem.devices[device]}"
        for op, device in enumerate(run.placement)
        if not math.isfinite(run.problem.seconds[device, op])
    ]


def _split_groups(run: _Run) -> list[str]:
    placed: dict[int, set[int]] = {}
    for group, device in zip(run.problem.groups.tolist(), run.placement, strict=True):
        placed.setdefault(group, set()).add(device)
    return [f"group {group} is on {len(devices)} devices" for group, devices in placed.items() if len(devices) > 1]


def _bad_cut(run: _Run) -> list[str]:
    """Partitions must be numbered without a hole, keep to one device each, and never be needed before they run."""
    wrong = [
        f"op {op} is on {run.problem.devices[device]}, its partition {partition} is not"
        for op, (device, partition) in enumerate(zip(run.placement, run.partition, strict=True))
        if not 0 <= partition < len(run.devices) or run.devices[partition] != device
    ]
    if set(run.partition) != set(range(len(run.devices))):
        wrong.append("a partition is empty")
    if _partitions(run, apart=True) & _partitions(run, apart=False):
        wrong.append("an op that runs apart shares a partition")
    for number, value in enumerate(run.values):
        early = [op for _, step, op in value.reads if value.producer != NO_OP and step < value.step]
        wrong += [f"op {op} runs before value {number} is made" for op in early]
    return wrong


def _over_budget(problem: PlacementProblem, peaks: tuple[int, ...]) -> list[str]:
    return [
        f"{problem.devices[device]} holds {peak} bytes, {peak - budget} over its budget"
        for device, (peak, budget) in enumerate(zip(peaks, problem.budgets.tolist(), strict=True))
        if budget != NO_BUDGET and peak > budget
    ]


def _peak(run: _Run, device: int) -> int:
    here = [partition for partition, where in enumerate(run.devices) if where == device]
    inside = max((_inside(run, partition) for partition in here), default=0)
    sessions = len(_partitions(run, apart=False) & set(here)) * int(run.problem.session_bytes[device])
    return _weights(run, device) + _buffers(run, device) + inside + sessions


def _partitions(run: _Run, *, apart: bool) -> set[int]:
    """Those that hold ops that run apart, or others."""
    marks = [False] * len(run.partition) if run.problem.apart is None else run.problem.apart.tolist()
    return {partition for partition, marked in zip(run.partition, marks, strict=True) if marked == apart}


def _weights(run: _Run, device: int) -> int:
    """What is streamed the host holds, and the accelerator does not."""
    streamed = {one.weight for one in run.streamed}
    return sum(
        _held_bytes(run.problem, weight, device)
        for weight, uses in enumerate(_rows(run.problem.weight_uses))
        if (device == HOST if weight in streamed else _uses_there(run, uses, device))
    )


def _held_bytes(problem: PlacementProblem, weight: int, device: int) -> int:
    more: list[int] = [] if problem.host_more is None or device != HOST else problem.host_more.tolist()
    return int(problem.weight_bytes[weight]) + sum(more[weight : weight + 1])


def _uses_there(run: _Run, uses: list[tuple[int, bool]], device: int) -> bool:
    return any((HOST if on_host else run.placement[op]) == device for op, on_host in uses)


def _buffers(run: _Run, device: int) -> int:
    """Most bytes of crossing values at any step, the hand-over to the caller included."""
    steps = len(run.devices)
    held = [0] * (steps + 2)
    for value in run.values:
        for step in value.held(device, steps):
            held[step] += value.nbytes if device == value.home else value.copied_bytes
    here = [step for step, where in enumerate(run.devices) if where == device]
    for weight in run.streamed if device != HOST else ():
        for step in weight.held(here):
            held[step] += weight.nbytes
    return max(held)


def _inside(run: _Run, partition: int) -> int:
    """Most bytes the partition holds while it runs op by op, crossing values not counted."""
    peak = 0
    kept = [value for value in run.values if not value.crosses and value.step == partition]
    for op in (op for op, where in enumerate(run.partition) if where == partition):
        alive = sum(
            value.nbytes
            for value in kept
            if value.producer <= op <= max([value.producer, *(reader for _, _, reader in value.reads)])
        )
        twice = sum(value.nbytes for value in _reordered(run, op) if value.crosses)
        peak = max(peak, alive + twice + int(run.problem.scratch_bytes[op]))
    return peak


def _reordered(run: _Run, op: int) -> list[_Value]:
    """Values that the op's kernel has in another layout."""
    found = run.problem.reorders
    values: list[int] = [] if found is None else found.values[found.ops == op].tolist()
    return [run.values[value] for value in values]
