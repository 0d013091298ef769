# pyright: reportUnknownMemberType=false
"""The body of an operator that is a function of others, as a graph of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from hetpart.errors import HetpartError
from hetpart.graph.from_onnx import import_onnx
from hetpart.graph.ir import Attribute, Graph, Op, Shape
from hetpart.graph.kernel_rules import KernelRules, TypedOp
from hetpart.graph.types import element_type

GIVEN, MADE = "given", "made"
"""What inputs and outputs of a body are called, before their position: the first, of an input that is given twice."""
LIKE = "CastLike"
"""What bodies bring their constants to the dtype with that they are given."""
_IR_VERSION = 10
_MOST_KNOWN = 256
"""Bodies that are remembered."""


def schema_body(op: Op, graph: Graph, leaves: Callable[[TypedOp], bool]) -> Graph | None:
    """What ``op`` computes, in ops of others; ``None`` where its operator is no function, or sizes are not known.

    What ``leaves`` names is computed in every run though all that it reads is constant.
    """
    if op.domain or op.bodies or not _is_inlined(op.op_type, op.version):
        return None
    given = tuple(None if v is None else _Typed.of(f"{GIVEN} {op.inputs.index(v)}", v, graph) for v in op.inputs)
    made = tuple(None if v is None else _Typed.of(f"{MADE} {op.outputs.index(v)}", v, graph) for v in op.outputs)
    if not all(each is None or each.is_known for each in (*given, *made)):
        return None
    return _body(_Call(op.op_type, op.version, given, made, tuple(sorted(op.attributes.items()))), leaves)


@dataclass(frozen=True, slots=True)
class _Typed:
    """What an op is given, or makes, at a position."""

    name: str
    dtype: str
    shape: Shape | None
    content: tuple[float, ...] | None
    """Of a constant of a few elements."""

    @classmethod
    def of(cls, name: str, value: int, graph: Graph) -> _Typed:
        known = graph.values[value]
        return cls(name, known.dtype, known.shape, known.content)

    @property
    def is_known(self) -> bool:
        return bool(self.dtype) and self.shape is not None and None not in self.shape


@dataclass(frozen=True, slots=True)
class _Call:
    op_type: str
    version: int
    given: tuple[_Typed | None, ...]
    made: tuple[_Typed | None, ...]
    attributes: tuple[tuple[str, Attribute], ...]


@lru_cache(maxsize=_MOST_KNOWN)
def _is_inlined(op_type: str, version: int) -> bool:
    """Whether the body is one for this opset: written when its ops were as they are now, or by what the op is given."""
    schema: Any = onnx.defs.get_schema(op_type, version)  # whose stub leaves functions out
    opsets: list[int] = schema.function_opset_versions
    written = max((opset for opset in opsets if opset <= version), default=None)
    if schema.has_context_dependent_function or written is None:
        return bool(schema.has_context_dependent_function)
    body = onnx.FunctionProto.FromString(schema.get_function_with_opset_version(written))
    then, now = ([onnx.defs.get_schema(n.op_type, v).since_version for n in body.node] for v in (written, version))
    return then == now


@lru_cache(maxsize=_MOST_KNOWN)
def _body(call: _Call, leaves: Callable[[TypedOp], bool]) -> Graph | None:
    rules = KernelRules(lambda op, _: op.op_type in (call.op_type, LIKE), leaves)
    try:
        graph = import_onnx(_model(call), {}, rules).graph
    except HetpartError:
        return None
    return None if any(not op.domain and op.op_type == call.op_type for op in graph.ops) else graph


def _model(call: _Call) -> onnx.ModelProto:
    """A model of that op alone. Constants whose elements are known are such here, too."""
    inputs, outputs = (["" if each is None else each.name for each in side] for side in (call.given, call.made))
    attributes: dict[str, Any] = dict(call.attributes)
    node = helper.make_node(call.op_type, inputs, outputs, name="op", **attributes)
    each = {value.name: value for value in call.given if value is not None}
    graph = helper.make_graph(
        [node],
        "body",
        [_info(value) for value in each.values() if value.content is None],
        [_info(value) for value in call.made if value is not None],
        [_tensor(value) for value in each.values() if value.content is not None],
    )
    opsets = [helper.make_opsetid("", call.version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)


def _info(value: _Typed) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(value.name, element_type(value.dtype), value.shape)


def _tensor(value: _Typed) -> onnx.TensorProto:
    dtype = helper.tensor_dtype_to_np_dtype(element_type(value.dtype))
    sizes = [size or 0 for size in value.shape or ()]
    return numpy_helper.from_array(np.array(value.content, dtype).reshape(sizes), value.name)
