"""What a plan takes on every device, step by step, from the plan's own records and the graph alone.

What a partition takes inside itself is taken from the plan; ``tests/cost_model/test_session_memory.py`` asks
ONNX Runtime.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hetpart.graph.ir import Graph
from hetpart.partitioned import PartitionedModel
from hetpart.plan.homes import home
from hetpart.plan.model import Plan

Place = tuple[str, str]


@dataclass
class Run:
    """A run of a plan that only counts."""

    plan: Plan
    graph: Graph
    peaks: dict[str, int] = field(default_factory=dict)
    present: set[Place] = field(default_factory=set)
    """Values across borders that are in memory, outside the arenas."""

    def __post_init__(self) -> None:
        self.values = {value.name: value for value in self.graph.values}
        self.host = self.plan.devices[0].device
        self.in_arena = {(buffer.value, buffer.device) for buffer in self.plan.buffers}
        if any(use.state_bytes for use in self.plan.devices):
            states = {*self.plan.states, *self.plan.states.values()}
            self.in_arena |= {(name, home(self.plan, name)) for name in states}
        self.reads = self._reads()

    def _reads(self) -> dict[Place, int]:
        """The last step at which each value is read from each device, copies away included."""
        last: dict[Place, int] = {}
        for step, partition in enumerate(self.plan.partitions):
            for name in partition.inputs:
                last[name, self.host if name in partition.host_inputs else partition.device] = step
        for copy in self.plan.transfers:
            place = copy.value, copy.source
            last[place] = max(last.get(place, 0), copy.step)
        for spec in self.plan.outputs:
            last[spec.name, home(self.plan, spec.name)] = len(self.plan.partitions)
        for name in self.plan.homes.keys() & {spec.name for spec in self.plan.inputs}:
            last[name, home(self.plan, name)] = len(self.plan.partitions)
        return last

    def base(self, device: str) -> int:
        """What is held all the time: weights, sessions and the arena."""
        weights = sum(held.nbytes for held in self.plan.residencies if held.device == device)
        arena = max(
            (buffer.offset + buffer.nbytes for buffer in self.plan.buffers if buffer.device == device), default=0
        )
        use = self.plan.device(device)
        return weights + arena + use.session_bytes + use.state_bytes

    def take(self, device: str, inside: int) -> None:
        beside = sum(self.values[name].nbytes for name, where in self.present - self.in_arena if where == device)
        self.peaks[device] = max(self.peaks.get(device, 0), self.base(device) + beside + inside)

    def everywhere(self) -> None:
        for use in self.plan.devices:
            self.take(use.device, 0)

    def simulate(self) -> dict[str, int]:
        self.present = {(spec.name, home(self.plan, spec.name)) for spec in self.plan.inputs}
        waiting = list(self.plan.transfers)
        for step in range(len(self.plan.partitions) + 1):
            while waiting and waiting[0].step <= step:
                copy = waiting.pop(0)
                assert (copy.value, copy.source) in self.present
                self.present.add((copy.value, copy.target))
                self.everywhere()
            if step < len(self.plan.partitions):
                self._partition(step)
            self.present = {place for place in self.present if self.reads.get(place, -1) > step}
        return self.peaks

    def _partition(self, step: int) -> None:
        partition = self.plan.partitions[step]
        for name in partition.inputs:
            assert (name, self.host if name in partition.host_inputs else partition.device) in self.present
        self.present |= {
            (name, self.host if name in partition.host_outputs else partition.device) for name in partition.outputs
        }
        self.take(partition.device, partition.peak_bytes)


def simulated_peaks(model: PartitionedModel) -> dict[str, int]:
    """Most bytes on every device at any moment of a run."""
    return Run(model.plan, model.graph).simulate()
