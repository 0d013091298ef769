"""Which devices of a machine have a kernel for an op, and which operands those kernels keep in host memory."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from hetpart.cost_model.kernels import host_inputs, host_outputs, missing_kernel
from hetpart.cost_model.refusals import BY_SHAPE
from hetpart.devices import Machine, Provider
from hetpart.graph.ir import Graph, Op

_ABSENT = -1


@dataclass(frozen=True, slots=True)
class Support:
    """What a machine's devices have for one op."""

    missing: tuple[str | None, ...]
    """Per device, why it has no kernel."""
    host_inputs: frozenset[int]
    """Positions of inputs a CUDA kernel reads from host memory."""
    host_outputs: frozenset[int]


class Supports:
    """Support of a graph's ops. Sizes matter to few: ops that agree in all else are looked up once."""

    def __init__(self, graph: Graph, machine: Machine) -> None:
        numbers: dict[Hashable, int] = {}
        self._graph = graph
        self._machine = machine
        self._types = [numbers.setdefault((value.kind, value.dtype), len(numbers)) for value in graph.values]
        self._known: dict[Hashable, Support] = {}

    def of(self, op: Op) -> Support:
        """What the machine's devices have for ``op``."""
        key = op.id if op.bodies else (*_key(op, self._types), self._shapes(op))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = _support(op, self._graph, self._machine)
        return found

    def _shapes(self, op: Op) -> Hashable:
        """Those that tell whether a kernel refuses ``op``."""
        if op.op_type not in BY_SHAPE:
            return None
        return tuple([self._graph.values[value].shape for value in (*op.inputs, *op.outputs[:1]) if value is not None])


def _key(op: Op, types: list[int]) -> tuple[Hashable, ...]:
    return (
        op.domain,
        op.op_type,
        op.version,
        tuple(op.attributes.items()),
        tuple([_ABSENT if value is None else types[value] for value in op.inputs]),
        tuple([_ABSENT if value is None else types[value] for value in op.outputs]),
    )


def _support(op: Op, graph: Graph, machine: Machine) -> Support:
    missing = tuple([missing_kernel(device.provider, op, graph) for device in machine.devices])
    if all(device.provider is not Provider.CUDA for device in machine.devices):
        return Support(missing, frozenset(), frozenset())
    return Support(missing, host_inputs(op, graph), host_outputs(op))
