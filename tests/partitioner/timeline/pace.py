"""A run of a plan's timeline in which every task takes as long as chance has it.

It reads the plan's records alone, and knows nothing of how they were found.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from hetpart.plan.model import Plan
from hetpart.plan.timeline import TaskKind, Timeline

Place = tuple[str, str]
FOREVER = float("inf")


@dataclass
class Paced:
    """When every task of one run starts and ends. No two moments of a run are the same."""

    plan: Plan
    start: list[float]
    end: list[float]

    @classmethod
    def of(cls, plan: Plan, seed: int) -> Paced:
        """Tasks of seconds drawn at random, on lanes that keep their order and to what tasks wait for."""
        rng = random.Random(seed)
        tasks = timeline(plan).tasks
        free: dict[str, float] = {}
        start: list[float] = []
        end: list[float] = []
        for task in tasks:
            ready = max([free.get(task.lane, 0.0), *(end[first] for first in task.after)])
            start.append(ready + rng.random() * 1e-6)
            end.append(start[-1] + rng.choice([1e-6, 1.0, 100.0]) * (1 + rng.random()))
            free[task.lane] = end[-1]
        return cls(plan, start, end)

    def touched(self) -> tuple[dict[Place, list[int]], dict[Place, list[int]]]:
        """Tasks that write, and tasks that read, each value on each device."""
        host = self.plan.devices[0].device
        writes: dict[Place, list[int]] = {}
        reads: dict[Place, list[int]] = {}
        for number, task in enumerate(timeline(self.plan).tasks):
            if task.kind is TaskKind.COPY:
                copy = self.plan.transfers[task.index]
                writes.setdefault((copy.value, copy.target), []).append(number)
                reads.setdefault((copy.value, copy.source), []).append(number)
            else:
                partition = self.plan.partitions[task.index]
                for name in partition.outputs:
                    place = name, host if name in partition.host_outputs else partition.device
                    writes.setdefault(place, []).append(number)
                for name in partition.inputs:
                    place = name, host if name in partition.host_inputs else partition.device
                    reads.setdefault(place, []).append(number)
        return writes, reads

    def check(self, sizes: dict[str, int]) -> None:
        """Nothing is read before it is there, no two values lie in the same bytes at once, and all budgets hold."""
        host = self.plan.devices[0].device
        writes, reads = self.touched()
        given = {(spec.name, host) for spec in self.plan.inputs}
        for place, readers in reads.items():
            assert place in given or any(
                all(self.end[writer] <= self.start[reader] for reader in readers) for writer in writes[place]
            ), place
        returned = {(spec.name, host) for spec in self.plan.outputs}
        held = {
            place: (
                min((self.start[task] for task in writes.get(place, ())), default=0.0),
                FOREVER
                if place in returned
                else max((self.end[task] for task in (*reads.get(place, ()), *writes.get(place, ()))), default=0.0),
            )
            for place in {*writes, *reads}
        }
        self._check_bytes(held)
        for use in self.plan.devices:
            if use.budget_bytes is not None:
                assert self._peak(use.device, held, sizes) <= use.peak_bytes <= use.budget_bytes

    def _check_bytes(self, held: dict[Place, tuple[float, float]]) -> None:
        buffers = [buffer for buffer in self.plan.buffers if buffer.nbytes]
        for number, one in enumerate(buffers):
            for other in buffers[:number]:
                apart = one.offset >= other.offset + other.nbytes or other.offset >= one.offset + one.nbytes
                if one.device == other.device and not apart:
                    a, b = held[one.value, one.device], held[other.value, other.device]
                    assert a[1] <= b[0] or b[1] <= a[0], (one, other)

    def _peak(self, device: str, held: dict[Place, tuple[float, float]], sizes: dict[str, int]) -> int:
        """Most bytes on ``device`` at any moment, its arena held throughout."""
        use = self.plan.device(device)
        arena = {buffer.value for buffer in self.plan.buffers if buffer.device == device}
        ends = (buffer.offset + buffer.nbytes for buffer in self.plan.buffers if buffer.device == device)
        base = use.weight_bytes + use.session_bytes + max(ends, default=0)
        beside = [(span, sizes[name]) for (name, where), span in held.items() if where == device and name not in arena]
        inside = [
            ((self.start[number], self.end[number]), self.plan.partitions[task.index].peak_bytes)
            for number, task in enumerate(timeline(self.plan).tasks)
            if task.kind is TaskKind.PARTITION and task.lane == device
        ]
        return base + most([*beside, *inside])


def most(spans: Iterable[tuple[tuple[float, float], int]]) -> int:
    """Most bytes at one moment."""
    spans = list(spans)
    return max(
        (sum(nbytes for (start, end), nbytes in spans if start <= moment < end) for (moment, _), _ in spans), default=0
    )


def timeline(plan: Plan) -> Timeline:
    assert plan.timeline is not None
    return plan.timeline
