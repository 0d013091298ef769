# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Rules for the tensors in a model file: each finds those that break it, before anything is made of their sizes."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import onnx

from hetpart.graph.ir import DTYPE_BITS
from hetpart.graph.types import dtype_name, nbytes_of
from hetpart.graph.walk import all_tensors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_BYTES = 2**50
"""Of one value: a pebibyte, which no machine has. Sums of them stay within 64 bits."""
_COMPLEX = frozenset({"complex64", "complex128"})
_SHOWN_AXES = 6


def damaged_tensor_names(model: onnx.ModelProto) -> Iterator[str]:
    """Names, and entries of external data, that are not text."""
    for tensor in all_tensors(model):
        texts: list[object] = [tensor.name]
        texts += [text for entry in tensor.external_data for text in (entry.key, entry.value)]
        yield from (repr(text) for text in texts if not isinstance(text, str))


def unknown_types(model: onnx.ModelProto) -> Iterator[str]:
    """Tensors of an element type that ONNX does not have."""
    for tensor in all_tensors(model):
        if dtype_name(tensor.data_type) not in DTYPE_BITS:
            yield f"{tensor.name!r} is of type {tensor.data_type}"


def impossible_shapes(model: onnx.ModelProto) -> Iterator[str]:
    """Tensors with a negative dimension, or larger than any machine."""
    for tensor in all_tensors(model):
        if any(size < 0 for size in tensor.dims) or nbytes_of(dtype_name(tensor.data_type), tensor.dims) > MOST_BYTES:
            yield f"{tensor.name!r} has shape {shape_text(tensor.dims)}"


def wrong_lengths(model: onnx.ModelProto) -> Iterator[str]:
    """Tensors in the file itself that hold fewer or more elements than their shape says."""
    for tensor in all_tensors(model):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            held, wanted = _lengths(tensor)
            if held != wanted:
                yield f"{tensor.name!r} of shape {shape_text(tensor.dims)} holds {held} where {wanted} are needed"


def shape_text(dims: Iterable[int]) -> str:
    """Dimensions as text, the first few of many."""
    sizes = list(dims)
    more = ", …" if len(sizes) > _SHOWN_AXES else ""
    return f"[{', '.join(map(str, sizes[:_SHOWN_AXES]))}{more}]"


def _lengths(tensor: onnx.TensorProto) -> tuple[int, int]:
    """Bytes or elements that the tensor holds, and those it should; elements of less than a byte are not counted."""
    dtype, numel = dtype_name(tensor.data_type), prod(tensor.dims)
    if tensor.raw_data:
        return len(tensor.raw_data), nbytes_of(dtype, tensor.dims)
    typed = (
        tensor.float_data, tensor.int32_data, tensor.int64_data, tensor.double_data, tensor.uint64_data,
        tensor.string_data,
    )  # fmt: skip
    held = sum(map(len, typed))
    if DTYPE_BITS[dtype] < 8:
        return bool(held), bool(numel)
    return held, numel * 2 if dtype in _COMPLEX else numel
