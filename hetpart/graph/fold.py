# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Work out, before a run, what bound dimensions decide: types of values, shape arithmetic, and what is constant.

One pass in topological order. ``onnx``'s own inference gives each node's output types from its input types and the
inputs whose content is known; ``onnx``'s reference evaluator computes small integer results. What depends on weights
alone is *derived*: constant, of known type, and never computed here.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from hetpart.graph.body_types import control_flow_types
from hetpart.graph.calls import CALL_DOMAIN
from hetpart.graph.contents import EVALUATED_LIMIT, constant_content, content_of, fingerprint
from hetpart.graph.contrib_types import contrib_types
from hetpart.graph.facts import NO_TYPE, Facts, Known, Made
from hetpart.graph.inference import Schemas, tells_sizes
from hetpart.graph.kernel_rules import TypedOp
from hetpart.graph.types import dtype_of, is_static, shape_of, tensor_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from hetpart.graph.listing import ListedNode

HALF = "float16"
_INTEGERS = "biu"
"""Kinds of NumPy types, booleans among them."""
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


def evaluate(
    model: onnx.ModelProto,
    nodes: Iterable[ListedNode],
    earlier: Facts | None = None,
    *,
    leaves: Callable[[TypedOp], bool] | None = None,
) -> Facts:
    """Facts about every value of ``model``, whose ``nodes`` are sorted and whose input dimensions are bound.

    ``earlier`` facts, of the same model before it was rewritten, save computing the same again. What ``leaves`` names
    is no constant, whatever it reads; it is that of ``earlier`` where there are such.
    """
    facts = Facts(Known(Schemas(_opsets(model)), leaves) if earlier is None else earlier.known)
    facts.returned = frozenset(value.name for value in model.graph.output)
    declared = {info.name: info.type for info in (*model.graph.value_info, *model.graph.output)}
    for tensor in model.graph.initializer:
        _add_weight(facts, tensor)
    for value in model.graph.input:
        facts.types.setdefault(value.name, value.type)
    for listed in nodes:
        _add_node(facts, listed, declared)
    return facts


def _opsets(model: onnx.ModelProto) -> dict[str, int]:
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    opsets.setdefault("", opsets.get("ai.onnx", 1))
    return opsets


def _add_weight(facts: Facts, tensor: onnx.TensorProto) -> None:
    facts.types[tensor.name] = tensor_type(tensor.data_type, tensor.dims)
    facts.constant.add(tensor.name)
    facts.origins[tensor.name] = frozenset((tensor.name,))
    if tensor.data_location != onnx.TensorProto.EXTERNAL and prod(tensor.dims) <= EVALUATED_LIMIT:
        content = content_of(tensor)
        if content is not None:
            facts.contents[tensor.name] = content


def _add_node(facts: Facts, listed: ListedNode, declared: Mapping[str, onnx.TypeProto]) -> None:
    content = _known_content(facts, listed)
    if content is not None and not (content.dtype == np.float16 and _is_left(facts, listed, (HALF,))):
        _add_content(facts, listed.outputs[0], content)
    else:
        facts.types.update(_output_types(facts, listed, declared))
        if _is_constant(facts, listed) and not _is_left(facts, listed, _dtypes(facts, listed.outputs)):
            facts.constant.update(filter(None, listed.outputs))
    made = [name for name in listed.outputs if name in facts.constant]
    if made:
        sources = frozenset[str]().union(*(facts.origins.get(name, frozenset()) for name in listed.inputs))
        facts.origins.update(dict.fromkeys(made, sources))


def _add_content(facts: Facts, name: str, content: NDArray[Any]) -> None:
    facts.contents[name] = content
    facts.types[name] = _type_of_content(facts.known, content)
    if name not in facts.returned:
        facts.constant.add(name)
        if _is_integer(content):
            facts.folded.add(name)


def _type_of_content(known: Known, content: NDArray[Any]) -> onnx.TypeProto:
    """Its type, the same for all of one form."""
    form = content.dtype, content.shape
    found = known.content_types.get(form)
    if found is None:
        data_type = onnx.helper.np_dtype_to_tensor_dtype(content.dtype)
        found = known.content_types[form] = tensor_type(data_type, content.shape)
    return found


def _known_content(facts: Facts, listed: ListedNode) -> NDArray[Any] | None:
    """The content of the node's one output where it is small and follows from what is known."""
    op_type = listed.op_type
    if op_type not in _FOLLOWS or len(listed.outputs) != 1 or not _is_plain(listed):
        return None
    if listed.domain in ("", "ai.onnx"):
        if op_type in _FROM_TYPES and listed.inputs:
            return _FROM_TYPES[op_type](facts, listed)
        if op_type == "Constant":
            return constant_content(listed.node)
    inputs = {name: facts.contents.get(name) for name in listed.inputs if name}
    if op_type not in _EVALUATED or not inputs or any(content is None for content in inputs.values()):
        return None
    key = (listed.kind, tuple([fingerprint(inputs.get(name)) for name in listed.inputs]))
    if key not in facts.known.evaluated:
        facts.known.evaluated[key] = _run(facts, listed, inputs)
    return facts.known.evaluated[key]


def _is_plain(listed: ListedNode) -> bool:
    return listed.op_type not in _RANDOM and listed.domain != CALL_DOMAIN and not listed.holds


def _is_constant(facts: Facts, listed: ListedNode) -> bool:
    if not all(name in facts.constant for name in listed.inputs if name):
        return False
    if listed.op_type in _KEPT or not (listed.inputs or listed.op_type == "Constant"):
        return False
    return facts.returned.isdisjoint(listed.outputs) and _is_plain(listed)


