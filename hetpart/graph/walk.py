# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""What lies inside what in a ``ModelProto``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
    from google.protobuf.message import Message


_HOLDS_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


def all_tensors(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    """Every tensor of the model, those of subgraphs, attributes and local functions included, weights first."""
    weights: list[onnx.TensorProto] = []
    given: list[onnx.TensorProto] = []
    _gather_tensors(model.graph, weights, given)
    for function in model.functions:
        _gather_given(function.node, weights, given)
    return weights + given


def _gather_tensors(graph: onnx.GraphProto, weights: list[onnx.TensorProto], given: list[onnx.TensorProto]) -> None:
    weights += graph.initializer
    weights += (tensor for sparse in graph.sparse_initializer for tensor in (sparse.values, sparse.indices))
    _gather_given(graph.node, weights, given)


def _gather_given(
    nodes: Iterable[onnx.NodeProto], weights: list[onnx.TensorProto], given: list[onnx.TensorProto]
) -> None:
    """Add what attributes hold, in one look at each: a model has tens of thousands, and hardly a tensor in them."""
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                given.append(attribute.t)
            given += attribute.tensors
            if attribute.HasField("sparse_tensor"):
                given += (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
            if attribute.type in _HOLDS_GRAPHS:
                for body in subgraphs(attribute):
                    _gather_tensors(body, weights, given)


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
    attributes = node.attribute
    if not attributes:
        return found
    for attribute in attributes:
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
