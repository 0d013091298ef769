"""Put what folding found into the model: folded values become initializers, and what served only them goes away."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import helper, numpy_helper

from hetpart.graph.ir import DTYPE_BITS
from hetpart.graph.types import dtype_of, shape_of
from hetpart.graph.walk import all_nodes, fresh_name, replace_items, subgraphs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hetpart.graph.facts import Facts
    from hetpart.graph.listing import ListedNode


_OVERRIDABLE_SINCE = 4
"""IR version since which an initializer that is an input is its default; before, every initializer had to be one."""


def fix_defaults(model: onnx.ModelProto) -> list[str]:
    """Take the inputs that have an initializer out of the graph inputs: a plan fixes them, like every weight.

    Returns the names of those that a caller of the model could have fed; before IR version 4 there are none.
    """
    graph = model.graph
    weights = {tensor.name for tensor in graph.initializer}
    defaults = [value.name for value in graph.input if value.name in weights]
    if defaults:
        replace_items(graph.input, [value for value in graph.input if value.name not in weights])
    return defaults if model.ir_version >= _OVERRIDABLE_SINCE else []


def detach_weights(model: onnx.ModelProto) -> int:
    """Give every initializer that is an output a name of its own, and an ``Identity`` behind it that makes the output.

    Returns how many there were.
    """
    graph = model.graph
    outputs = {value.name for value in graph.output}
    returned = {tensor.name: tensor for tensor in graph.initializer if tensor.name in outputs}
    if returned:
        _detach(graph, {value.name: returned[value.name] for value in graph.output if value.name in returned})
    return len(returned)


def detach_inputs(model: onnx.ModelProto) -> dict[str, str]:
    """Make every graph output an op's result; returns the outputs that are graph inputs, which no op makes."""
    graph = model.graph
    inputs = {value.name for value in graph.input}
    passed = {value.name: value.name for value in graph.output if value.name in inputs}
    if passed:
        replace_items(graph.output, [value for value in graph.output if value.name not in passed])
    return passed


def _detach(graph: onnx.GraphProto, returned: Mapping[str, onnx.TensorProto]) -> None:
    taken = {tensor.name for tensor in graph.initializer}
    taken |= {name for node in all_nodes(graph.node) for name in (*node.input, *node.output)}
    renamed: dict[str, str] = {}
    for name, tensor in returned.items():
        renamed[name] = tensor.name = fresh_name(f"{name}__weight", taken)
    for node in graph.node:
        _rename(node, renamed)
    for name, inner in renamed.items():
        graph.node.append(helper.make_node("Identity", [inner], [name], name=f"{name}__identity"))


def _rename(node: onnx.NodeProto, renamed: Mapping[str, str]) -> None:
    """Rename what the node reads, in its subgraphs too where they have nothing of that name themselves."""
    for position, name in enumerate(node.input):
        node.input[position] = renamed.get(name, name)
    for attribute in node.attribute:
        for body in subgraphs(attribute):
            own = {value.name for value in (*body.input, *body.initializer)}
            own.update(name for inner in body.node for name in inner.output)
            outer = {old: new for old, new in renamed.items() if old not in own}
            for inner in body.node:
                _rename(inner, outer)
            for value in body.output:
                value.name = outer.get(value.name, value.name)


def scalar_ranges(model: onnx.ModelProto, facts: Facts) -> int:
    """Make scalars of the one-element vectors that a ``Range`` reads; returns how many there were.

    ONNX Runtime takes them, unless it knows their shape when it loads a model: then it refuses the model.
    """
    graph = model.graph
    if all(node.op_type != "Range" for node in graph.node):
        return 0
    taken = {name for node in graph.node for name in (*node.input, *node.output)} | {t.name for t in graph.initializer}
    labels = {node.name for node in graph.node}
    nodes: list[onnx.NodeProto] = []
    made = 0
    for node in graph.node:
        for position, name in enumerate(node.input if node.op_type == "Range" and not node.domain else ()):
            if name in facts.types and shape_of(facts.types[name]) == (1,):
                shape, scalar = (fresh_name(f"{name}.{what}", taken) for what in ("no axes", "scalar"))
                graph.initializer.append(numpy_helper.from_array(np.zeros(0, np.int64), shape))
                label = fresh_name(f"{node.name}.Reshape", labels)
                nodes.append(helper.make_node("Reshape", [name, shape], [scalar], label))
                node.input[position] = scalar
                made += 1
        nodes.append(node)
    if made:
        replace_items(graph.node, nodes)
    return made