def _is_left(facts: Facts, listed: ListedNode, makes: tuple[str | None, ...]) -> bool:
    """Whether it is computed in every run. In other types than half precision all that are constants are not."""
    leaves, reads = facts.known.leaves, _dtypes(facts, listed.inputs)
    if leaves is None or not listed.inputs or HALF not in (*reads, *makes):
        return False
    domain = "" if listed.domain == "ai.onnx" else listed.domain
    return leaves(TypedOp(domain, listed.op_type, facts.opsets.get(domain, 1), reads, makes))


def _dtypes(facts: Facts, names: Iterable[str]) -> tuple[str | None, ...]:
    return tuple([dtype_of(facts.type_of(name)) if name else None for name in names])


def _shape_content(facts: Facts, listed: ListedNode) -> NDArray[Any] | None:
    shape = shape_of(facts.type_of(listed.inputs[0]))
    if shape is None:
        return None
    bounds = {attribute.name: attribute.i for attribute in listed.node.attribute}
    part = shape[slice(bounds.get("start", 0), bounds.get("end", len(shape)))]
    return None if None in part else np.array(part, np.int64)


def _size_content(facts: Facts, listed: ListedNode) -> NDArray[Any] | None:
    shape = shape_of(facts.type_of(listed.inputs[0]))
    known = [size for size in shape or () if size is not None]
    if shape is None or len(known) < len(shape) or prod(known) > np.iinfo(np.int64).max:
        return None
    return np.array(prod(known), np.int64)


_FROM_TYPES = {"Shape": _shape_content, "Size": _size_content}
_FOLLOWS = _EVALUATED | _FROM_TYPES.keys() | {"Constant"}
"""Ops whose result may follow from what is known; there is no need to look at others."""


def _run(facts: Facts, listed: ListedNode, inputs: Mapping[str, NDArray[Any] | None]) -> NDArray[Any] | None:
    """Run the node on known inputs with the reference evaluator, if its result is known to be small."""
    inferred = _output_types(facts, listed, {}).get(listed.outputs[0])
    if inferred is None or not is_static(inferred) or prod(d or 0 for d in shape_of(inferred) or ()) > EVALUATED_LIMIT:
        return None
    if listed.op_type == "Div" and all(_is_integer(content) for content in inputs.values() if content is not None):
        return _quotient(*(inputs[name] for name in listed.inputs))
    from onnx.reference import ReferenceEvaluator

    graph = onnx.GraphProto(node=[listed.node], name="fold")
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in inputs)
    graph.output.add().name = listed.outputs[0]
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
    return content.dtype.kind in _INTEGERS


def _output_types(
    facts: Facts, listed: ListedNode, declared: Mapping[str, onnx.TypeProto]
) -> dict[str, onnx.TypeProto]:
    """Types of the node's outputs, by inference; where that does not know, as the file declares them."""
    found = _held_types(facts, listed) if listed.holds else _made_types(facts, listed)
    return {
        name: made.type if made.is_static and made.type is not None else _better(made.type, declared.get(name))
        for name, made in zip(listed.outputs, found, strict=True)
        if name
    }


def _made_types(facts: Facts, listed: ListedNode) -> tuple[Made, ...]:
    """By position, what inference tells of the outputs."""
    marks = tuple([facts.mark_of(name) if name else None for name in listed.inputs])
    key = (listed.kind, marks, tuple(map(bool, listed.outputs)))
    found = facts.known.made.get(key)
    if found is None:
        inputs = {name: facts.type_of(name) for name in listed.inputs if name}
        contents = {name: facts.contents[name] for name in inputs if name in facts.contents}
        told = {name: content for name, content in contents.items() if tells_sizes(content)}
        types = facts.known.schemas.infer(listed.node, inputs, told) | contrib_types(listed.node, inputs, told)
        found = facts.known.made[key] = tuple([_made(types.get(name)) for name in listed.outputs])
    return found


def _held_types(facts: Facts, listed: ListedNode) -> tuple[Made, ...]:
    """The same of a node that holds subgraphs; what is in them is typed, too."""
    outer = {name: facts.type_of(name) for name in listed.uses}
    contents = {name: facts.contents[name] for name in outer if name in facts.contents}
    found = control_flow_types(listed.node, outer, contents, facts.opsets)
    return tuple([_made(found.get(name)) for name in listed.outputs])


def _made(found: onnx.TypeProto | None) -> Made:
    told = found if found is not None and found.WhichOneof("value") else None
    return Made(told, is_static(told))


def _better(inferred: onnx.TypeProto | None, declared: onnx.TypeProto | None) -> onnx.TypeProto:
    """The inferred type, unless it says nothing; dimensions that it leaves open are as the file declares them."""
    if inferred is None:
        return declared or NO_TYPE
    if declared is None or dtype_of(inferred) not in ("", dtype_of(declared)):
        return inferred
    return declared if is_static(declared) else _filled(inferred, declared)


def _filled(inferred: onnx.TypeProto, declared: onnx.TypeProto) -> onnx.TypeProto:
    sizes, told = shape_of(inferred), shape_of(declared)
    if sizes is None or told is None or len(sizes) != len(told):
        return inferred
    filled = onnx.TypeProto()
    filled.CopyFrom(inferred)
    for dim, size, other in zip(filled.tensor_type.shape.dim, sizes, told, strict=True):
        if size is None and other is not None:
            dim.dim_value = other
    return filled
