"""Turn sequences that only carry parts of one tensor back into tensors.

PyTorch's exporter writes ``x.split(n)`` as ``SplitToSequence`` and ``SequenceAt``. Sequences live on the host, so every
such split would drag its tensors there and back. Where all sizes and indices are known it is a plain ``Split``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import helper, numpy_helper

from hetpart.graph.listing import captures
from hetpart.graph.types import shape_of

if TYPE_CHECKING:
    import onnx

    from hetpart.graph.facts import Facts

_SPLIT_TAKES_INPUT = 13
"""Opset since which ``Split`` takes its sizes as an input."""
_MOST_PARTS = 10_000
"""A longer axis is not taken apart: sizes are lists here, and a dimension may claim anything."""


def unsequence(model: onnx.ModelProto, facts: Facts) -> int:
    """Replace every ``SplitToSequence`` whose parts are taken by known indices; returns how many were replaced."""
    if all(node.op_type != "SplitToSequence" for node in model.graph.node):
        return 0
    readers = _readers(model)
    returned = {value.name for value in model.graph.output}
    replaced: dict[str, list[onnx.NodeProto]] = {}
    dropped: set[str] = set()
    for node in model.graph.node:
        takers = readers.get(node.output[0]) if node.output else None
        if node.op_type != "SplitToSequence" or node.output[0] in returned or not takers:
            continue
        sizes = _sizes(node, facts)
        indices = [_index(taker, facts) for taker in takers]
        if sizes is not None and all(index is not None and -len(sizes) <= index < len(sizes) for index in indices):
            parts = [
                (taker, index % len(sizes)) for taker, index in zip(takers, indices, strict=True) if index is not None
            ]
            replaced[node.name] = _split(model, node, sizes, parts, facts)
            dropped.update(taker.name for taker in takers)
    if replaced:
        _rebuild(model, replaced, dropped)
    return len(replaced)


def _readers(model: onnx.ModelProto) -> dict[str, list[onnx.NodeProto]]:
    """Nodes that read each value; a value that a subgraph reads gets a reader that is no ``SequenceAt``."""
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in model.graph.node:
        for name in dict.fromkeys((*node.input, *captures(node))):
            readers.setdefault(name, []).append(node)
    return readers


def _sizes(node: onnx.NodeProto, facts: Facts) -> list[int] | None:
    """Sizes of the parts along the axis; ``None`` where they are not known or the axis is dropped."""
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    shape = shape_of(facts.types[node.input[0]]) if node.input[0] in facts.types else None
    axis = attributes.get("axis", 0)
    length = shape[axis] if shape and -len(shape) <= axis < len(shape) else None
    if length is None or length > _MOST_PARTS:
        return None
    if len(node.input) < 2 or not node.input[1]:
        return [1] * length if attributes.get("keepdims", 1) else None
    split = facts.contents.get(node.input[1])
    if split is None:
        return None
    if split.ndim:
        return [int(size) for size in split]
    step = int(split)
    return [min(step, length - start) for start in range(0, length, step)] if step > 0 else None


def _index(taker: onnx.NodeProto, facts: Facts) -> int | None:
    """The part a ``SequenceAt`` takes, where that is known."""
    if taker.op_type != "SequenceAt" or len(taker.input) < 2:
        return None
    position = facts.contents.get(taker.input[1])
    return None if position is None or position.size != 1 else int(position.reshape(-1)[0])


def _split(
    model: onnx.ModelProto,
    node: onnx.NodeProto,
    sizes: list[int],
    parts: list[tuple[onnx.NodeProto, int]],
    facts: Facts,
) -> list[onnx.NodeProto]:
    """A ``Split`` under the node's name, and an ``Identity`` for every part that is taken again."""
    outputs = [f"{node.output[0]}.{part}" for part in range(len(sizes))]
    again: list[onnx.NodeProto] = []
    taken: set[int] = set()
    for taker, part in parts:
        if part in taken:
            again.append(helper.make_node("Identity", [outputs[part]], [taker.output[0]], name=taker.name))
        else:
            outputs[part] = taker.output[0]
            taken.add(part)
    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
    if facts.opsets[""] < _SPLIT_TAKES_INPUT:
        made = helper.make_node("Split", [node.input[0]], outputs, name=node.name, axis=axis, split=sizes)
    else:
        lengths = f"{node.output[0]}.sizes"
        model.graph.initializer.append(numpy_helper.from_array(np.array(sizes, np.int64), lengths))
        made = helper.make_node("Split", [node.input[0], lengths], outputs, name=node.name, axis=axis)
    made.metadata_props.extend(node.metadata_props)
    return [made, *again]


def _rebuild(model: onnx.ModelProto, replaced: dict[str, list[onnx.NodeProto]], dropped: set[str]) -> None:
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        nodes += replaced.get(node.name, [] if node.name in dropped else [node])
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)
