# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""Calls whose translation ONNX Runtime cannot load: types that do not go together, or types that it has no kernel for.

And those that it would change when it loads them, to something else.

ONNX's own schemas tell the types that every node makes of those it is given, which the exporter writes down nowhere: it
names those of the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from hetpart.cost_model.kernels import CASTS, Kernels, cpu_kernels, kernel_facts
from hetpart.graph.provenance import FX_NODE

_SAID_BY = ("to", "dtype")
"""Attributes that name a type which no input has."""
_NAMES = {ir.DataType.FLOAT: "float32", ir.DataType.DOUBLE: "float64"}
"""Where kernels have another name for a type."""
_WRITTEN = {ir.DataType.FLOAT: "float", ir.DataType.DOUBLE: "double"}
"""The same for schemas."""
_HALVES = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
_REDUCED = {
    "add": _HALVES,
    "mul": _HALVES,
    "min": _HALVES | {ir.DataType.BOOL},
    "max": _HALVES | {ir.DataType.BOOL},
}
"""Types that ONNX Runtime's kernels of ScatterND and ScatterElements take, and refuse in a run when they reduce."""
_NUMBERS = {
    "value_float": ir.DataType.FLOAT,
    "value_floats": ir.DataType.FLOAT,
    "value_int": ir.DataType.INT64,
    "value_ints": ir.DataType.INT64,
}
"""Attributes that say the content of a constant, and with it its type."""
_DOUBLE = ir.DataType.DOUBLE
Types = dict[ir.Value, ir.DataType | None]


def misfits(model: ir.Model) -> set[str]:
    """Names of the program's nodes whose translations do not load, or lose digits of float64."""
    types: Types = {}
    found = [node for node in model.graph if not _fits(node, types) or _rounds(node, types) or _takes_in_pad(node)]
    return {_traced(node) for node in found} - {""}


def has_misfits_inside(model: ir.Model) -> bool:
    """Whether a branch or a loop holds a node that does not load, or loses digits of float64."""
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        types: Types = {}
        for node in ir.traversal.RecursiveGraphIterator(graph):
            is_wrong = not _fits(node, types) or _rounds(node, types) or _takes_in_pad(node)
            if is_wrong and node.graph is not model.graph:
                return True
    return False


def types_of(graph: ir.Graph) -> Types:
    """The types of what the nodes of ``graph`` make, and those in its branches and loops."""
    types: Types = {}
    for node in ir.traversal.RecursiveGraphIterator(graph):
        _fits(node, types)
    return types


def indices_of(node: ir.Node) -> list[int]:
    """The places of inputs of ``node`` that ONNX has in int64 alone."""
    formals = () if (schema := _schema(node)) is None else schema.inputs
    return [place for place, (formal, _) in enumerate(_paired(formals, node.inputs)) if str(formal.type_str) == _INT64]


def _rounds(node: ir.Node, types: Types) -> bool:
    """Whether float64 goes through float32: a cast within a translation, or an attribute, which is always float32.

    ONNX Runtime runs the body of a Gelu, whose numbers are such, too.
    """
    if _DOUBLE not in {_type_of(value, types) for value in node.inputs} or node.op_type in _RANDOM:
        return False
    if node.op_type == "Gelu":
        return True
    if node.op_type in ("Cast", "CastLike"):
        (made,) = node.outputs
        return _is_inner(made) and types.get(made) is ir.DataType.FLOAT
    numbers = (one.as_float() for one in node.attributes.values() if one.type is ir.AttributeType.FLOAT)
    return any(number != float(np.float32(number)) for number in numbers)


def _takes_in_pad(node: ir.Node) -> bool:
    """Whether ONNX Runtime would make the pads of ``node``, a pool, of the zeros before it, and cannot.

    Release 1.31 does so where a Pad is of zeros; of one by a number that is not known here it may. A MaxPool pads with
    less than any number; an AveragePool whose pads are no smaller than its kernel does not load, and one that rounds
    its windows up leaves out those that start in its pads.
    """
    made_by = node.inputs[0].producer() if node.op_type in _POOLS and node.inputs[0] is not None else None
    while made_by is not None and made_by.op_type == "Identity" and made_by.inputs[0] is not None:
        made_by = made_by.inputs[0].producer()
    if made_by is None or made_by.op_type != "Pad" or made_by.domain:
        return False
    mode = made_by.attributes.get("mode")
    if (mode is not None and mode.as_string() != "constant") or _is_other_than_0(made_by.inputs[2:3]):
        return False
    rounds_up = node.attributes.get("ceil_mode")
    if node.op_type == "MaxPool" or (rounds_up is not None and rounds_up.as_int()):
        return True
    return _reach_kernel(made_by.inputs[1], node)


_POOLS = ("MaxPool", "AveragePool")


def _reach_kernel(given: ir.Value | None, pool: ir.Node) -> bool:
    """Whether ``pool``, once it has the pads ``given`` to a Pad too, has pads as large as its kernel, or may have."""
    made_by = None if given is None else given.producer()
    held = None if made_by is None or made_by.op_type != "Constant" else made_by.attributes.get("value")
    if held is None or held.type is not ir.AttributeType.TENSOR:
        return True
    kernel = pool.attributes["kernel_shape"].as_ints()
    own = pool.attributes.get("pads")
    added = held.as_tensor().numpy().reshape(2, -1)[:, -len(kernel) :]
    return bool((added + (0 if own is None else np.reshape(own.as_ints(), (2, -1))) >= kernel).any())


