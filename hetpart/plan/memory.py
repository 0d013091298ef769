"""Bytes in use on every device over one run, as a plan predicts it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from hetpart.plan.figures import DeviceUse
from hetpart.plan.homes import home
from hetpart.plan.model import Plan
from hetpart.plan.predicted import Place, PredictedRun, predicted_run

_Changes = dict[float, int]
"""By how many bytes what is in use changes, by the time."""


@dataclass(frozen=True, slots=True)
class MemoryStep:
    """A stretch of a run in which nothing changes on a device."""

    start: float
    """Seconds from the start of the run."""
    end: float
    value_bytes: int
    """Of values between partitions, the caller's among them."""
    inside_bytes: int
    """Most that the partition which runs has in use inside itself."""

    @property
    def nbytes(self) -> int:
        return self.value_bytes + self.inside_bytes


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """What one device holds over a run.

    ``use.peak_bytes`` is what the plan counts. Where there is a budget it is never less than any step: it has room for
    values that lie apart though they are not in use at one time.
    """

    use: DeviceUse
    steps: tuple[MemoryStep, ...]
    """One after another, from the start of the run to its end."""

    @property
    def held_bytes(self) -> int:
        """What is there from load to close: weights, states and what sessions take."""
        return self.use.weight_bytes + self.use.state_bytes + self.use.session_bytes

    @property
    def highest(self) -> MemoryStep | None:
        """The first stretch with the most bytes in use; ``None`` where nothing runs."""
        return max(self.steps, key=lambda step: step.nbytes, default=None)

    @property
    def most_bytes(self) -> int:
        """Most bytes in use at one time."""
        return self.held_bytes + (self.highest.nbytes if self.highest else 0)


def memory_over_time(plan: Plan, run: PredictedRun | None = None) -> tuple[DeviceMemory, ...]:
    """What every device holds while ``run`` lasts, by default what ``predicted_run`` says of ``plan``."""
    run = predicted_run(plan) if run is None else run
    values: dict[str, _Changes] = defaultdict(lambda: defaultdict(int))
    for (_, device), (start, end, nbytes) in _held(plan, run):
        values[device][start] += nbytes
        values[device][end] -= nbytes
    inside: dict[str, _Changes] = defaultdict(lambda: defaultdict(int))
    for task in run.tasks:
        if not task.is_copy:
            partition = plan.partitions[task.index]
            inside[partition.device][task.start] += partition.peak_bytes
            inside[partition.device][task.end] -= partition.peak_bytes
    return tuple(
        DeviceMemory(use, tuple(_steps(values[use.device], inside[use.device], run.seconds))) for use in plan.devices
    )


def _held(plan: Plan, run: PredictedRun) -> Iterator[tuple[Place, tuple[float, float, int]]]:
    """Every value between partitions with the device it lies on: from when, until when, and its bytes."""
    nbytes = {spec.name: spec.nbytes for spec in (*plan.inputs, *plan.outputs, *plan.values)}
    nbytes |= {copy.value: copy.nbytes for copy in plan.transfers}
    host, counted = plan.devices[0].device, _counted_as_states(plan)
    begin = {(spec.name, home(plan, spec.name)): 0.0 for spec in plan.inputs}
    # The caller holds what it gives on an accelerator, and what it is given.
    end = {place: 0.0 if place[1] == host else run.seconds for place in begin}
    for task in run.tasks:
        for place in task.makes:
            begin.setdefault(place, task.start)
        for place in (*task.reads, *task.makes):
            end[place] = max(end.get(place, 0.0), task.end)
    for spec in plan.outputs:
        name = plan.passthrough.get(spec.name, spec.name)
        end[name, home(plan, name)] = run.seconds
    for place, start in begin.items():
        if place not in counted and end[place] > start:
            yield place, (start, end[place], nbytes[place[0]])


def _counted_as_states(plan: Plan) -> frozenset[Place]:
    """Where states stay from run to run: their bytes are among ``state_bytes``."""
    with_states = {use.device for use in plan.devices if use.state_bytes}
    places = ((name, home(plan, name)) for pair in plan.states.items() for name in pair)
    return frozenset(place for place in places if place[1] in with_states)


def _steps(values: _Changes, inside: _Changes, seconds: float) -> Iterator[MemoryStep]:
    times = sorted({0.0, *values, *inside, seconds})
    value_bytes = inside_bytes = 0
    for start, end in pairwise(times):
        value_bytes += values.get(start, 0)
        inside_bytes += inside.get(start, 0)
        yield MemoryStep(start, end, value_bytes, inside_bytes)
