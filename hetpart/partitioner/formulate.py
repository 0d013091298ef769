"""Graph and costs → the arrays of a placement problem."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.cost_model.memory import NO_SCRATCH, aligned, most_alive
from hetpart.cost_model.session.bodies import kernel_scratch, session_lane
from hetpart.cost_model.session.lane import lane_of
from hetpart.cost_model.session.layout import RULES as BLOCKED
from hetpart.cost_model.session.packing import held_bytes, inner_bytes
from hetpart.devices import HOST
from hetpart.errors import InvalidModelError
from hetpart.graph.calls import CALL_DOMAIN
from hetpart.partitioner.overlaid import overlaid_bytes
from hetpart.partitioner.problem import NO_BUDGET, NO_OP, NOTHING_KNOWN, Known, PlacementProblem
from hetpart.partitioner.reorders import find_reorders
from hetpart.partitioner.scores.streaming import with_streamed
from hetpart.partitioner.uses import Uses

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hetpart.cost_model.annotate import Costs
    from hetpart.cost_model.session.kernels import Lane
    from hetpart.devices import Device
    from hetpart.graph.ir import Graph, Value


@dataclass(frozen=True, slots=True, eq=False)
class Formulation:
    """A problem and what its rows stand for in the graph."""

    problem: PlacementProblem
    values: tuple[Value, ...]
    """The values of the problem, in its order."""
    weights: tuple[Value, ...]
    known: Known = NOTHING_KNOWN
    """Where a search may begin."""
    inside: int = 0
    """How many more the problem has behind them that are the weights of bodies, one for all of an op."""

    def with_streamed(self, streamed: NDArray[np.bool_] | None) -> Formulation:
        """The problem in which the (W,) ``streamed`` weights are values, behind all others."""
        if streamed is None or not streamed.any():
            return replace(self, problem=replace(self.problem, streaming=None))
        more = tuple(self.weights[index] for index in np.flatnonzero(streamed).tolist())
        return replace(self, problem=with_streamed(self.problem, streamed), values=(*self.values, *more))


def formulate(graph: Graph, costs: Costs, pins: Mapping[int, str], budgets: Mapping[str, int]) -> Formulation:
    """The problem of placing ``graph``'s ops, pinned ones (op id → device name) where they are pinned.

    Raises:
        InvalidModelError: an op has no kernel on any device, or none on the device it is pinned to.
    """
    machine = costs.machine
    values = tuple(value for value in graph.values if not value.is_constant)
    weights = graph.weights
    sizes = np.array([aligned(value.nbytes) for value in values], np.int64)
    returned = set(graph.outputs)
    left = {op.outputs[slot] for op in graph.ops for slot in costs.ops[op.id].host_outputs if slot < len(op.outputs)}
    seconds = _seconds(graph, costs, pins)
    on_host, held = (np.array(held_bytes(graph, device.provider), np.int64) for device in _ends(costs))
    limits = np.array([budgets.get(device.name, NO_BUDGET) for device in machine.devices], np.int64)
    lanes, groups = _thrifty_lanes(graph, costs, limits != NO_BUDGET), _groups(costs, np.isfinite(seconds))
    problem = PlacementProblem(
        devices=tuple(device.name for device in machine.devices),
        seconds=seconds,
        groups=groups,
        scratch_bytes=_beside_bytes(graph, costs, limits != NO_BUDGET, lanes),
        value_producer=np.array([NO_OP if v.producer is None else v.producer for v in values], np.int32),
        value_left_on_host=np.array([value.id in left for value in values], np.bool_),
        value_returned=np.array([value.id in returned for value in values], np.bool_),
        value_bytes=sizes,
        value_uses=_uses(graph, costs, values),
        copy_seconds=_copy_seconds(costs, values),
        weight_bytes=held,
        weight_uses=_uses(graph, costs, weights),
        budgets=limits,
        session_seconds=np.array([device.session_seconds for device in machine.devices]),
        session_bytes=np.array([device.session_bytes for device in machine.devices], np.int64),
        apart=_apart(graph),
        host_more=None if np.array_equal(on_host, held) else on_host - held,
        reorders=find_reorders(graph, groups, lanes, {value.id: number for number, value in enumerate(values)}),
    )
    return Formulation(problem, values, weights)


def with_bodies(formulation: Formulation, graph: Graph, costs: Costs) -> Formulation:
    """``formulation`` where weights that lie inside an op's bodies are held wherever it runs."""
    problem, more = formulation.problem, formulation.problem.host_more
    inside = [(op.id, [inner_bytes(op, device.provider) for device in _ends(costs)]) for op in graph.ops if op.bodies]
    inside = [(op, sizes) for op, sizes in inside if any(sizes)]
    for op, (_, there) in inside:
        problem = problem.and_held(there, [op])
    extra = [here - there for _, (here, there) in inside]
    if any(extra) or (more is not None and extra):
        before = np.zeros(len(formulation.weights), np.int64) if more is None else more
        problem = replace(problem, host_more=np.append(before, np.array(extra, np.int64)))
    return replace(formulation, problem=problem, inside=len(inside))


