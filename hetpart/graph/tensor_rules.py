# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Rules for the tensors in a model file: each finds those that break it, before anything is made of their sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, TypeVar

import onnx

from hetpart.graph.ir import DTYPE_BITS
from hetpart.graph.types import dtype_name, nbytes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_Subject = TypeVar("_Subject")
Rules = tuple[tuple[str, Callable[[_Subject], Iterable[str]]], ...]
"""A rule in words, and what finds those that break it."""
MOST_BYTES = 2**50
"""Of one value: a pebibyte, which no machine has. Sums of them stay within 64 bits."""
_COMPLEX = frozenset({"complex64", "complex128"})
_SHOWN_AXES = 6


def _damaged_names(tensors: Iterable[onnx.TensorProto]) -> Iterator[str]:
    """Names, and entries of external data, that are not text."""
    for tensor in tensors:
        texts: list[object] = [tensor.name]
        texts += [text for entry in tensor.external_data for text in (entry.key, entry.value)]
        yield from (repr(text) for text in texts if not isinstance(text, str))


def _unknown_types(tensors: Iterable[onnx.TensorProto]) -> Iterator[str]:
    """Tensors of an element type that ONNX does not have."""
    for tensor in tensors:
        if dtype_name(tensor.data_type) not in DTYPE_BITS:
            yield f"{tensor.name!r} is of type {tensor.data_type}"


def _impossible_shapes(tensors: Iterable[onnx.TensorProto]) -> Iterator[str]:
    """Tensors with a negative dimension, or larger than any machine."""
    for tensor in tensors:
        if any(size < 0 for size in tensor.dims) or nbytes_of(dtype_name(tensor.data_type), tensor.dims) > MOST_BYTES:
            yield f"{tensor.name!r} has shape {shape_text(tensor.dims)}"


def _wrong_lengths(tensors: Iterable[onnx.TensorProto]) -> Iterator[str]:
    """Tensors in the file itself that hold fewer or more elements than their shape says."""
    for tensor in tensors:
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


def suspects(tensors: Iterable[onnx.TensorProto]) -> list[onnx.TensorProto]:
    """Those that a rule may have something to say about: others are named in text and hold as many bytes as they need.

    Each is looked at once, and every shape: a file may hold a million.
    """
    needed: dict[tuple[int, ...], int] = {}
    found: list[onnx.TensorProto] = []
    for tensor in tensors:
        form = (tensor.data_type, *tensor.dims)
        nbytes = needed.get(form)
        if nbytes is None:
            nbytes = needed[form] = _needed_bytes(*form)
        if len(tensor.raw_data) != nbytes or tensor.external_data or type(tensor.name) is not str:
            found.append(tensor)
    return found


def _needed_bytes(data_type: int, *dims: int) -> int:
    """Bytes that tell a tensor of such a form to be whole; -1 where none do."""
    dtype = dtype_name(data_type)
    nbytes = nbytes_of(dtype, dims)
    return nbytes if dtype in DTYPE_BITS and min(dims, default=0) >= 0 and 0 < nbytes <= MOST_BYTES else -1


TENSOR_RULES: Rules[Sequence[onnx.TensorProto]] = (
    ("names are not UTF-8 text", _damaged_names),
    ("tensors have no known type", _unknown_types),
    ("tensors have impossible shapes", _impossible_shapes),
    ("tensors are damaged", _wrong_lengths),
)