def _is_other_than_0(given: Sequence[ir.Value | None]) -> bool:
    """Whether it is a constant that is known to be so."""
    made_by = given[0].producer() if given and given[0] is not None else None
    while made_by is not None and made_by.op_type in ("Cast", "CastLike") and made_by.inputs[0] is not None:
        made_by = made_by.inputs[0].producer()
    held = None if made_by is None or made_by.op_type != "Constant" else made_by.attributes.get("value")
    return held is not None and held.type is ir.AttributeType.TENSOR and bool(held.as_tensor().numpy().any())


_RANDOM = frozenset({"Bernoulli", "Dropout", "RandomNormalLike", "RandomUniformLike"})


def _traced(node: ir.Node) -> str:
    """The program's node that ``node`` is from, or the body of a function that stands for it."""
    return node.metadata_props.get(FX_NODE, "").partition(" ")[0].removeprefix("%")


def _fits(node: ir.Node, types: Types) -> bool:
    """Whether ``node`` loads; the types that it makes go to ``types``."""
    schema = _schema(node)
    if schema is None or any(attribute.type in _BODIES for attribute in node.attributes.values()):
        return True
    given = [_type_of(value, types) for value in node.inputs]
    bound: dict[str, ir.DataType] = {}
    fits = not [dtype for formal, dtype in _paired(schema.inputs, given) if not _binds(formal, dtype, bound)]
    made = [_made(node, str(formal.type_str), bound) for formal, _ in _paired(schema.outputs, node.outputs)]
    for value, dtype in zip(node.outputs, made, strict=False):
        fits &= None in (dtype, value.dtype) or dtype is value.dtype or _is_inner(value)
        types[value] = value.dtype if dtype is None else dtype  # schemas do not tell what is out of a sequence
    return fits and _allowed(schema, bound) and _has_kernel(node, [*given], made)


_BODIES = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def _is_inner(value: ir.Value) -> bool:
    """Whether the program has no such value."""
    return value.shape is None


@cache
def _known(op_type: str, version: int) -> Any:
    return onnx.defs.get_schema(op_type, version, "") if onnx.defs.has(op_type, "") else None


def _schema(node: ir.Node) -> Any:
    return None if node.domain or node.version is None else _known(node.op_type, node.version)


def _type_of(value: ir.Value | None, types: Types) -> ir.DataType | None:
    return None if value is None else types.get(value, value.dtype)


def _paired(formals: Sequence[Any], values: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Every value with what the schema says of it; the last of which may be said of several."""
    for place, value in enumerate(values):
        if formals:
            yield formals[min(place, len(formals) - 1)], value


def _binds(formal: Any, dtype: ir.DataType | None, bound: dict[str, ir.DataType]) -> bool:
    """Whether ``dtype`` is what inputs of its kind have so far."""
    if dtype is None or not formal.is_homogeneous:
        return True
    return bound.setdefault(str(formal.type_str), dtype) is dtype


def _made(node: ir.Node, kind: str, bound: dict[str, ir.DataType]) -> ir.DataType | None:
    if kind in bound:
        return bound[kind]
    for name in _SAID_BY:
        if name in node.attributes:
            return ir.DataType(node.attributes[name].as_int())
    for name in _NUMBERS.keys() & node.attributes.keys():
        return _NUMBERS[name]
    value = node.attributes.get("value")
    if value is not None and value.type is ir.AttributeType.TENSOR:
        return value.as_tensor().dtype
    return _FIXED.get(kind)


def _written(dtype: ir.DataType) -> str:
    return f"tensor({_WRITTEN.get(dtype, dtype.name.lower())})"


_INT64 = _written(ir.DataType.INT64)
_FIXED = {_written(dtype): dtype for dtype in (ir.DataType.BOOL, ir.DataType.INT64, ir.DataType.FLOAT)}


def _allowed(schema: Any, bound: dict[str, ir.DataType]) -> bool:
    """Whether the operator is defined for the types."""
    limits = {str(limit.type_param_str): limit.allowed_type_strs for limit in schema.type_constraints}
    return all(_written(dtype) in limits.get(kind, (kind, _written(dtype))) for kind, dtype in bound.items())


def _has_kernel(node: ir.Node, given: Sequence[ir.DataType | None], made: Sequence[ir.DataType | None]) -> bool:
    """Whether the processor runs it."""
    facts = kernel_facts(node.domain, node.op_type, node.version or 1)
    if facts is None or node.op_type == "Constant":
        return True
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    return not _refuses(node, given) and _suited(cpu_kernels(facts, node.op_type, attributes), given, made)


def _refuses(node: ir.Node, given: Sequence[ir.DataType | None]) -> bool:
    """Whether a kernel refuses what it is registered for."""
    reduction = node.attributes.get("reduction") if node.op_type.startswith("Scatter") else None
    return reduction is not None and given[0] in _REDUCED.get(reduction.as_string(), ())


def _suited(kernels: Kernels, given: Sequence[ir.DataType | None], made: Sequence[ir.DataType | None]) -> bool:
    def suits(operand: Any) -> bool:
        values = made if operand.is_output else given
        dtype = values[operand.position] if operand.position < len(values) else None
        if dtype is None:
            return True
        name: str = _NAMES.get(dtype) or str(dtype.name).lower()
        cast = CASTS["CPU"].get(name, name) if dtype in given else name  # where none goes in, none is cast
        return not operand.dtypes.isdisjoint((name, cast))

    return any(all(suits(operand) for operand in kernel) for kernel in kernels)
