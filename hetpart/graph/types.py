"""Types of values, between ONNX's protobuf spelling and the graph's own."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import onnx

from hetpart.graph.ir import DTYPE_BITS, Shape, ValueKind

if TYPE_CHECKING:
    from collections.abc import Sequence

_RENAMED = {"float": "float32", "double": "float64", "undefined": ""}
_DTYPE_NAMES = {number: _RENAMED.get(name.lower(), name.lower()) for name, number in onnx.TensorProto.DataType.items()}
_KINDS = {
    "tensor_type": ValueKind.TENSOR,
    "sequence_type": ValueKind.SEQUENCE,
    "optional_type": ValueKind.OPTIONAL,
}


def element_type(dtype: str) -> int:
    """``TensorProto.DataType`` of a dtype's name."""
    return next(number for number, name in _DTYPE_NAMES.items() if name == dtype)


def dtype_name(data_type: int) -> str:
    """``float32`` and the like for a number of ``TensorProto.DataType``; ``""`` for one that is unknown."""
    return _DTYPE_NAMES.get(data_type, "")


def nbytes_of(dtype: str, dims: Sequence[int]) -> int:
    """Bytes a tensor takes; 4-bit and 2-bit types are packed."""
    return (prod(dims) * DTYPE_BITS.get(dtype, 32) + 7) // 8


def kind_of(type_proto: onnx.TypeProto) -> ValueKind:
    """Which kind of value a type describes. A type that says nothing is taken for a tensor's."""
    which = type_proto.WhichOneof("value")
    return _KINDS.get(which, ValueKind.OTHER) if which else ValueKind.TENSOR


def dtype_of(type_proto: onnx.TypeProto) -> str:
    """Element type; of a sequence or optional, that of what it holds."""
    kind = kind_of(type_proto)
    if kind is ValueKind.SEQUENCE:
        return dtype_of(type_proto.sequence_type.elem_type)
    if kind is ValueKind.OPTIONAL:
        return dtype_of(type_proto.optional_type.elem_type)
    return dtype_name(type_proto.tensor_type.elem_type)


def shape_of(type_proto: onnx.TypeProto) -> Shape | None:
    """Dimensions, ``None`` where unknown; ``None`` for an unknown rank or a type without a shape."""
    if not type_proto.HasField("tensor_type"):
        return None
    tensor = type_proto.tensor_type
    return tuple([_size_of(dim) for dim in tensor.shape.dim]) if tensor.HasField("shape") else None


def _size_of(dim: onnx.TensorShapeProto.Dimension) -> int | None:
    size = dim.dim_value
    return size if size > 0 or (size == 0 and dim.HasField("dim_value")) else None


def tensor_type(data_type: int, dims: Sequence[int]) -> onnx.TypeProto:
    """The type of a tensor of known shape."""
    made = onnx.TypeProto()
    made.tensor_type.elem_type = data_type
    made.tensor_type.shape.SetInParent()
    for size in dims:
        made.tensor_type.shape.dim.add().dim_value = size
    return made


def is_static(type_proto: onnx.TypeProto | None) -> bool:
    """Whether the type is a tensor's and every dimension is known."""
    if type_proto is None or not dtype_of(type_proto):
        return False
    shape = shape_of(type_proto)
    return shape is not None and None not in shape
