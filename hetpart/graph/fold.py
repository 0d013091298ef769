# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Work out, before a run, what bound dimensions decide: types of values, shape arithmetic, and what is constant.

One pass in topological order. ``onnx``'s own inference gives each node's output types from its input types and the
inputs whose content is known; ``onnx``'s reference evaluator computes small integer results. What depends on weights
alone is *derived*: constant, of known type, and never computed here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from hetpart.graph.body_types import control_flow_types
from hetpart.graph.contents import EVALUATED_LIMIT, constant_content, content_of, fingerprint
from hetpart.graph.contrib_types import contrib_types
from hetpart.graph.inference import InferredTypes, kind_of_node
from hetpart.graph.legality import uses
from hetpart.graph.types import dtype_of, is_static, shape_of, tensor_type
from hetpart.graph.walk import bodies_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from numpy.typing import NDArray

_INTEGERS = frozenset({"bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"})
_EVALUATED = frozenset(
    {
        "Abs", "Add", "And", "ArgMax", "ArgMin", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor",
        "Cast", "CastLike", "Ceil", "Clip", "Compress", "Concat", "ConstantOfShape", "CumSum", "Div", "Equal", "Expand",
        "EyeLike", "Flatten", "Floor", "Gather", "GatherElements", "GatherND", "Greater", "GreaterOrEqual", "Identity",
        "IsInf", "IsNaN", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Neg", "Not", "OneHot", "Or", "Pad", "Pow",
        "Range", "Reciprocal", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "Round", "Scatter",
        "ScatterElements", "ScatterND", "Sign", "Slice", "Sqrt", "Squeeze", "Sub", "Sum", "Tile", "Transpose", "Trilu",
        "Unsqueeze", "Where", "Xor",
    }
)  # fmt: skip
"""Ops of shape arithmetic, whose results are exact and no larger on the way than at the end."""
_RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout"}
)

_KEPT = frozenset({"DequantizeLinear"})
"""Ops on constants that are no derived weight: ONNX Runtime keeps the quantised weight and fuses what reads it."""


_NO_TYPE = onnx.TypeProto()
"""Nobody writes into it."""


@dataclass(slots=True)
class Facts:
    """What is known of every value, by name. Filled in one pass, read afterwards."""

    opsets: dict[str, int]
    types: dict[str, onnx.TypeProto] = field(default_factory=dict[str, onnx.TypeProto])
    contents: dict[str, NDArray[Any]] = field(default_factory=dict[str, "NDArray[Any]"])
    """Small constants whose elements are known."""
    constant: set[str] = field(default_factory=set[str])
    """Values that do not depend on any graph input."""
    folded: set[str] = field(default_factory=set[str])
    """Integer values with known content: they become initializers, and what only served them goes away."""
    origins: dict[str, frozenset[str]] = field(default_factory=dict[str, "frozenset[str]"])
    """For a derived weight, the large weights it is made from."""
    returned: frozenset[str] = frozenset()
    """Graph outputs: an op makes them, however constant they are."""
    evaluated: dict[Hashable, NDArray[Any] | None] = field(default_factory=dict[Any, "NDArray[Any] | None"])
    """Results by what they were computed from: layers that are alike compute the same."""
    inferred: InferredTypes = field(default_factory=InferredTypes)

    def type_of(self, name: str) -> onnx.TypeProto:
        """The type of ``name``; one that says nothing where none is known."""
        return self.types.get(name) or _NO_TYPE


def evaluate(model: onnx.ModelProto, earlier: Facts | None = None) -> Facts:
    """Facts about every value of ``model``, whose nodes are sorted and whose input dimensions are bound.

    ``earlier`` facts, of the same model before it was rewritten, save computing the same again.
    """
    facts = Facts({entry.domain: entry.version for entry in model.opset_import})
    if earlier is not None:
        facts.evaluated, facts.inferred = earlier.evaluated, earlier.inferred
    facts.returned = frozenset(value.name for value in model.graph.output)
    facts.opsets.setdefault("", facts.opsets.get("ai.onnx", 1))
    declared = {info.name: info.type for info in (*model.graph.value_info, *model.graph.output)}
    for tensor in model.graph.initializer:
        _add_weight(facts, tensor)
    for value in model.graph.input:
        facts.types.setdefault(value.name, value.type)
    for node in model.graph.node:
        _add_node(facts, node, declared)
    return facts


def _add_weight(facts: Facts, tensor: onnx.TensorProto) -> None:
    facts.types[tensor.name] = tensor_type(tensor.data_type, tensor.dims)
    facts.constant.add(tensor.name)
    facts.origins[tensor.name] = frozenset((tensor.name,))
    if tensor.data_location != onnx.TensorProto.EXTERNAL and prod(tensor.dims) <= EVALUATED_LIMIT:
        content = content_of(tensor)
        if content is not None:
            facts.contents[tensor.name] = content


def _add_node(facts: Facts, node: onnx.NodeProto, declared: Mapping[str, onnx.TypeProto]) -> None:
    known = _known_content(facts, node)
    if known is not None:
        _add_content(facts, node.output[0], known)
    else:
        facts.types.update(output_types(facts, node, declared))
        if _is_constant(facts, node):
            facts.constant.update(filter(None, node.output))
    made = [name for name in node.output if name in facts.constant]
    if made:
        sources = frozenset[str]().union(*(facts.origins.get(name, frozenset()) for name in node.input))
        facts.origins.update(dict.fromkeys(made, sources))


def _add_content(facts: Facts, name: str, content: NDArray[Any]) -> None:
    facts.contents[name] = content
    facts.types[name] = tensor_type(onnx.helper.np_dtype_to_tensor_dtype(content.dtype), content.shape)
    if name not in facts.returned:
        facts.constant.add(name)
        if _is_integer(content):
            facts.folded.add(name)