def _ends(costs: Costs) -> tuple[Device, Device]:
    """The host, and what accelerators are; the host again where there are none."""
    return costs.machine.devices[HOST], costs.machine.devices[-1]


def _apart(graph: Graph) -> NDArray[np.bool_] | None:
    called = np.array([op.domain == CALL_DOMAIN for op in graph.ops], np.bool_)
    return called if called.any() else None


def _thrifty_lanes(graph: Graph, costs: Costs, limited: NDArray[np.bool_]) -> list[Lane]:
    """What runs sessions on the devices that have a budget."""
    told = replace(graph, ops=costs.graph.ops)
    devices = [device for device, has_budget in zip(costs.machine.devices, limited.tolist(), strict=True) if has_budget]
    return [session_lane(told, lane_of(device, thrifty=True)) for device in devices]


def _beside_bytes(graph: Graph, costs: Costs, limited: NDArray[np.bool_], lanes: list[Lane]) -> NDArray[np.int64]:
    """(N,) What each op takes at least beside the values it reads and makes; less than 0 where these share memory."""
    told = replace(graph, ops=costs.graph.ops)
    sizes = {value.id: aligned(value.nbytes) for value in graph.values if not value.is_constant}
    return _scratch_bytes(told, costs, limited) - overlaid_bytes(graph, lanes, sizes)


def _scratch_bytes(told: Graph, costs: Costs, thrifty: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(N,) What each op's kernel takes on every device at least; one that may compute in blocks takes nothing there."""
    rows: list[list[int]] = []
    devices = zip(costs.machine.devices, thrifty.tolist(), strict=True)
    for lane in dict.fromkeys(lane_of(device, thrifty=own) for device, own in devices):
        scratch = kernel_scratch(told, lane)
        rows.append(
            [0 if op.op_type in BLOCKED else most_alive(scratch.get(op.id, NO_SCRATCH).blocks) for op in told.ops]
        )
    return np.array(rows, np.int64).min(axis=0)


def _seconds(graph: Graph, costs: Costs, pins: Mapping[int, str]) -> NDArray[np.float64]:
    names = [device.name for device in costs.machine.devices]
    seconds = np.array([cost.seconds for cost in costs.ops], np.float64).reshape(len(graph.ops), len(names)).T.copy()
    for op, device in pins.items():
        elsewhere = [name != device for name in names]
        seconds[elsewhere, op] = np.inf
    for op in np.flatnonzero(~np.isfinite(seconds).any(axis=0)).tolist():
        reasons = "; ".join(dict.fromkeys(reason for reason in costs.ops[op].missing if reason))
        pinned = f" and it is pinned to {pins[op]}" if op in pins else ""
        raise InvalidModelError(
            f"no device can run {graph.ops[op].op_type} ({graph.ops[op].name!r}): {reasons}{pinned}",
            hint="remove the pin, or replace the operator before export"
            if op in pins
            else "replace the operator before export, or use an opset that ONNX Runtime has kernels for",
        )
    return seconds


def _groups(costs: Costs, allowed: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Group of every op. Where pins leave no device to a whole group its ops stand alone: pins outrank fusion."""
    groups = np.array(costs.groups, np.int32)
    together = np.ones_like(allowed)
    for device, possible in enumerate(allowed):
        np.logical_and.at(together[device], groups, possible)
    torn = np.logical_not(together.any(axis=0))[groups]
    return np.where(torn, np.arange(len(groups), dtype=np.int32), groups)


def _uses(graph: Graph, costs: Costs, edges: tuple[Value, ...]) -> Uses:
    position = {value.id: index for index, value in enumerate(edges)}
    rows: list[list[tuple[int, bool]]] = [[] for _ in edges]
    for op in graph.ops:
        host_slots = costs.ops[op.id].host_inputs
        on_device = {value for slot, value in enumerate(op.inputs) if slot not in host_slots} | set(op.captures)
        for value in op.uses:
            if value in position:
                rows[position[value]].append((op.id, value not in on_device))
    return Uses.from_rows(rows)


def _copy_seconds(costs: Costs, values: tuple[Value, ...]) -> NDArray[np.float64]:
    count = len(costs.machine.devices)
    seconds = np.zeros((count, count, len(values)))
    for source in range(count):
        for target in range(count):
            if source != target:
                seconds[source, target] = [costs.copy_seconds(value.nbytes, source, target) for value in values]
    return seconds
