"""A solved placement → the Plan's records: partitions, copies, buffers, and a reason for every op."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetpart.cost_model.memory import Interval, pack
from hetpart.devices import HOST
from hetpart.graph.ir import Value, ValueKind, ValueRole
from hetpart.partitioner.liveness import Buffers, buffers, crossing_values
from hetpart.partitioner.problem import NO_OP
from hetpart.plan.model import (
    Buffer,
    Decision,
    Partition,
    Residency,
    ResidencyState,
    Transfer,
    ValueForm,
    ValueSpec,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.cost_model.annotate import Costs
    from hetpart.graph.ir import Graph
    from hetpart.partitioner.formulate import Formulation
    from hetpart.partitioner.solve import Solution


_Border = dict[str, bool]
"""Names of values at a partition's border, with whether they lie in host memory there."""


@dataclass(frozen=True, slots=True, eq=False)
class Assembly:
    """Everything the parts of a plan are read from."""

    graph: Graph
    costs: Costs
    formulation: Formulation
    solution: Solution
    pins: Mapping[int, str]
    crossing: NDArray[np.bool_]
    held: Buffers

    @classmethod
    def of(
        cls, graph: Graph, costs: Costs, formulation: Formulation, solution: Solution, pins: Mapping[int, str]
    ) -> Assembly:
        problem, cut = formulation.problem, solution.cut
        crossing = crossing_values(problem, cut)
        held = buffers(problem, solution.placement, cut, crossing)
        return cls(graph, costs, formulation, solution, pins, crossing, held)

    @property
    def device_names(self) -> tuple[str, ...]:
        return self.formulation.problem.devices


def value_spec(value: Value, index_range: int | None = None) -> ValueSpec:
    """The plan's record of a value at a border."""
    if value.kind is not ValueKind.TENSOR or value.dtype in ("string", ""):
        form = ValueForm.OPAQUE
    else:
        form = ValueForm.STATIC if value.is_static else ValueForm.DYNAMIC
    return ValueSpec(value.name, value.dtype, value.shape, value.nbytes, form, index_range)


def crossing_specs(assembly: Assembly) -> tuple[ValueSpec, ...]:
    """Specs of every value that crosses a partition's border, graph inputs included."""
    values = assembly.formulation.values
    ranges = assembly.graph.index_ranges
    crossing = [values[index] for index in _positions(assembly.crossing)]
    return tuple(value_spec(value, ranges.get(value.name)) for value in crossing)


def _positions(mask: NDArray[np.bool_]) -> list[int]:
    """Where ``mask`` is true."""
    return [int(position) for position in np.flatnonzero(mask)]


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
        peak_bytes=int(assembly.solution.usage.inside_partition[index]),
    )


def _inputs(assembly: Assembly, count: int) -> list[_Border]:
    """What each partition reads from outside; whether all its kernels read it from host memory."""
    problem, cut = assembly.formulation.problem, assembly.solution.cut
    uses = problem.value_uses
    read: list[_Border] = [{} for _ in range(count)]
    for row, op, on_host in zip(uses.rows, uses.ops, uses.on_host, strict=True):
        producer, partition = problem.value_producer[row], int(cut.partition[op])
        if producer == NO_OP or cut.partition[producer] != partition:
            name = assembly.formulation.values[int(row)].name
            read[partition][name] = read[partition].get(name, True) and bool(on_host)
    return read


def _outputs(assembly: Assembly, count: int) -> list[_Border]:
    """What each partition hands out; whether its kernel leaves it in host memory."""
    problem, cut = assembly.formulation.problem, assembly.solution.cut
    made: list[_Border] = [{} for _ in range(count)]
    for index in _positions(assembly.crossing & (problem.value_producer != NO_OP)):
        partition = int(cut.partition[problem.value_producer[index]])
        made[partition][assembly.formulation.values[index].name] = bool(problem.value_left_on_host[index])
    return made


def _weights(assembly: Assembly, count: int) -> list[list[Value]]:
    uses = assembly.formulation.problem.weight_uses
    held: list[dict[int, None]] = [{} for _ in range(count)]
    for row, op in zip(uses.rows, uses.ops, strict=True):
        held[int(assembly.solution.cut.partition[op])][int(row)] = None
    return [[assembly.formulation.weights[row] for row in rows] for rows in held]


def transfers(assembly: Assembly) -> tuple[Transfer, ...]:
    """Copies in the order they are made: those to the host before those to an accelerator, as buffers assume."""
    home = assembly.formulation.problem.home(assembly.solution.placement)
    held = assembly.held
    found = [
        _transfer(assembly, int(home[value]), int(device), int(value), int(first))
        for value, device, first in zip(held.value, held.device, held.first, strict=True)
        if device != home[value]
    ]
    return tuple(sorted(found, key=lambda copy: (copy.step, copy.target != assembly.device_names[HOST])))


def _transfer(assembly: Assembly, source: int, target: int, index: int, step: int) -> Transfer:
    value = assembly.formulation.values[index]
    seconds = float(assembly.formulation.problem.copy_seconds[source, target, index])
    names = assembly.device_names
    return Transfer(value.name, names[source], names[target], value.nbytes, seconds, step)


def arena(assembly: Assembly) -> tuple[tuple[Buffer, ...], dict[str, int]]:
    """Where each crossing value of known size lies in its device's arena, and the arenas' sizes.

    Graph inputs are the caller's and outputs are handed to the caller: on the host neither takes room in an arena.
    """
    placed: list[Buffer] = []
    sizes: dict[str, int] = {}
    for device, name in enumerate(assembly.device_names):
        rows = [row for row in range(len(assembly.held.value)) if _in_arena(assembly, row, device)]
        intervals = tuple(_interval(assembly, row) for row in rows)
        packing = pack(intervals)
        sizes[name] = packing.nbytes
        placed += [
            Buffer(
                assembly.formulation.values[int(assembly.held.value[row])].name,
                name,
                offset,
                interval.nbytes,
                interval.first,
                interval.last,
            )
            for row, interval, offset in zip(rows, intervals, packing.offsets, strict=True)
        ]
    return tuple(placed), sizes


def _in_arena(assembly: Assembly, row: int, device: int) -> bool:
    problem = assembly.formulation.problem
    index = int(assembly.held.value[row])
    value = assembly.formulation.values[index]
    callers = device == HOST and (value.role is ValueRole.INPUT or bool(problem.value_returned[index]))
    mine = int(assembly.held.device[row]) == device
    return mine and not callers and value_spec(value).form is ValueForm.STATIC


def _interval(assembly: Assembly, row: int) -> Interval:
    held = assembly.held
    nbytes = assembly.formulation.values[int(held.value[row])].nbytes
    return Interval(int(held.first[row]), int(held.last[row]), nbytes)


def residencies(assembly: Assembly) -> tuple[Residency, ...]:
    """Where every weight is held."""
    held = assembly.formulation.problem.held(assembly.solution.placement)
    return tuple(
        Residency(
            weight.name,
            name,
            ResidencyState.HOST if device == HOST else ResidencyState.RESIDENT,
            weight.nbytes,
        )
        for index, weight in enumerate(assembly.formulation.weights)
        for device, name in enumerate(assembly.device_names)
        if held[device, index]
    )


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
