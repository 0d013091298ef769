# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Types inside and behind an op that holds subgraphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx
from onnx import numpy_helper

from hetpart.graph.trips import trip_limit
from hetpart.graph.types import is_static
from hetpart.graph.walk import replace_items

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

_BEFORE_STATES = 2
"""Inputs of a Loop, and of its body, before its states: trip count or iteration, and condition."""


def control_flow_types(
    node: onnx.NodeProto,
    outer: Mapping[str, onnx.TypeProto],
    contents: Mapping[str, NDArray[Any]],
    opsets: Mapping[str, int],
) -> dict[str, onnx.TypeProto]:
    """Types of the node's outputs, and, written into its subgraphs' ``value_info``, of what they compute.

    ``onnx`` infers subgraphs only within a model, so the node is inferred as a model of its own whose inputs are the
    node's inputs and the outer values its subgraphs read.
    """
    around = _around(outer, contents, opsets)
    kept = _kept_states(node, outer, around) if node.op_type == "Loop" else {}
    model = onnx.ModelProto()
    model.CopyFrom(around)
    model.graph.node.add().CopyFrom(node)
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name)
    inferred = _inferred(model)
    if inferred is None:
        return kept
    by_name = {attribute.name: attribute for attribute in inferred.graph.node[0].attribute}
    for attribute in node.attribute:
        attribute.CopyFrom(by_name[attribute.name])
    found = {value.name: value.type for value in inferred.graph.output if value.type.WhichOneof("value")} | kept
    _count_slices(node, found, contents)
    return found


def _around(
    outer: Mapping[str, onnx.TypeProto], contents: Mapping[str, NDArray[Any]], opsets: Mapping[str, int]
) -> onnx.ModelProto:
    """A model of no nodes that has the outer values: those of known content as constants, the others as inputs."""
    model = onnx.ModelProto(ir_version=onnx.IR_VERSION)
    model.opset_import.extend(onnx.OperatorSetIdProto(domain=key, version=value) for key, value in opsets.items())
    model.graph.name = "control_flow"
    for name, type_ in outer.items():
        if name in contents:
            model.graph.initializer.append(numpy_helper.from_array(contents[name], name))
        else:
            model.graph.input.add(name=name, type=type_)
    return model


def _count_slices(
    node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], contents: Mapping[str, NDArray[Any]]
) -> None:
    """Give the scan outputs of a Loop that always runs equally often their length, which ``onnx`` leaves open."""
    limit = trip_limit(node, contents)
    if limit is None or not limit.always:
        return
    for name in node.output[len(node.input) - _BEFORE_STATES :]:
        if name in types and types[name].tensor_type.shape.dim:
            types[name].tensor_type.shape.dim[0].dim_value = limit.count


def _kept_states(
    node: onnx.NodeProto, outer: Mapping[str, onnx.TypeProto], around: onnx.ModelProto
) -> dict[str, onnx.TypeProto]:
    """Types of a Loop's outputs whose states leave a turn as they came in; they are written into the body too.

    ``onnx`` leaves the shape of a state open, since a turn may change it. Where one turn keeps all types, all turns do.
    """
    body = next((attribute.g for attribute in node.attribute if attribute.name == "body"), onnx.GraphProto())
    initial = [outer.get(name, onnx.TypeProto()) for name in node.input[_BEFORE_STATES:]]
    states = body.input[_BEFORE_STATES:]
    if not initial or len(states) != len(initial):
        return {}
    kept = _kept_positions(body, initial, around)
    for position in kept:
        states[position].type.CopyFrom(initial[position])
    return {node.output[i]: initial[i] for i in sorted(kept) if i < len(node.output) and node.output[i]}


def _kept_positions(body: onnx.GraphProto, initial: Sequence[onnx.TypeProto], around: onnx.ModelProto) -> set[int]:
    """The most states of which a turn keeps all the types, whatever the others become."""
    kept = {position for position, type_ in enumerate(initial) if is_static(type_)}
    while kept:
        given = [value.type for value in body.input]
        for position in kept:
            given[_BEFORE_STATES + position] = initial[position]
        after = _types_after_a_turn(body, given, around)[1:]
        lost = {position for position in kept if position >= len(after) or after[position] != initial[position]}
        if not lost:
            break
        kept -= lost
    return kept


def _types_after_a_turn(
    body: onnx.GraphProto, before: Sequence[onnx.TypeProto], around: onnx.ModelProto
) -> list[onnx.TypeProto]:
    """Types of the body's outputs where its inputs have the types ``before``."""
    own = {value.name for value in (*body.input, *body.initializer)}
    model = onnx.ModelProto()
    model.CopyFrom(around)
    for held in (model.graph.input, model.graph.initializer):
        replace_items(held, [item for item in held if item.name not in own])
    model.graph.MergeFrom(body)
    for value, type_ in zip(list(model.graph.input)[-len(before) :], before, strict=True):
        value.type.CopyFrom(type_)
    inferred = _inferred(model)
    return [] if inferred is None else [value.type for value in inferred.graph.output]


def _inferred(model: onnx.ModelProto) -> onnx.ModelProto | None:
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError, IndexError, MemoryError):
        return None
