"""One op on the other side, every other op where the plan has it: what changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import HOST
from hetpart.partitioner.scores.streamed import RingScorer
from hetpart.plan.explanation import CausedCopy, Side

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.partitioner.assembly.assemble import Assembly
    from hetpart.partitioner.problem import Placement
    from hetpart.partitioner.scores.scoring import Scorer


def together(assembly: Assembly, op: int) -> list[int]:
    """The ops that must be where ``op`` is, itself among them."""
    groups = assembly.formulation.problem.groups
    return np.flatnonzero(groups == groups[op]).tolist()


def sides(assembly: Assembly, op: int) -> tuple[Side, ...]:
    """``op`` on every device, the plan's first."""
    chosen = int(assembly.solution.placement[op])
    devices = range(len(assembly.device_names))
    scorer = RingScorer.of(assembly.formulation.problem)
    return tuple(_side(assembly, op, device, scorer) for device in sorted(devices, key=lambda d: (d != chosen, d)))


def _seconds(assembly: Assembly, ops: list[int], device: int) -> float:
    """What ``ops`` take on ``device``, on which pins may forbid them; ``inf`` where one has no kernel there."""
    problem, costs = assembly.formulation.problem, assembly.costs.ops
    placed = (float(problem.seconds[device, op]) for op in ops)
    return sum(costs[op].seconds[device] if np.isinf(own) else own for op, own in zip(ops, placed, strict=True))


def _side(assembly: Assembly, op: int, device: int, scorer: Scorer) -> Side:
    problem, group = assembly.formulation.problem, together(assembly, op)
    chosen = int(assembly.solution.placement[op])
    other = next((index for index in range(len(problem.devices)) if index != device), device)
    here, there = _turned(assembly, group, device), _turned(assembly, group, other)
    own, whole = (_seconds(assembly, ops, device) for ops in ([op], group))
    able = bool(np.isfinite(problem.seconds[device, group]).all())
    weights = _weights(assembly, here, there, device)
    scored = scorer.score(here) if able else None
    return Side(
        device=problem.devices[device],
        chosen=device == chosen,
        seconds=own if np.isfinite(own) else None,
        group_seconds=whole if np.isfinite(whole) else None,
        weight_bytes=weights,
        weight_seconds=0.0 if device == HOST else weights * assembly.solution.price,
        copies=_copies(assembly, here, problem.copies(here) & ~problem.copies(there)),
        peak_bytes=int(scored.usage.peak[-1]) if scored else None,
        fits=scored is not None and scored.fits,
        total_seconds=scored.total_seconds if scored else None,
        obstacle="" if able else obstacle(assembly, op, device),
    )


def _turned(assembly: Assembly, group: list[int], device: int) -> Placement:
    placement = assembly.solution.placement.copy()
    placement[group] = device
    return placement


def _weights(assembly: Assembly, here: Placement, there: Placement, device: int) -> int:
    """Bytes of the weights that ``device`` holds only with the ops here."""
    problem = assembly.formulation.problem
    only = problem.held(here)[device] & ~problem.held(there)[device]
    more = 0 if device != HOST or problem.host_more is None else only[: len(problem.host_more)] @ problem.host_more
    return int(only @ problem.weight_bytes + more)


def _copies(assembly: Assembly, placement: Placement, caused: NDArray[np.bool_]) -> tuple[CausedCopy, ...]:
    problem, names = assembly.formulation.problem, assembly.device_names
    home = problem.home(placement)
    found: list[CausedCopy] = []
    targets, values = np.nonzero(caused)
    for target, index in zip(map(int, targets), map(int, values), strict=True):
        value, source = assembly.formulation.values[index], int(home[index])
        seconds = float(problem.copy_seconds[source, target, index])
        found.append(CausedCopy(value.name, names[source], names[target], value.nbytes, seconds))
    return tuple(sorted(found, key=lambda copy: (-copy.seconds, copy.value, copy.target)))


def obstacle(assembly: Assembly, op: int, device: int) -> str:
    """Why ``op`` cannot be on the device: a kernel that is missing, or a pin; its own or that of an op beside it."""
    seconds = assembly.formulation.problem.seconds[device]
    blocked = [one for one in together(assembly, op) if not np.isfinite(seconds[one])]
    if not blocked:
        return ""
    first = op if op in blocked else blocked[0]
    missing = assembly.costs.ops[first].missing[device]
    why = missing or f"pinned to {assembly.pins.get(first, assembly.device_names[HOST])}"
    return why if first == op else f"it shares a device with {assembly.graph.ops[first].name!r}: {why}"
