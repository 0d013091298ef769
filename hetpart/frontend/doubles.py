# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""Numbers of the code beside float64 tensors, with all their digits.

The exporter writes a number as float32 and casts it to the type of what it meets: 1e-5 becomes 9.99999974e-6. And what
a node of ONNX has as an attribute is float32 whatever it computes in: who needs all digits of it must be no such node.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from torch.onnx._internal.exporter import _building

from hetpart.frontend.conditions import dtypes_of
from hetpart.frontend.misfits import Types, types_of
from hetpart.graph.provenance import EXACT

_FLOAT, _DOUBLE = ir.DataType.FLOAT, ir.DataType.DOUBLE
_CASTS = ("Cast", "CastLike")
_NUMBERS = ("value_float", "value_floats", "value")
"""Attributes of a constant that have its content."""
_PLAIN = frozenset({
    "Abs", "Add", "Ceil", "Concat", "Cos", "Div", "Exp", "Expand", "Flatten", "Floor", "Gather", "Identity", "Log",
    "Max", "Min", "Mul", "Neg", "Pow", "Range", "Reciprocal", "Reshape", "Round", "Sin", "Slice", "Sqrt", "Squeeze",
    "Sub", "Tile", "Transpose", "Unsqueeze", "Where",
})  # fmt: skip
"""Operators that compute in the type they are given, and have it as no attribute."""


def has_doubles(program: torch.export.ExportedProgram) -> bool:
    """Whether any tensor of ``program`` is in float64, or a complex one of such."""
    graphs = [module.graph for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    values = (node.meta.get("val") for graph in graphs for node in graph.nodes)
    return any(dtype in _WIDE for value in values for dtype in dtypes_of(value))


_WIDE = frozenset({torch.float64, torch.complex128})


@contextmanager
def exact_numbers() -> Generator[None]:
    """Let numbers be attributes of constants: while a model is in memory those are Python's own."""
    known: Any = _building._get_or_create_constant

    def created(farm: Any, number: Any, dtype: ir.DataType, opset: Any) -> ir.Value:
        plain = (number.real, number.imag) if isinstance(number, complex) else number
        key = (tuple(plain) if isinstance(plain, list | tuple) else plain, dtype)
        if dtype is not _FLOAT or key in farm:
            return known(farm, number, dtype, opset)
        if isinstance(plain, list | tuple):
            farm[key] = opset.Constant(value_floats=[float(one) for one in plain])
        else:
            farm[key] = opset.Constant(value_float=float(plain))
        return farm[key]

    _building._get_or_create_constant = created
    try:
        yield
    finally:
        _building._get_or_create_constant = known


def widen(model: ir.Model) -> None:
    """Compute in float64 what is made of numbers and cast to it, and what it is cast from where that is float64 too."""
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        types = types_of(graph)
        known: dict[ir.Value, ir.Value | None] = {}
        for node in list(ir.traversal.RecursiveGraphIterator(graph)):
            if _DOUBLE in {types.get(made, made.dtype) for made in node.outputs}:
                node.metadata_props[EXACT] = ""
            if node.op_type in _CASTS and types.get(node.outputs[0]) is _DOUBLE:
                source = node.inputs[0]
                assert source is not None
                wide = _wide(source, types, known)
                if wide is not None:
                    node.replace_input_with(0, wide)
        _drop_unused(known, graph)


def _drop_unused(values: Iterable[ir.Value], graph: ir.Graph) -> None:
    """Remove the nodes that made ``values``, in which the last made one comes first, where nothing reads them."""
    for value in values:
        maker = value.producer()
        if maker is not None and maker.graph is not None and not value.uses() and value not in graph.outputs:
            maker.graph.remove(maker, safe=True)


def _wide(value: ir.Value, types: Types, known: dict[ir.Value, ir.Value | None]) -> ir.Value | None:
    """``value``, of float32, in float64; ``None`` where the program has it in float32."""
    maker = value.producer()
    if maker is None or maker.domain or types.get(value) is not _FLOAT or _is_tensor(value, maker):
        return None
    if value not in known:
        known[value] = None
        made = _made_wide(maker, types, known)
        if isinstance(made, ir.Node):
            assert maker.graph is not None
            made.metadata_props.update(maker.metadata_props)
            made.meta.update(maker.meta)
            maker.graph.insert_after(maker, made)
            made.outputs[0].name = f"{value.name}_double"
            made.outputs[0].type = ir.TensorType(_DOUBLE)
            types[made.outputs[0]] = _DOUBLE
            made = made.outputs[0]
        known[value] = made
    return known[value]


def _is_tensor(value: ir.Value, maker: ir.Node) -> bool:
    """Whether the program has ``value``, and as a tensor: its numbers have the digits of float64."""
    traced: Any = maker.meta.get("node")
    return value.shape is not None and not (traced and isinstance(traced.meta.get("val"), float | torch.SymFloat))


def _made_wide(maker: ir.Node, types: Types, known: dict[ir.Value, ir.Value | None]) -> ir.Node | ir.Value | None:
    """What makes in float64 what ``maker`` makes in float32, or is it already."""
    if maker.op_type == "Constant":
        return _node(maker, [], ir.AttrTensor("value", ir.tensor(_numbers(maker))))
    inputs = [_in_double(value, types, known) for value in maker.inputs]
    if maker.op_type in _CASTS:
        source = inputs[0] or maker.inputs[0]
        assert source is not None
        is_wide = types.get(source, source.dtype) is _DOUBLE
        return source if is_wide else _node(maker, [source], ir.AttrInt64("to", _DOUBLE.value), op_type="Cast")
    lacking = [value for value, given in zip(inputs, maker.inputs, strict=True) if value is None and given is not None]
    if maker.op_type not in _PLAIN or len(maker.outputs) > 1 or lacking:
        return None
    return _node(maker, inputs, *maker.attributes.values())


def _numbers(constant: ir.Node) -> np.ndarray:
    held = next(constant.attributes[name] for name in _NUMBERS if name in constant.attributes)
    return np.array(held.as_tensor().numpy() if held.type is ir.AttributeType.TENSOR else held.value, np.float64)


def _in_double(value: ir.Value | None, types: Types, known: dict[ir.Value, ir.Value | None]) -> ir.Value | None:
    """``value``, in float64 where it is in float32; ``None`` where it cannot be."""
    is_float = value is not None and types.get(value, value.dtype) is _FLOAT
    return _wide(value, types, known) if value is not None and is_float else value


def _node(maker: ir.Node, inputs: Sequence[ir.Value | None], *attributes: ir.Attr, op_type: str = "") -> ir.Node:
    """As ``maker``, of other inputs."""
    return ir.Node("", op_type or maker.op_type, inputs, attributes, version=maker.version)
