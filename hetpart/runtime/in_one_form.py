# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""Weights that several sessions of the CPU provider share are read as they lie, by products too.

A session would hold a packed copy of a constant matrix, and every session its own. What the caller of a session may
replace, an initializer that is an input as well, is no constant: it is read where it lies, and packed piece by piece
while it is multiplied.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from hetpart.cost_model.session.packing import PACKED_INPUTS
from hetpart.graph.walk import all_nodes

if TYPE_CHECKING:
    import onnx


def read_in_place(model: bytes, shared: Container[str]) -> bytes:
    """``model`` in which products read the weights that are ``shared`` as they are given to the session."""
    if not shared:
        return model
    import onnx

    proto = onnx.load_model_from_string(model)
    packed = {name for node in all_nodes(proto.graph.node) for name in _packed_inputs(node) if name in shared}
    if not packed:
        return model
    for tensor in proto.graph.initializer:
        if tensor.name in packed:
            proto.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return proto.SerializeToString(deterministic=True)


def _packed_inputs(node: onnx.NodeProto) -> list[str]:
    slots = () if node.domain else PACKED_INPUTS.get(node.op_type, ())
    return [node.input[slot] for slot in slots if slot < len(node.input)]
