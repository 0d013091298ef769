"""Types inside and behind an op that holds subgraphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx
from onnx import numpy_helper

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


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
    inferred = _infer_alone(node, outer, contents, opsets)
    if inferred is None:
        return {}
    by_name = {attribute.name: attribute for attribute in inferred.graph.node[0].attribute}
    for attribute in node.attribute:
        attribute.CopyFrom(by_name[attribute.name])
    return {value.name: value.type for value in inferred.graph.output if value.type.WhichOneof("value")}


def _infer_alone(
    node: onnx.NodeProto,
    outer: Mapping[str, onnx.TypeProto],
    contents: Mapping[str, NDArray[Any]],
    opsets: Mapping[str, int],
) -> onnx.ModelProto | None:
    model = onnx.ModelProto(ir_version=onnx.IR_VERSION)
    model.opset_import.extend(onnx.OperatorSetIdProto(domain=key, version=value) for key, value in opsets.items())
    model.graph.name = "control_flow"
    model.graph.node.add().CopyFrom(node)
    model.graph.input.extend(onnx.ValueInfoProto(name=name, type=type_) for name, type_ in outer.items())
    model.graph.initializer.extend(numpy_helper.from_array(content, name) for name, content in contents.items())
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name)
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError, IndexError, MemoryError):
        return None
