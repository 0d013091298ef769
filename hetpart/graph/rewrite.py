"""Put what folding found into the model: folded values become initializers, and what served only them goes away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx import helper, numpy_helper

from hetpart.graph.legality import uses

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
    from google.protobuf.message import Message

    from hetpart.graph.fold import Facts


def detach_outputs(model: onnx.ModelProto) -> dict[str, str]:
    """Make every graph output an op's result; returns the outputs that are graph inputs, which no op makes.

    An initializer that is an output gets a name of its own and an ``Identity`` behind it.
    """
    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    inputs = {value.name for value in graph.input} - set(weights)
    for name in dict.fromkeys(value.name for value in graph.output if value.name in weights):
        inner = f"{name}__weight"
        weights[name].name = inner
        for node in graph.node:
            _rename(node, name, inner)
        graph.node.append(helper.make_node("Identity", [inner], [name], name=f"{name}__identity"))
    passed = {value.name: value.name for value in graph.output if value.name in inputs}
    kept = [value for value in graph.output if value.name not in passed]
    _replace(graph.output, kept)
    return passed


def _rename(node: onnx.NodeProto, old: str, new: str) -> None:
    from hetpart.graph.load import subgraphs

    for position, name in enumerate(node.input):
        if name == old:
            node.input[position] = new
    for attribute in node.attribute:
        for body in subgraphs(attribute):
            for inner in body.node:
                _rename(inner, old, new)
            for value in body.output:
                if value.name == old:
                    value.name = new


def apply(model: onnx.ModelProto, facts: Facts) -> int:
    """Rewrite ``model`` by ``facts``; returns how many nodes went away.

    Weights leave the graph inputs: what a plan fixes is no longer fed.
    """
    graph = model.graph
    kept, needed = _live(model, facts)
    removed = len(graph.node) - len(kept)
    weights = [tensor for tensor in graph.initializer if tensor.name in needed]
    present = {tensor.name for tensor in graph.initializer}
    folded = sorted((facts.folded & needed) - present)
    weights += [numpy_helper.from_array(facts.contents[name], name) for name in folded]
    _replace(graph.node, kept)
    _replace(graph.initializer, weights)
    _replace(graph.input, [value for value in graph.input if value.name not in present])
    _declare_types(model, facts)
    return removed


def _live(model: onnx.ModelProto, facts: Facts) -> tuple[list[onnx.NodeProto], set[str]]:
    """Nodes some output needs, folded values standing for themselves, and every name they read or return."""
    needed = {value.name for value in model.graph.output}
    kept: list[onnx.NodeProto] = []
    for node in reversed(model.graph.node):
        if any(name in needed and name not in facts.folded for name in node.output if name):
            kept.append(node)
            needed.update(uses(node))
    kept.reverse()
    return kept, needed


def _declare_types(model: onnx.ModelProto, facts: Facts) -> None:
    """Every value between nodes gets the type that was found for it: the cut models read it as their border's."""
    graph = model.graph
    outputs = {value.name for value in graph.output}
    del graph.value_info[:]
    for node in graph.node:
        for name in node.output:
            found = facts.types.get(name)
            if name and name not in outputs and found is not None and found.WhichOneof("value"):
                graph.value_info.add(name=name, type=found)
    for value in graph.output:
        found = facts.types.get(value.name)
        if found is not None and found.WhichOneof("value"):
            value.type.CopyFrom(found)


def _replace(field: RepeatedCompositeFieldContainer[Any], items: Sequence[Message]) -> None:
    """Set a repeated field. Items may be the field's own: they are copied before it is emptied."""
    copies = [type(item).FromString(item.SerializeToString()) for item in items]
    del field[:]
    field.extend(copies)
