"""One run of a placement for its check: what every value and every streamed weight does, by plain loops."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from hetpart.devices import HOST
from hetpart.partitioner.problem import NO_OP

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.scores.cut import Cut
    from hetpart.partitioner.uses import Uses

NOWHERE, IN_PLACE = -2, -1


@dataclass(frozen=True, slots=True)
class RunValue:
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
class StreamedWeight:
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
class CheckedRun:
    """A placement as it is run, in plain numbers."""

    problem: PlacementProblem
    placement: tuple[int, ...]
    partition: tuple[int, ...]
    devices: tuple[int, ...]
    """Device of every partition."""
    values: tuple[RunValue, ...]
    streamed: tuple[StreamedWeight, ...]

    @classmethod
    def of(
        cls, problem: PlacementProblem, placement: Placement, cut: Cut, streamed: NDArray[np.bool_] | None
    ) -> CheckedRun:
        places, partition = tuple(placement.tolist()), tuple(cut.partition.tolist())
        rows = rows_of(problem.value_uses)
        values = tuple(_value(problem, value, rows[value], places, partition) for value in range(problem.values))
        weights = () if streamed is None else _streamed_weights(problem, places, partition, streamed.tolist())
        return cls(problem, places, partition, tuple(cut.devices.tolist()), values, tuple(weights))

    def copy_seconds(self, value: RunValue) -> float:
        """Of all its copies."""
        return sum(value.seconds[value.home][device] for device in value.copied_to)


def rows_of(uses: Uses) -> list[list[tuple[int, bool]]]:
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
) -> RunValue:
    producer = int(problem.value_producer[value])
    kept = HOST if problem.value_kept is None else int(problem.value_kept[value])
    devices = range(len(problem.devices))
    return RunValue(
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
) -> Iterator[StreamedWeight]:
    for weight, uses in enumerate(rows_of(problem.weight_uses)):
        used = tuple(partition[op] for op, on_host in uses if places[op] != HOST and not on_host)
        if streamed[weight] and used:
            assert problem.streaming is not None
            seconds, nbytes = float(problem.streaming.seconds[weight]), int(problem.streaming.nbytes[weight])
            yield StreamedWeight(weight, nbytes, seconds, used)