def _known_content(facts: Facts, node: onnx.NodeProto) -> NDArray[Any] | None:
    """The content of the node's one output where it is small and follows from what is known."""
    op_type = node.op_type
    if op_type not in _FOLLOWS or len(node.output) != 1 or not _is_plain(node):
        return None
    if op_type in _FROM_TYPES and node.domain in ("", "ai.onnx") and node.input:
        return _FROM_TYPES[op_type](facts, node)
    if op_type == "Constant" and node.domain in ("", "ai.onnx"):
        return constant_content(node)
    inputs = {name: facts.contents.get(name) for name in node.input if name}
    if op_type not in _EVALUATED or not inputs or any(content is None for content in inputs.values()):
        return None
    key = (kind_of_node(node), tuple([fingerprint(inputs.get(name)) for name in node.input]))
    if key not in facts.evaluated:
        facts.evaluated[key] = _run(facts, node, inputs)
    return facts.evaluated[key]


def _is_plain(node: onnx.NodeProto) -> bool:
    return node.op_type not in _RANDOM and not bodies_of(node)


def _is_constant(facts: Facts, node: onnx.NodeProto) -> bool:
    if not all(name in facts.constant for name in node.input if name):
        return False
    if node.op_type in _KEPT or not (node.input or node.op_type == "Constant"):
        return False
    return facts.returned.isdisjoint(node.output) and _is_plain(node)


def _shape_content(facts: Facts, node: onnx.NodeProto) -> NDArray[Any] | None:
    shape = shape_of(facts.type_of(node.input[0]))
    if shape is None:
        return None
    bounds = {attribute.name: attribute.i for attribute in node.attribute}
    part = shape[slice(bounds.get("start", 0), bounds.get("end", len(shape)))]
    return None if None in part else np.array(part, np.int64)


def _size_content(facts: Facts, node: onnx.NodeProto) -> NDArray[Any] | None:
    shape = shape_of(facts.type_of(node.input[0]))
    known = [size for size in shape or () if size is not None]
    if shape is None or len(known) < len(shape) or prod(known) > np.iinfo(np.int64).max:
        return None
    return np.array(prod(known), np.int64)


_FROM_TYPES = {"Shape": _shape_content, "Size": _size_content}
_FOLLOWS = _EVALUATED | _FROM_TYPES.keys() | {"Constant"}
"""Ops whose result may follow from what is known; there is no need to look at others."""


def _run(facts: Facts, node: onnx.NodeProto, inputs: Mapping[str, NDArray[Any] | None]) -> NDArray[Any] | None:
    """Run ``node`` on known inputs with the reference evaluator, if its result is known to be small."""
    inferred = output_types(facts, node, {}).get(node.output[0])
    if inferred is None or not is_static(inferred) or prod(d or 0 for d in shape_of(inferred) or ()) > EVALUATED_LIMIT:
        return None
    if node.op_type == "Div" and all(_is_integer(content) for content in inputs.values() if content is not None):
        return _quotient(*(inputs[name] for name in node.input))
    from onnx.reference import ReferenceEvaluator

    graph = onnx.GraphProto(node=[node], name="fold")
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in inputs)
    graph.output.add().name = node.output[0]
    try:
        with np.errstate(all="raise"):  # a run is where to find out what a division by zero gives
            result = ReferenceEvaluator(graph, opsets=facts.opsets).run(None, dict(inputs))
    except Exception:  # noqa: BLE001 - the evaluator raises anything on what it does not implement: then it is not folded
        return None
    content = result[0] if isinstance(result, list) else None
    return content if isinstance(content, np.ndarray) and content.dtype.kind in "biuf" else None


def _quotient(dividend: NDArray[Any] | None, divisor: NDArray[Any] | None) -> NDArray[Any] | None:
    """Integer division towards zero, as ONNX Runtime does it; versions of the evaluator differ for negative numbers."""
    if dividend is None or divisor is None or not divisor.all():
        return None
    return np.asarray(np.sign(dividend) * np.sign(divisor) * (np.abs(dividend) // np.abs(divisor)), dividend.dtype)


def _is_integer(content: NDArray[Any]) -> bool:
    return content.dtype.name in _INTEGERS


def output_types(
    facts: Facts, node: onnx.NodeProto, declared: Mapping[str, onnx.TypeProto]
) -> dict[str, onnx.TypeProto]:
    """Types of the node's outputs, by inference; where that does not know, as the file declares them."""
    inputs = {name: facts.type_of(name) for name in node.input if name}
    contents = {name: facts.contents[name] for name in inputs if name in facts.contents}
    if bodies_of(node):
        outer = {name: facts.type_of(name) for name in uses(node)}
        known = {name: facts.contents[name] for name in outer if name in facts.contents}
        found = control_flow_types(node, outer, known, facts.opsets)
    else:
        found = facts.inferred.of(node, inputs, contents, facts.opsets) | contrib_types(node, inputs, contents)
    return {name: _better(found.get(name), declared.get(name)) for name in node.output if name}


def _better(inferred: onnx.TypeProto | None, declared: onnx.TypeProto | None) -> onnx.TypeProto:
    """The inferred type, unless it says nothing, or leaves dimensions open that the file declares."""
    if inferred is None or not inferred.WhichOneof("value"):
        return declared or onnx.TypeProto()
    if declared is None or is_static(inferred) or not is_static(declared):
        return inferred
    return declared if dtype_of(declared) == dtype_of(inferred) or not dtype_of(inferred) else inferred
