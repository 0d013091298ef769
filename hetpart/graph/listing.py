# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""What stands in a model's nodes, read once for all who ask: a look into a message takes longer than most questions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import onnx

from hetpart.graph.walk import all_nodes, bodies_of

STANDARD_DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
Kind = tuple[str | bytes, ...]


@dataclass(slots=True, eq=False)
class ListedNode:
    """A node, and what was in it when it was listed."""

    node: onnx.NodeProto
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    """By position; ``""`` where one is left out."""
    outputs: tuple[str, ...]
    holds: bool
    """Whether subgraphs are in it."""
    uses: tuple[str, ...]
    """As ``uses`` tells."""
    kind: Kind
    """What two nodes have in common that compute the same from the same; nothing of one that holds subgraphs."""

    @classmethod
    def of(cls, node: onnx.NodeProto) -> ListedNode:
        """What is in ``node``."""
        op_type, domain, inputs, bodies = node.op_type, node.domain, tuple(node.input), bodies_of(node)
        kind = () if bodies else kind_of_node(node)
        return cls(node, op_type, domain, inputs, tuple(node.output), bool(bodies), _used(inputs, bodies), kind)


def listed_nodes(graph: onnx.GraphProto) -> list[ListedNode]:
    """The nodes of ``graph`` in their order."""
    return [ListedNode.of(node) for node in graph.node]


def kind_of_node(node: onnx.NodeProto) -> Kind:
    """What two nodes have in common that compute the same from the same."""
    attributes = node.attribute
    if not attributes:
        return (node.domain, node.op_type)
    return (node.domain, node.op_type, *[attribute.SerializeToString() for attribute in attributes])


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """A model and what stands in it, which nobody changes meanwhile."""

    model: onnx.ModelProto
    nodes: Sequence[ListedNode]
    inner: Sequence[onnx.NodeProto]
    """Those inside other nodes."""
    weights: Sequence[str]
    """Names of the initializers, in their order."""

    @classmethod
    def of(cls, model: onnx.ModelProto) -> Listing:
        """What stands in ``model``."""
        nodes = listed_nodes(model.graph)
        holders = (listed.node for listed in nodes if listed.holds)
        inner = [each for node in holders for body in bodies_of(node) for each in all_nodes(body.node)]
        return cls(model, nodes, inner, [tensor.name for tensor in model.graph.initializer])


def uses(node: onnx.NodeProto) -> tuple[str, ...]:
    """Names the node reads, outer values of its subgraphs included, each once."""
    return _used(node.input, bodies_of(node))


def _used(inputs: Iterable[str], bodies: Sequence[onnx.GraphProto]) -> tuple[str, ...]:
    read = [name for name in inputs if name]
    if not bodies and len(read) <= 1:
        return tuple(read)
    return tuple(dict.fromkeys((*read, *captured(bodies))))


def captures(node: onnx.NodeProto) -> tuple[str, ...]:
    """Names of outer values that the node's subgraphs read, each once."""
    return captured(bodies_of(node))


def captured(bodies: Iterable[onnx.GraphProto]) -> tuple[str, ...]:
    """The same of the subgraphs themselves."""
    return tuple(dict.fromkeys(name for body in bodies for name in _free_names(body))) if bodies else ()


def _free_names(body: onnx.GraphProto) -> Iterator[str]:
    local = {value.name for value in body.input} | {tensor.name for tensor in body.initializer}
    local |= {tensor.values.name for tensor in body.sparse_initializer}
    for node in body.node:
        yield from (name for name in uses(node) if name not in local)
        local.update(node.output)
    yield from (value.name for value in body.output if value.name not in local)
