"""The partitions of an assembled placement: what each holds, reads from outside and hands out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import HOST
from hetpart.partitioner.problem import NO_OP
from hetpart.plan.model import Partition

if TYPE_CHECKING:
    from hetpart.graph.ir import Value
    from hetpart.partitioner.assembly.assemble import Assembly

_Border = dict[str, bool]
"""Names of values at a partition's border, with whether they lie in host memory there."""


def partitions(assembly: Assembly) -> tuple[Partition, ...]:
    """Partitions in run order, their inputs and outputs in the graph's order."""
    count = assembly.solution.cut.partitions
    ops: list[list[int]] = [[] for _ in range(count)]
    for op, partition in enumerate(assembly.solution.cut.partition):
        ops[int(partition)].append(op)
    borders = zip(_inputs(assembly, count), _outputs(assembly, count), _weights(assembly, count), strict=True)
    return tuple(_partition(assembly, index, ops[index], *border) for index, border in enumerate(borders))


def _partition(
    assembly: Assembly, index: int, ops: list[int], read: _Border, made: _Border, weights: list[Value]
) -> Partition:
    device = int(assembly.solution.cut.devices[index])
    seconds = assembly.formulation.problem.seconds[device, ops].sum()
    return Partition(
        id=index,
        device=assembly.device_names[device],
        ops=tuple(assembly.graph.ops[op].name for op in ops),
        inputs=tuple(read),
        host_inputs=tuple(name for name, on_host in read.items() if on_host and device != HOST),
        outputs=tuple(made),
        host_outputs=tuple(name for name, on_host in made.items() if on_host and device != HOST),
        weights=tuple(weight.name for weight in weights),
        seconds=float(seconds),
        weight_bytes=sum(weight.nbytes for weight in weights),
        peak_bytes=int(assembly.activations[index]),
    )


def _inputs(assembly: Assembly, count: int) -> list[_Border]:
    """What each partition reads from outside; whether all its kernels read it from host memory."""
    problem, cut = assembly.formulation.problem, assembly.solution.cut
    uses = problem.value_uses
    read: list[_Border] = [{} for _ in range(count)]
    for row, op, on_host in zip(uses.rows, uses.ops, uses.on_host, strict=True):
        if _is_weight_at_home(assembly, int(row), int(op)):
            continue
        producer, partition = problem.value_producer[row], int(cut.partition[op])
        if producer == NO_OP or cut.partition[producer] != partition:
            name = assembly.formulation.values[int(row)].name
            read[partition][name] = read[partition].get(name, True) and bool(on_host)
    return read


def _is_weight_at_home(assembly: Assembly, value: int, op: int) -> bool:
    """Whether the value is a streamed weight, and the op, on the host, has it as the weight it is."""
    streamed = assembly.formulation.problem.streamed
    return streamed is not None and bool(streamed[value]) and assembly.solution.placement[op] == HOST


def _outputs(assembly: Assembly, count: int) -> list[_Border]:
    """What each partition hands out; whether its kernel leaves it in host memory."""
    problem, cut = assembly.formulation.problem, assembly.solution.cut
    made: list[_Border] = [{} for _ in range(count)]
    for index in np.flatnonzero(assembly.crossing & (problem.value_producer != NO_OP)):
        partition = int(cut.partition[problem.value_producer[index]])
        made[partition][assembly.formulation.values[index].name] = bool(problem.value_left_on_host[index])
    return made


def _weights(assembly: Assembly, count: int) -> list[list[Value]]:
    uses, streamed = assembly.formulation.problem.weight_uses, assembly.solution.streamed
    held: list[dict[int, None]] = [{} for _ in range(count)]
    others_from = len(assembly.formulation.weights)
    for row, op in zip(uses.rows, uses.ops, strict=True):
        if row >= others_from:
            continue
        if streamed is None or not streamed[row] or assembly.solution.placement[op] == HOST:
            held[int(assembly.solution.cut.partition[op])][int(row)] = None
    return [[assembly.formulation.weights[row] for row in rows] for rows in held]
