# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Types that a file declares, beside those that its operators make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx

from hetpart.graph.types import dtype_of, shape_of

if TYPE_CHECKING:
    from hetpart.graph.ir import Graph, Shape


@dataclass(frozen=True, slots=True)
class TensorType:
    """An element type and a shape, each as far as it is known."""

    dtype: str
    shape: Shape | None

    def contradicts(self, other: TensorType) -> bool:
        if self.dtype and other.dtype and self.dtype != other.dtype:
            return True
        if self.shape is None or other.shape is None:
            return False
        if len(self.shape) != len(other.shape):
            return True
        pairs = zip(self.shape, other.shape, strict=True)
        return any(one is not None and another is not None and one != another for one, another in pairs)

    def __str__(self) -> str:
        sizes = "[…]" if self.shape is None else "[" + ", ".join("?" if n is None else str(n) for n in self.shape) + "]"
        return f"{self.dtype or 'a value'} {sizes}"


def contradicted(model: onnx.ModelProto, imported: Graph | None) -> Iterator[tuple[str, TensorType, TensorType]]:
    """Values whose declared type contradicts what its operators make: name, declared type, inferred type.

    ``imported`` is the model with its dimensions bound, where it could be: import infers all types anew.
    """
    graph = model.graph
    declared = {value.name: value.type for value in (*graph.value_info, *graph.output) if value.name}
    if not declared:
        return
    inputs = {value.name for value in graph.input}
    for name, found in _inferred(model) if imported is None else _known(imported):
        if name in declared and name not in inputs:
            said = _type(declared[name])
            if said.contradicts(found):
                yield name, said, found


def _known(graph: Graph) -> Iterator[tuple[str, TensorType]]:
    return ((value.name, TensorType(value.dtype, value.shape)) for value in graph.values)


def _inferred(model: onnx.ModelProto) -> Iterator[tuple[str, TensorType]]:
    """The same by inference without numbers for dimensions; nothing where that refuses the model: import says why."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    del bare.graph.value_info[:]
    for output in bare.graph.output:
        output.ClearField("type")
    try:
        found = onnx.shape_inference.infer_shapes(bare, data_prop=True)
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        return
    yield from ((value.name, _type(value.type)) for value in (*found.graph.value_info, *found.graph.output))


def _type(type_proto: onnx.TypeProto) -> TensorType:
    return TensorType(dtype_of(type_proto), shape_of(type_proto))
