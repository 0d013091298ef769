"""Words what does not fit: the budgets that would do together, and what fills each device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.errors import InfeasibleError
from hetpart.partitioner.assembly.device_use import device_uses
from hetpart.partitioner.scores.fixing import least_bytes
from hetpart.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetpart.graph.ir import Op
    from hetpart.partitioner.assembly.assemble import Assembly
    from hetpart.plan.figures import DeviceUse

_SHOWN = 3


@dataclass(frozen=True, slots=True, eq=False)
class Needed:
    """Budgets that would do together, the others kept."""

    nbytes: dict[int, int]
    """By device, that which lacks most first."""
    by: Assembly
    """The placement that takes so much."""


def refusal(least: Assembly, needed: Needed) -> InfeasibleError:
    """Why ``least``, which takes least of the device that fits worst, does not fit, and what would do."""
    uses = device_uses(least)
    lacks = [(uses[device], nbytes) for device, nbytes in needed.nbytes.items()]
    told = "; and ".join(
        f"{nbytes:,} bytes ({format_bytes(nbytes)}) on {use.device} as far as is found, its budget is "
        f"{use.budget_bytes or 0:,} ({format_bytes(use.budget_bytes or 0)}){_why(needed.by, device)}"
        for (use, nbytes), device in zip(lacks, needed.nbytes, strict=True)
    )
    pinned = any(_must(least, device) for device in needed.nbytes)
    return InfeasibleError(
        f"{least.graph.name!r} needs {told}",
        required_bytes=next(iter(needed.nbytes.values())),
        device=lacks[0][0].device,
        hint=_way_out(lacks, pinned=pinned),
    )


def _why(by: Assembly, device: int) -> str:
    """The ops that fill a device: those that must be there, else the largest; where there are none, the values."""
    must = _must(by, device)
    if must:
        return f"; it must hold {_some(must)}"
    there = np.flatnonzero(by.solution.placement == device)
    if len(there):
        return f"; the largest ops there would be {_some(_largest(by, there.tolist()))}"
    held = np.flatnonzero(by.held.device == device)
    rows = held[np.argsort(-by.held.nbytes[held], kind="stable")].tolist()
    sized = {by.formulation.values[int(by.held.value[row])].name: int(by.held.nbytes[row]) for row in rows}
    shown = ", ".join(f"{name!r} ({format_bytes(nbytes)})" for name, nbytes in [*sized.items()][:_SHOWN])
    return f"; it runs no op and holds {shown}" if sized else ""


def _must(least: Assembly, device: int) -> list[Op]:
    """Ops that may run nowhere else, the largest first."""
    legal = least.formulation.problem.legal()
    return _largest(least, np.flatnonzero(legal[device] & (legal.sum(axis=0) == 1)).tolist())


def _largest(least: Assembly, ops: list[int]) -> list[Op]:
    nbytes = least_bytes(least.formulation.problem)
    return [least.graph.ops[op] for op in sorted(ops, key=lambda op: (-nbytes[op], op))]


def _some(ops: Sequence[Op]) -> str:
    named = ", ".join(f"{op.name!r} ({op.op_type})" for op in ops[:_SHOWN])
    return f"{named} and {len(ops) - _SHOWN} more" if len(ops) > _SHOWN else named


def _way_out(lacks: Sequence[tuple[DeviceUse, int]], *, pinned: bool) -> str:
    for use, nbytes in lacks:
        if nbytes > use.memory_bytes:
            memory = f"{use.device} ({use.model}) has {format_bytes(use.memory_bytes)}"
            return f"no budget would do, for {memory}: {'loosen the pins or ' if pinned else ''}name larger --hardware"
    flags = " ".join(f"--budget {use.device}={nbytes}" for use, nbytes in lacks)
    what = "smallest budget found that would do is" if len(lacks) == 1 else "budgets found that would do together are"
    return f"the {what} {flags}{'; or loosen the pins' if pinned else ''}"
