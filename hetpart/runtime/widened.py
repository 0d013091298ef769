# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Partitions in bfloat16 on the processor: what has no kernel there computes in float32.

ONNX Runtime does so for float16, and refuses bfloat16. Between two such ops nothing is cast, so their results
are those of float32, rounded where a value leaves for an op that has a kernel, or for another partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetpart.plan.cut_models import WIDENED

if TYPE_CHECKING:
    import onnx_ir

_SUFFIX = "/float32"


def is_widened(model: bytes) -> bool:
    """Whether nodes of a serialized model are marked so."""
    return WIDENED.encode() in model


def in_float32(model: bytes) -> bytes:
    """``model`` with its marked nodes in float32, between casts."""
    import onnx
    import onnx_ir as ir

    whole = ir.from_proto(onnx.load_model_from_string(model))
    wide = {node for node in whole.graph if WIDENED in node.metadata_props}
    wide |= {node for node in whole.graph if _turns_for(wide, node)}
    floats: dict[ir.Value, ir.Value] = {}
    casts: list[ir.Node] = []
    for node in list(whole.graph):
        if node not in wide:
            continue
        for place, value in enumerate(node.inputs):
            if value is not None and value.dtype == ir.DataType.BFLOAT16:
                node.replace_input_with(place, _widened(value, node, floats))
        casts += [_narrowed(value, node, floats) for value in node.outputs if value.dtype == ir.DataType.BFLOAT16]
    unread = [cast for cast in casts if not cast.outputs[0].uses() and not cast.outputs[0].is_graph_output()]
    whole.graph.remove(unread, safe=True)
    return ir.to_proto(whole).SerializeToString()


def _turns_for(wide: set[onnx_ir.Node], node: onnx_ir.Node) -> bool:
    """Whether ``node`` is a Transpose that ``wide`` nodes alone read: it turns floats, which products read turned.

    Else ONNX Runtime makes a Cast of its own of what is turned, where another product reads it as it is.
    """
    made = node.outputs[0]
    if node.op_type != "Transpose" or node.domain or made.is_graph_output():
        return False
    return wide.issuperset(made.consumers())


def _widened(value: onnx_ir.Value, node: onnx_ir.Node, wide: dict[onnx_ir.Value, onnx_ir.Value]) -> onnx_ir.Value:
    """``value`` in float32, cast before ``node`` where no node before it needed that."""
    if value not in wide:
        cast = _cast(value, f"{value.name}{_SUFFIX}", "FLOAT")
        assert node.graph is not None
        node.graph.insert_before(node, cast)
        wide[value] = cast.outputs[0]
    return wide[value]


def _narrowed(value: onnx_ir.Value, node: onnx_ir.Node, wide: dict[onnx_ir.Value, onnx_ir.Value]) -> onnx_ir.Node:
    """Let ``node`` make ``value`` in float32, and a cast behind it what has its name; the cast."""
    import onnx_ir as ir

    name = str(value.name)
    value.name, value.dtype = f"{name}{_SUFFIX}", ir.DataType.FLOAT
    cast = _cast(value, name, "BFLOAT16")
    made = cast.outputs[0]
    assert node.graph is not None
    for user, place in value.uses():
        if user is not cast:
            user.replace_input_with(place, made)
    outputs = node.graph.outputs
    for place, output in enumerate(outputs):
        if output is value:
            outputs[place] = made
    node.graph.insert_after(node, cast)
    wide[made] = value
    return cast


def _cast(value: onnx_ir.Value, name: str, dtype: str) -> onnx_ir.Node:
    import onnx_ir as ir

    kind = ir.DataType[dtype]
    made = ir.Value(name=name, shape=value.shape, type=ir.TensorType(kind))
    attributes = [ir.AttrInt64("to", kind.value)]
    return ir.Node("", "Cast", [value], attributes, outputs=[made], name=f"cast {name} to {kind.name.lower()}")
