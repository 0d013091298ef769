# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Give every large constant the form of an initializer, in the graph and in the bodies inside it.

A large tensor in a ``Constant`` node is a weight like any other. A sparse tensor becomes the ops that make it dense, so
that nothing is allocated here: it is a derived weight of its dense size.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import onnx
from onnx import helper

from hetpart.errors import InvalidModelError
from hetpart.graph.tensor_rules import MOST_BYTES, shape_text
from hetpart.graph.types import dtype_name, nbytes_of
from hetpart.graph.walk import all_graphs, fresh_name, replace_items
from hetpart.graph.wire import INLINE_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetpart.graph.load import LoadedModel

_SCATTER_OPSET = 11
_HINT = "store the tensor densely, or convert the model to opset 11 or newer"


def settle_constants(loaded: LoadedModel) -> None:
    """Turn large ``Constant`` nodes into initializers, and sparse tensors into ops on dense ones.

    Raises:
        InvalidModelError: a sparse tensor is malformed, or the model's opset has no op to make it dense.
    """
    if not any(_is_large_in(graph) or _is_sparse_in(graph) for graph in all_graphs(loaded.proto.graph)):
        return
    taken = _names(loaded.proto.graph)
    for graph in all_graphs(loaded.proto.graph):
        if _is_large_in(graph):
            _lift(graph, taken)
        if _is_sparse_in(graph):
            _require_scatter(loaded)
            replace_items(graph.node, list(_dense_nodes(graph, taken)))
            del graph.sparse_initializer[:]


def _is_large_in(graph: onnx.GraphProto) -> bool:
    return any(map(_is_large, graph.node))


def _is_sparse_in(graph: onnx.GraphProto) -> bool:
    return bool(graph.sparse_initializer) or any(_sparse_value(node) for node in graph.node)


def _names(model: onnx.GraphProto) -> set[str]:
    names: set[str] = set()
    for graph in all_graphs(model):
        names.update(value.name for value in (*graph.input, *graph.initializer))
        names.update(name for node in graph.node for name in node.output)
    return names


def _is_large(node: onnx.NodeProto) -> bool:
    """Whether the node is a ``Constant`` whose tensor lies in a file, or could."""
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or len(node.output) != 1:
        return False
    return any(a.name == "value" and (a.t.external_data or a.t.ByteSize() > INLINE_LIMIT) for a in node.attribute)


def _lift(graph: onnx.GraphProto, taken: set[str]) -> None:
    """Make initializers of the graph's large constants. What the graph returns stays a node: its ``Identity``."""
    returned = {value.name for value in graph.output}
    for node in [node for node in graph.node if _is_large(node)]:
        tensor = graph.initializer.add()
        tensor.CopyFrom(next(attribute.t for attribute in node.attribute if attribute.name == "value"))
        tensor.name = fresh_name(f"{node.output[0]}__weight", taken) if node.output[0] in returned else node.output[0]
        if node.output[0] in returned:
            node.CopyFrom(helper.make_node("Identity", [tensor.name], node.output, name=node.name))
    replace_items(graph.node, [node for node in graph.node if not _is_large(node)])


def _sparse_value(node: onnx.NodeProto) -> onnx.SparseTensorProto | None:
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or len(node.output) != 1:
        return None
    return next((a.sparse_tensor for a in node.attribute if a.name == "sparse_value"), None)


def _require_scatter(loaded: LoadedModel) -> None:
    versions = {entry.domain or "ai.onnx": entry.version for entry in loaded.proto.opset_import}
    version = versions.get("ai.onnx", 1)
    if version < _SCATTER_OPSET:
        raise InvalidModelError(
            f"{loaded.path or loaded.name} holds sparse tensors, and opset {version} has no op to make them dense",
            hint=_HINT,
        )


def _dense_nodes(graph: onnx.GraphProto, taken: set[str]) -> Iterator[onnx.NodeProto]:
    """The graph's nodes, those that make its sparse tensors dense before and among them."""
    for sparse in graph.sparse_initializer:
        yield from _dense(graph, sparse, sparse.values.name, taken)
    for node in graph.node:
        sparse = _sparse_value(node)
        if sparse is None:
            yield node
        else:
            yield from _dense(graph, sparse, node.output[0], taken)


def _dense(
    graph: onnx.GraphProto, sparse: onnx.SparseTensorProto, name: str, taken: set[str]
) -> Iterator[onnx.NodeProto]:
    """Scatter the values into zeros: at their indices, or where an index counts elements, in one row of them all."""
    _require_form(sparse, name)

    def fresh(part: str) -> str:
        return fresh_name(f"{name}__{part}", taken)

    def shape(part: str, sizes: list[int]) -> str:
        graph.initializer.append(helper.make_tensor(fresh(part), onnx.TensorProto.INT64, [len(sizes)], sizes))
        return graph.initializer[-1].name

    values, places = fresh("values"), fresh("places")
    for tensor, own in ((sparse.values, values), (sparse.indices, places)):
        graph.initializer.add().CopyFrom(tensor)
        graph.initializer[-1].name = own
    counted = len(sparse.indices.dims) == 1
    sizes = [prod(sparse.dims)] if counted else list(sparse.dims)
    nothing = bytes(nbytes_of(dtype_name(sparse.values.data_type), [1]))
    zero = helper.make_tensor("", sparse.values.data_type, [1], nothing, raw=True)
    zeros, filled = fresh("zeros"), fresh("filled") if counted else name
    yield helper.make_node("ConstantOfShape", [shape("shape", sizes)], [zeros], value=zero)
    if counted:
        rows = fresh("rows")
        yield helper.make_node("Reshape", [places, shape("rows_shape", [-1, 1])], [rows])
        places = rows
    yield helper.make_node("ScatterND", [zeros, places, values], [filled])
    if counted:
        yield helper.make_node("Reshape", [filled, shape("dense_shape", list(sparse.dims))], [name])


def _require_form(sparse: onnx.SparseTensorProto, name: str) -> None:
    """Refuse a sparse tensor whose parts do not fit each other, or whose elements have no zero."""
    values, indices, dims = list(sparse.values.dims), list(sparse.indices.dims), list(sparse.dims)
    dtype = dtype_name(sparse.values.data_type)
    fits = len(values) == 1 and indices in (values, [*values, len(dims)]) and dtype not in ("", "string")
    if not fits or not dims or min(dims) < 1 or nbytes_of(dtype, dims) > MOST_BYTES:
        raise InvalidModelError(
            f"sparse tensor {name!r} of shape {shape_text(dims)} has values {values} of {dtype} at indices {indices}",
            hint=_HINT,
        )
