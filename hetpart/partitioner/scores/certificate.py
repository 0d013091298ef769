"""An independent check of a placement, from the problem alone.

Plain loops over ops, values and steps: it shares no formula with the code that solves, so that neither can hide the
other's mistakes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetpart.devices import HOST
from hetpart.partitioner.problem import NO_BUDGET, NO_OP
from hetpart.partitioner.scores.checked_run import CheckedRun, RunValue, rows_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hetpart.partitioner.problem import Placement, PlacementProblem
    from hetpart.partitioner.scores.cut import Cut


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
    run = CheckedRun.of(problem, placement, cut, streamed)
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


def _not_streamable(run: CheckedRun) -> list[str]:
    return [f"weight {one.weight} may not be streamed" for one in run.streamed if not math.isfinite(one.seconds)]


def _ops_out_of_place(run: CheckedRun) -> list[str]:
    return [
        f"op {op} may not run on {run.problem.devices[device]}"
        for op, device in enumerate(run.placement)
        if not math.isfinite(run.problem.seconds[device, op])
    ]


def _split_groups(run: CheckedRun) -> list[str]:
    placed: dict[int, set[int]] = {}
    for group, device in zip(run.problem.groups.tolist(), run.placement, strict=True):
        placed.setdefault(group, set()).add(device)
    return [f"group {group} is on {len(devices)} devices" for group, devices in placed.items() if len(devices) > 1]


def _bad_cut(run: CheckedRun) -> list[str]:
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


def _peak(run: CheckedRun, device: int) -> int:
    here = [partition for partition, where in enumerate(run.devices) if where == device]
    inside = max((_inside(run, partition) for partition in here), default=0)
    sessions = len(_partitions(run, apart=False) & set(here)) * int(run.problem.session_bytes[device])
    return _weights(run, device) + _buffers(run, device) + inside + sessions


def _partitions(run: CheckedRun, *, apart: bool) -> set[int]:
    """Those that hold ops that run apart, or others."""
    marks = [False] * len(run.partition) if run.problem.apart is None else run.problem.apart.tolist()
    return {partition for partition, marked in zip(run.partition, marks, strict=True) if marked == apart}


def _weights(run: CheckedRun, device: int) -> int:
    """What is streamed the host holds, and the accelerator does not."""
    streamed = {one.weight for one in run.streamed}
    return sum(
        _held_bytes(run.problem, weight, device)
        for weight, uses in enumerate(rows_of(run.problem.weight_uses))
        if (device == HOST if weight in streamed else _uses_there(run, uses, device))
    )


def _held_bytes(problem: PlacementProblem, weight: int, device: int) -> int:
    more: list[int] = [] if problem.host_more is None or device != HOST else problem.host_more.tolist()
    return int(problem.weight_bytes[weight]) + sum(more[weight : weight + 1])


def _uses_there(run: CheckedRun, uses: list[tuple[int, bool]], device: int) -> bool:
    return any((HOST if on_host else run.placement[op]) == device for op, on_host in uses)


def _buffers(run: CheckedRun, device: int) -> int:
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


def _inside(run: CheckedRun, partition: int) -> int:
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


def _reordered(run: CheckedRun, op: int) -> list[RunValue]:
    """Values that the op's kernel has in another layout."""
    found = run.problem.reorders
    values: list[int] = [] if found is None else found.values[found.ops == op].tolist()
    return [run.values[value] for value in values]
