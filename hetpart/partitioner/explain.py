"""Why every op is where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import HOST
from hetpart.plan.model import Decision

if TYPE_CHECKING:
    from hetpart.partitioner.assemble import Assembly


def decisions(assembly: Assembly) -> tuple[Decision, ...]:
    """One record per op, in the graph's order."""
    return tuple(_decision(assembly, op) for op in range(len(assembly.graph.ops)))


def _decision(assembly: Assembly, op_id: int) -> Decision:
    op, cost = assembly.graph.ops[op_id], assembly.costs.ops[op_id]
    device = assembly.device_names[int(assembly.solution.placement[op_id])]
    weights = [assembly.graph.values[value] for value in op.uses if assembly.graph.values[value].is_constant]
    pinned = op_id in assembly.pins
    return Decision(
        op=op.name,
        op_type=op.op_type,
        scope=op.scope,
        device=device,
        partition=int(assembly.solution.cut.partition[op_id]),
        reason=f"pinned to {device}" if pinned else _reason(assembly, op_id, device),
        seconds={
            name: seconds
            for name, seconds in zip(assembly.device_names, cost.seconds, strict=True)
            if np.isfinite(seconds)
        },
        flops=cost.work.flops,
        bytes_moved=cost.work.bytes_moved,
        weight_bytes=sum(weight.nbytes for weight in weights),
        pinned=pinned,
    )


def _reason(assembly: Assembly, op_id: int, device: str) -> str:
    """The op's own nature; where it is not on its fastest device, what outweighs that."""
    cost = assembly.costs.ops[op_id]
    fastest = assembly.device_names[int(np.argmin(cost.seconds))]
    if device == fastest or cost.seconds[assembly.device_names.index(device)] <= min(cost.seconds):
        return cost.reason
    if device == assembly.device_names[HOST]:
        outweighed = "the memory it needs there, or the copies to it, cost more than it would save"
    else:
        outweighed = "copying its values to the host and back would cost more than it would save"
    return f"{cost.reason}; {outweighed}"
