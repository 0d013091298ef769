# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""What flows where: between the ops of a bundle's models, and between the partitions of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetpart.plan.model import Plan
from hetpart.plan.predicted import touched
from hetpart.plan.timeline import TaskKind

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True, slots=True)
class OpEdge:
    """A value that one op makes and another uses."""

    value: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class OpGraph:
    """The ops of a whole model, as its partitions hold them."""

    name: str
    ops: tuple[str, ...]
    edges: tuple[OpEdge, ...]


@dataclass(frozen=True, slots=True)
class PartitionEdge:
    """A value that one partition makes and another uses. Both are places in ``Plan.partitions``."""

    value: str
    source: int
    target: int
    nbytes: int
    copy: int | None
    """Place in ``Plan.transfers`` of the copy that brings it to where it is used; ``None`` where none is needed."""


def op_graph(models: Iterable[bytes]) -> OpGraph:
    """The graph whose parts are ``models``, the serialized partitions of a bundle in their order."""
    import onnx

    parts = [onnx.load_model_from_string(model) for model in models]
    nodes = {node.name: node for part in parts for node in part.graph.node}  # a derived weight is made in several
    makers = {name: node.name for node in nodes.values() for name in node.output if name}
    edges = dict.fromkeys(
        OpEdge(value, makers[value], node.name) for node in nodes.values() for value in _uses(node) if value in makers
    )
    name = parts[0].graph.name.rpartition("/")[0] if parts else ""
    return OpGraph(name, tuple(nodes), tuple(edge for edge in edges if edge.source != edge.target))


def _uses(node: onnx.NodeProto) -> Iterator[str]:
    """Names that a node reads, and what is inside it."""
    from hetpart.graph.walk import bodies_of

    yield from node.input
    for body in bodies_of(node):
        yield from (output.name for output in body.output)
        for inner in body.node:
            yield from _uses(inner)


def partition_edges(plan: Plan) -> tuple[PartitionEdge, ...]:
    """Every value that flows between two partitions, in their order."""
    makers = {name: number for number, part in enumerate(plan.partitions) for name in part.outputs}
    copies = {(copy.value, copy.target): number for number, copy in enumerate(plan.transfers)}
    nbytes = {spec.name: spec.nbytes for spec in (*plan.inputs, *plan.outputs, *plan.values)}
    found: list[PartitionEdge] = []
    for target in range(len(plan.partitions)):
        _, reads = touched(plan, TaskKind.PARTITION, target)
        found += [
            PartitionEdge(value, makers[value], target, nbytes[value], copies.get((value, device)))
            for value, device in reads
            if value in makers
        ]
    return tuple(found)
