"""Why every op is where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import HOST
from hetpart.partitioner.search.solve import OPTIMAL
from hetpart.plan.model import Decision
from hetpart.units import format_bytes

if TYPE_CHECKING:
    from hetpart.partitioner.assembly.assemble import Assembly


def decisions(assembly: Assembly) -> tuple[Decision, ...]:
    """One record per op, in the graph's order."""
    return tuple(_decision(assembly, op) for op in range(len(assembly.graph.ops)))


def _decision(assembly: Assembly, op_id: int) -> Decision:
    op, cost = assembly.graph.ops[op_id], assembly.costs.ops[op_id]
    place = int(assembly.solution.placement[op_id])
    device = assembly.device_names[place]
    weights = [assembly.graph.values[value] for value in op.uses if assembly.graph.values[value].is_constant]
    pinned = op_id in assembly.pins
    return Decision(
        op=op.name,
        op_type=op.op_type,
        scope=op.scope,
        device=device,
        partition=int(assembly.solution.cut.partition[op_id]),
        reason=(f"pinned to {device}" if pinned else _reason(assembly, op_id, device)) + _streamed(assembly, op_id),
        seconds={
            name: seconds
            for name, seconds in zip(assembly.device_names, cost.seconds, strict=True)
            if np.isfinite(seconds)
        },
        flops=cost.work.flops,
        bytes_moved=cost.estimates[place].bytes_moved,
        weight_bytes=sum(weight.nbytes for weight in weights),
        pinned=pinned,
        line=op.source.place if op.source else "",
    )


def _reason(assembly: Assembly, op_id: int, device: str) -> str:
    """The op's own nature; where it is not on its fastest device, what outweighs that."""
    cost = assembly.costs.ops[op_id]
    if cost.seconds[assembly.device_names.index(device)] <= min(cost.seconds):
        return cost.reason
    return f"{cost.reason}; {_outweighing(assembly, op_id, device)}"


def _streamed(assembly: Assembly, op_id: int) -> str:
    """How much of what the op reads is copied to it in every run."""
    streamed, uses = assembly.solution.streamed, assembly.formulation.problem.weight_uses
    if streamed is None or assembly.solution.placement[op_id] == HOST:
        return ""
    rows: list[int] = uses.rows[(uses.ops == op_id) & streamed[uses.rows]].tolist()
    nbytes = sum(assembly.formulation.weights[row].nbytes for row in rows)
    return f"; {format_bytes(nbytes)} of weights streamed to it in every run" if rows else ""


def _outweighing(assembly: Assembly, op_id: int, device: str) -> str:
    if assembly.rule != OPTIMAL:
        return f"placed here by {assembly.rule}"
    fused = _fused(assembly, op_id, device)
    if fused:
        return fused
    if device != assembly.device_names[HOST]:
        return "copying its values to the host and back would cost more than it would save"
    if all(rule.fits for rule in assembly.solution.baselines):
        return "the copies to it cost more than it would save"
    return "the memory it needs there, or the copies to it, cost more than it would save"


def _fused(assembly: Assembly, op_id: int, device: str) -> str:
    """Why the ops that ``op_id`` is fused with keep it here, if they do."""
    problem = assembly.formulation.problem
    group = np.flatnonzero(problem.groups == problem.groups[op_id])
    others = [assembly.graph.ops[int(op)] for op in group if op != op_id]
    seconds = problem.seconds[:, group].sum(axis=1)
    pinned = next((op.name for op in others if op.id in assembly.pins), None)
    if pinned is not None:
        return f"fused with {pinned}, which is pinned here"
    if others and seconds[assembly.device_names.index(device)] <= seconds.min():
        return f"fused with {others[0].name}, and faster together here"
    return ""
