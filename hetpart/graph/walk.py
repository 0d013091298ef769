# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""What lies inside what in a ``ModelProto``."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import onnx

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
    from google.protobuf.message import Message


_HOLDS_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


def all_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor of the model, those of subgraphs, attributes and local functions included."""
    for graph in all_graphs(model.graph):
        yield from graph.initializer
        yield from (tensor for sparse in graph.sparse_initializer for tensor in (sparse.values, sparse.indices))
    bodies = (model.graph.node, *(function.node for function in model.functions))
    for node in all_nodes(chain.from_iterable(bodies)):
        for attribute in node.attribute:
            yield from (*([attribute.t] if attribute.HasField("t") else ()), *attribute.tensors)
            if attribute.HasField("sparse_tensor"):
                yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)


def all_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph, and those inside it, outer ones first."""
    yield graph
    for node in graph.node:
        for body in bodies_of(node):
            yield from all_graphs(body)


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes, and those inside them."""
    for node in nodes:
        yield node
        for body in bodies_of(node):
            yield from all_nodes(body.node)


def bodies_of(node: onnx.NodeProto) -> Sequence[onnx.GraphProto]:
    """The subgraphs a node holds. Hardly any node does, so this is quick to say no."""
    found: tuple[onnx.GraphProto, ...] = ()
    for attribute in node.attribute:
        if attribute.type in _HOLDS_GRAPHS:
            found = (*found, *subgraphs(attribute))
    return found


def subgraphs(attribute: onnx.AttributeProto) -> Iterator[onnx.GraphProto]:
    """The subgraphs an attribute holds."""
    if attribute.type == onnx.AttributeProto.GRAPH:
        yield attribute.g
    elif attribute.type == onnx.AttributeProto.GRAPHS:
        yield from attribute.graphs


def replace_items(field: RepeatedCompositeFieldContainer[Any], items: Sequence[Message]) -> None:
    """Set a repeated field. Items may be the field's own: they are copied before it is emptied."""
    copies = [type(item).FromString(item.SerializeToString()) for item in items]
    del field[:]
    field.extend(copies)


def fresh_name(wanted: str, taken: set[str]) -> str:
    """``wanted``, or what is free of the same beginning; it is taken from now on."""
    name, attempt = wanted, 1
    while name in taken:
        name, attempt = f"{wanted}_{attempt}", attempt + 1
    taken.add(name)
    return name