def packed_identities(model: onnx.ModelProto, facts: Facts) -> int:
    """Leave out what only renames a value of less than a byte an element; returns how many there were.

    ONNX Runtime has no kernel for it, and runs such models because it leaves it out itself.
    """
    graph = model.graph
    returned = {value.name for value in graph.output}
    renamed: dict[str, str] = {}
    copies = [node for node in graph.node if node.op_type == "Identity" and not node.domain]
    for node in copies:
        packed = DTYPE_BITS.get(dtype_of(facts.type_of(node.input[0])), 8) < 8
        if packed and node.output[0] not in returned:
            renamed[node.output[0]] = renamed.get(node.input[0], node.input[0])
    if renamed:
        replace_items(graph.node, [node for node in graph.node if renamed.keys().isdisjoint(node.output)])
        for node in graph.node:
            _rename(node, renamed)
    return len(renamed)


def drop_unread_weights(model: onnx.ModelProto, weights: Sequence[str], read: set[str]) -> None:
    """Leave out the initializers, ``weights`` by name, that are neither ``read``, nor returned, nor an input's default.

    They go away in the end; a file that holds many takes long until then.
    """
    graph = model.graph
    kept = read | {value.name for value in (*graph.input, *graph.output)}
    if not kept.issuperset(weights):
        places = [place for place, name in enumerate(weights) if name in kept]
        replace_items(graph.initializer, [graph.initializer[place] for place in places])


def apply(model: onnx.ModelProto, nodes: Sequence[ListedNode], facts: Facts) -> Sequence[ListedNode]:
    """Rewrite ``model`` of these ``nodes`` by ``facts``; returns the nodes that are left."""
    graph = model.graph
    kept, needed = _live(model, nodes, facts)
    weights = [tensor for tensor in graph.initializer if tensor.name in needed]
    present = {tensor.name for tensor in graph.initializer}
    folded = sorted((facts.folded & needed) - present)
    weights += [numpy_helper.from_array(facts.contents[name], name) for name in folded]
    if len(kept) < len(nodes):
        replace_items(graph.node, [listed.node for listed in kept])
        kept = [replace(listed, node=node) for listed, node in zip(kept, graph.node, strict=True)]
    if folded or len(weights) < len(graph.initializer):
        replace_items(graph.initializer, weights)
    _declare_types(model, kept, facts)
    return kept


def _live(model: onnx.ModelProto, nodes: Sequence[ListedNode], facts: Facts) -> tuple[list[ListedNode], set[str]]:
    """Nodes some output needs, folded values standing for themselves, and every name they read or return."""
    needed = {value.name for value in model.graph.output}
    kept: list[ListedNode] = []
    folded = facts.folded
    for listed in reversed(nodes):
        made = [name for name in listed.outputs if name and name in needed]
        if made and not folded.issuperset(made):
            kept.append(listed)
            needed.update(listed.uses)
    kept.reverse()
    return kept, needed


def _declare_types(model: onnx.ModelProto, nodes: Sequence[ListedNode], facts: Facts) -> None:
    """Every value between nodes gets the type that was found for it: the cut models read it as their border's."""
    graph = model.graph
    outputs = {value.name for value in graph.output}
    del graph.value_info[:]
    for name in (name for listed in nodes for name in listed.outputs):
        found = facts.types.get(name)
        if name and name not in outputs and found is not None and found.WhichOneof("value"):
            graph.value_info.add(name=name, type=found)
    for value in graph.output:
        found = facts.types.get(value.name)
        if found is not None and found.WhichOneof("value"):
            value.type.CopyFrom(_named(found, value.type))


def _named(found: onnx.TypeProto, declared: onnx.TypeProto) -> onnx.TypeProto:
    """``found`` with the names that the file has for dimensions which only a run tells."""
    sizes, names = shape_of(found), [dim.dim_param for dim in declared.tensor_type.shape.dim]
    if sizes is None or len(sizes) != len(names) or not any(names):
        return found
    named = onnx.TypeProto()
    named.CopyFrom(found)
    for dim, size, name in zip(named.tensor_type.shape.dim, sizes, names, strict=True):
        if size is None and name:
            dim.dim_param = name
    return named
