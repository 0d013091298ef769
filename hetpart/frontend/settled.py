# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""Names, types, axes and signs of a model's values, where the exporter leaves others than the program has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import onnx_ir as ir
import torch
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.fx import Node
from torch.fx.node import Argument

from hetpart.frontend.kept import graphs_of
from hetpart.frontend.misfits import indices_of, types_of

_ONNX_TYPES = {
    torch.float64: ir.DataType.DOUBLE,
    torch.float32: ir.DataType.FLOAT,
    torch.float16: ir.DataType.FLOAT16,
    torch.bfloat16: ir.DataType.BFLOAT16,
    torch.int64: ir.DataType.INT64,
    torch.int32: ir.DataType.INT32,
    torch.int16: ir.DataType.INT16,
    torch.int8: ir.DataType.INT8,
    torch.uint8: ir.DataType.UINT8,
    torch.bool: ir.DataType.BOOL,
}
_SQUEEZE = torch.ops.aten.squeeze.dim


def settle_names(model: ir.Model, program: torch.export.ExportedProgram) -> None:
    """Call the arguments of ``model`` as ``program`` does, and what is computed otherwise than arguments and weights.

    The exporter calls a value after the last node that returns it, which may return what it was given, and a weight by
    its path in the module, which may be the name of a node.
    """
    specs = [spec for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    inputs = list(model.graph.inputs)
    if len(inputs) == len(specs):
        for value, spec in zip(inputs, specs, strict=True):
            value.name = spec.arg.name
    taken = {str(value.name) for value in (*inputs, *model.graph.initializers.values())}
    for node in model.graph:
        for value in node.outputs:
            if value.name in taken:
                value.name = _free(str(value.name), taken)
            taken.add(str(value.name))


def _free(name: str, taken: set[str]) -> str:
    number = 1
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def settle_types(model: ir.Model, program: torch.export.ExportedProgram) -> None:
    """Let every result have the type that it has in ``program``: the exporter leaves what it widened for a sum."""
    graph = model.graph
    known = {node.name: node.meta.get("val") for node in program.graph.nodes}
    specs = [spec for spec in program.graph_signature.output_specs if not isinstance(spec.arg, ConstantArgument)]
    for place, (value, spec) in enumerate(zip(list(graph.outputs), specs, strict=False)):
        traced = known.get(spec.arg.name)
        wanted = _ONNX_TYPES.get(traced.dtype) if isinstance(traced, torch.Tensor) else None
        if wanted is not None and value.dtype is not None and value.dtype != wanted:
            graph.outputs[place] = _cast(value, wanted)
        elif isinstance(traced, torch.SymFloat):
            graph.outputs[place] = _with_all_digits(value)


def _with_all_digits(value: ir.Value) -> ir.Value:
    """A number of Python's in float64 where it was computed so: the exporter is given float32, for tensors to meet."""
    maker = value.producer()
    source = maker.inputs[0] if maker is not None and maker.op_type == "Cast" else None
    if maker is None or source is None or source.dtype is not ir.DataType.DOUBLE:
        return value
    name = str(value.name)
    value.name = f"{name}_float"
    made = ir.Value(name=name, shape=value.shape, type=ir.TensorType(ir.DataType.DOUBLE))
    handed_on = ir.Node("", "Identity", [source], outputs=[made], name=f"node_{name}_double")
    handed_on.metadata_props.update(maker.metadata_props)
    handed_on.meta.update(maker.meta)
    assert maker.graph is not None
    maker.graph.insert_after(maker, handed_on)
    return made


def _cast(value: ir.Value, wanted: ir.DataType) -> ir.Value:
    """The result of a cast of ``value``, with its name."""
    name, maker = str(value.name), value.producer()
    value.name = f"{name}_{str(value.dtype).lower()}"
    made = ir.Value(name=name, shape=value.shape, type=ir.TensorType(wanted))
    attributes = [ir.AttrInt64("to", wanted.value)]
    cast = ir.Node("", "Cast", [value], attributes, outputs=[made], name=f"node_{name}_cast")
    if maker is not None:
        cast.metadata_props.update(maker.metadata_props)
        cast.meta.update(maker.meta)
        assert maker.graph is not None
        maker.graph.insert_after(maker, cast)
    return made


def settle_indices(model: ir.Model) -> None:
    """Let indices be int64 where ONNX has no others: the exporter leaves those of `index_put` as they are."""
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        types = types_of(graph)
        for node in list(ir.traversal.RecursiveGraphIterator(graph)):
            for place in indices_of(node):
                value = node.inputs[place]
                if value is not None and types.get(value, value.dtype) is ir.DataType.INT32:
                    node.replace_input_with(place, _widened(value, node))


def _widened(value: ir.Value, reader: ir.Node) -> ir.Value:
    cast = ir.Node("", "Cast", [value], [ir.AttrInt64("to", ir.DataType.INT64.value)], num_outputs=1)
    cast.metadata_props.update(reader.metadata_props)
    cast.meta.update(reader.meta)
    assert reader.graph is not None
    reader.graph.insert_before(reader, cast)
    return cast.outputs[0]


def settle_axes(model: ir.Model, program: torch.export.ExportedProgram) -> None:
    """Let a squeeze of an axis of another size than 1 be what it was given: to ONNX it is an error."""
    kept = {node.name for module in graphs_of(program) for node in module.graph.nodes if _keeps_axis(node)}
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        for node in ir.traversal.RecursiveGraphIterator(graph):
            if node.op_type == "Squeeze" and node.outputs[0].name in kept:
                node.op_type = "Identity"
                node.resize_inputs(1)


def _keeps_axis(node: Node) -> bool:
    return node.target is _SQUEEZE and node.meta["val"].dim() == _known(node.args[0]).dim() > 0


def _known(argument: Argument) -> torch.Tensor:
    assert isinstance(argument, Node)
    return argument.meta["val"]


def settle_reductions(model: ir.Model) -> None:
    """Count axes from the first one where sizes are open: of none, ONNX Runtime leaves one below 0 as it is."""
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        for node in list(ir.traversal.RecursiveGraphIterator(graph)):
            if node.op_type in _BY_ATTRIBUTE or node.op_type.startswith("Reduce"):
                form = _form(node.inputs[0])
                if not all(isinstance(size, int) for size in form):
                    _count_from_first(node, len(form))


_BY_ATTRIBUTE = frozenset({"ArgMax", "ArgMin"})
_ELEMENTWISE = frozenset({
    "Abs", "Add", "Cast", "CastLike", "Div", "Exp", "Identity", "IsNaN", "Log", "Max", "Min", "Mul", "Neg", "Not",
    "Pow", "Sqrt", "Sub", "Where",
})  # fmt: skip
"""What a translation puts before a reduction; the exporter writes down no shapes within translations."""


def _form(value: ir.Value | None) -> Sequence[object]:
    """The sizes of ``value``, or of what it is made of with as many axes; none where nothing tells."""
    if value is None or value.shape is not None:
        return () if value is None or value.shape is None else tuple(value.shape)
    maker = value.producer()
    if maker is None or maker.op_type not in _ELEMENTWISE:
        return ()
    return max(map(_form, maker.inputs), key=_openness)


def _openness(form: Sequence[object]) -> tuple[int, int]:
    return len(form), sum(not isinstance(size, int) for size in form)


def _count_from_first(node: ir.Node, rank: int) -> None:
    if node.op_type in _BY_ATTRIBUTE:
        axis = node.attributes.get("axis")
        if axis is not None and axis.as_int() < 0:
            node.attributes["axis"] = ir.AttrInt64("axis", axis.as_int() + rank)
        return
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    known = _listed(axes)
    if axes is None or known is None or (known >= 0).all():
        return
    counted = ir.Node("", "Constant", [], [ir.AttrTensor("value", ir.tensor(known % rank))], num_outputs=1)
    counted.metadata_props.update(node.metadata_props)
    counted.meta.update(node.meta)
    assert node.graph is not None
    node.graph.insert_before(node, counted)
    node.replace_input_with(1, counted.outputs[0])
    if not axes.uses() and (maker := axes.producer()) is not None and maker.graph is not None:
        maker.graph.remove(maker, safe=True)


def _listed(axes: ir.Value | None) -> Any:
    """Axes that are known; the exporter lets one that is a number be a vector in the graph."""
    maker = None if axes is None else axes.producer()
    if maker is not None and maker.op_type == "Reshape":
        axes = maker.inputs[0]
    known = None if axes is None else ir.convenience.get_const_tensor(axes)
    return None if known is None else known.numpy().reshape(-1)


def settle_signs(program: torch.export.ExportedProgram) -> None:
    """Carry out conjugations and negations of weights that PyTorch put off: the exporter reads what is in memory."""
    for held in (program.state_dict, program.constants):
        held.update({name: _resolved(tensor) for name, tensor in held.items() if _is_put_off(tensor)})
    for node in program.graph.find_nodes(op="placeholder"):
        if _is_put_off(node.meta.get("val")):
            node.meta["val"] = _resolved(node.meta["val"])


def _is_put_off(value: object) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor) and (value.is_conj() or value.is_neg())


def _resolved(tensor: torch.Tensor) -> torch.Tensor:
    found = tensor.detach().resolve_conj().resolve_neg()
    return torch.nn.Parameter(found, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else found
