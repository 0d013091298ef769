"""Graph × Machine → Costs: what every op costs on every device, and why in words."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from hetpart.cost_model.formulas import unknown_work, work_of
from hetpart.cost_model.fusion import fusion_groups
from hetpart.cost_model.kernels import host_inputs, host_outputs, missing_kernel
from hetpart.cost_model.roofline import Bound, Estimate, balance, estimate
from hetpart.cost_model.transfer import copy_seconds
from hetpart.cost_model.work import Work
from hetpart.devices import HOST, Device, Machine, Provider
from hetpart.graph.ir import Graph, Op, Value


@dataclass(frozen=True, slots=True)
class OpCost:
    """What one op costs."""

    op: int
    work: Work
    known: bool
    """Whether a formula gave ``work``; if not it is a conservative guess."""
    seconds: tuple[float, ...]
    """Per device of the machine, launches included; ``inf`` where the device has no kernel."""
    reason: str
    missing: tuple[str | None, ...]
    """Per device, why it has no kernel."""
    host_inputs: frozenset[int]
    """Positions of inputs a CUDA kernel reads from host memory."""
    host_outputs: frozenset[int]


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of a graph's ops on a machine. ``ops[i]`` and ``groups[i]`` speak of op ``i``."""

    machine: Machine
    ops: tuple[OpCost, ...]
    groups: tuple[int, ...]
    """Smallest op id of the fusion group each op belongs to; its own id when alone."""

    def copy_seconds(self, nbytes: int, source: int, target: int) -> float:
        """Seconds to copy ``nbytes`` between two devices, by their index in the machine."""
        return copy_seconds(self.machine, nbytes, source, target)


def annotate(graph: Graph, machine: Machine) -> Costs:
    """Price every op of ``graph`` on every device of ``machine``."""
    groups = fusion_groups(graph)
    return Costs(machine, tuple(_price(op, graph, machine) for op in graph.ops), groups)


def _price(op: Op, graph: Graph, machine: Machine) -> OpCost:
    formula = work_of(op, graph)
    work = unknown_work(op, graph) if formula is None else formula
    missing = tuple(missing_kernel(device.provider, op, graph) for device in machine.devices)
    dtype = compute_dtype(op, graph)
    estimates = tuple(estimate(work, device, dtype) for device in machine.devices)
    seconds = tuple(inf if why else e.seconds for why, e in zip(missing, estimates, strict=True))
    reason = _reason(work, dtype, machine, estimates, missing)
    if formula is None:
        reason = f"no cost formula for {op.op_type}: {reason}"
    on_cuda = any(device.provider is Provider.CUDA for device in machine.devices)
    host = (host_inputs(op, graph), host_outputs(op)) if on_cuda else (frozenset[int](), frozenset[int]())
    return OpCost(op.id, work, formula is not None, seconds, reason, missing, *host)


def compute_dtype(op: Op, graph: Graph) -> str:
    """The dtype whose arithmetic rate the op runs at: that of its first input, or of its output where it has none."""
    for value_id in (*op.inputs, *op.outputs):
        if value_id is not None:
            value: Value = graph.values[value_id]
            return value.dtype
    return ""


def _reason(
    work: Work, dtype: str, machine: Machine, estimates: tuple[Estimate, ...], missing: tuple[str | None, ...]
) -> str:
    able = [i for i, why in enumerate(missing) if why is None]
    if not able:
        return "; ".join(dict.fromkeys(why for why in missing if why))
    best = min(able, key=lambda i: (estimates[i].seconds, i))
    nature = _nature(work, dtype, machine.devices[best], estimates[best])
    return f"{nature}, {_comparison(best, machine, estimates, missing)}"


def _nature(work: Work, dtype: str, device: Device, best: Estimate) -> str:
    if not work.bytes_moved and not work.flops:
        return f"moves nothing on {device.name}"
    match best.bound:
        case Bound.LAUNCH:
            return f"launch-bound on {device.name}"
        case Bound.COMPUTE:
            relation = "≥"
        case Bound.MEMORY:
            relation = "<"
            if work.bytes_scattered * 2 > work.bytes_moved:
                return f"bound by scattered reads on {device.name}"
    roof = balance(device, dtype)
    return f"{best.bound}-bound on {device.name} (intensity {work.intensity:.3g} {relation} {roof:.3g})"


def _comparison(best: int, machine: Machine, estimates: tuple[Estimate, ...], missing: tuple[str | None, ...]) -> str:
    other = next((i for i in range(len(missing)) if i != best and (i == HOST or best == HOST)), None)
    if other is None:
        return "the only device"
    why = missing[other]
    if why is not None:
        return why
    ratio = estimates[other].seconds / estimates[best].seconds
    rival = machine.devices[other].name
    return f"as fast on {rival}" if ratio < 1.05 else f"{ratio:.1f}× faster there than on {rival}"
