# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingTypeStubs=false
"""Tensors whose size only a run can tell: arrays of the caller's and OrtValues that ONNX Runtime allocated.

Both are read and written by address, so that types NumPy has no name for, which ``OrtValue.numpy`` refuses, pass too.
"""

from __future__ import annotations

from ctypes import addressof, c_char, c_ubyte
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hetpart.graph.ir import DTYPE_BITS
from hetpart.runtime.dtypes import is_builtin, numpy_dtype, onnx_number
from hetpart.runtime.transport import HostMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import onnxruntime

    from hetpart.plan.model import ValueSpec
    from hetpart.runtime.transport import Memory

_FIRST_BYTE: Callable[[Any], c_char] = c_char.from_buffer
_NO_BYTES = 64
"""Stands for the address of an OrtValue without elements, which is 0: nothing can be bound there."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Where a tensor's bytes lie, in a memory that the caller knows."""

    address: int
    shape: tuple[int, ...]
    nbytes: int


def tensor_bytes(dtype: str, shape: Sequence[int]) -> int:
    """Bytes of a tensor; 4-bit and 2-bit types are packed."""
    return -(-prod(shape) * DTYPE_BITS[dtype] // 8)


def extent(spec: ValueSpec, value: Any) -> Extent:
    """The extent of an array or OrtValue."""
    if isinstance(value, np.ndarray):
        return Extent(address_of(value), value.shape, value.nbytes)
    shape = tuple(value.shape())
    return Extent(value.data_ptr(), shape, tensor_bytes(spec.dtype, shape))


def allocate(spec: ValueSpec, shape: Sequence[int], memory: Memory) -> onnxruntime.OrtValue:
    """A new OrtValue in ``memory``, its content undefined."""
    import onnxruntime

    return onnxruntime.OrtValue.ortvalue_from_shape_and_type(
        list(shape), onnx_number(spec.dtype), memory.device_type, memory.device_id
    )


def address_of(tensor: Any) -> int:
    """Where the bytes of an array lie, or of an OrtValue."""
    if not isinstance(tensor, np.ndarray):
        return tensor.data_ptr() or _NO_BYTES
    try:
        return addressof(_FIRST_BYTE(tensor))  # a third of what `tensor.ctypes` takes
    except (
        TypeError,
        ValueError,
        BufferError,
    ):  # of one that is read-only, or empty, or of a type that buffers do not know
        return tensor.ctypes.data


def fresh_value(spec: ValueSpec, memory: Memory) -> onnxruntime.OrtValue:
    """A new OrtValue for a value of known size."""
    return allocate(spec, [size or 0 for size in spec.shape or ()], memory)


def fresh_array(spec: ValueSpec) -> np.ndarray[Any, Any]:
    """A new host array for a value of known size; packed types are given as bytes."""
    dtype = numpy_dtype(spec.dtype)
    if dtype is None:
        return np.empty(spec.nbytes, np.uint8)
    shape = spec.shape or ()
    return np.empty([size or 0 for size in shape] if None in shape else cast("tuple[int, ...]", shape), dtype)


def array_at(spec: ValueSpec, address: int) -> np.ndarray[Any, Any]:
    """The host's memory at ``address``, as ``fresh_array`` shapes it: whoever has it keeps it."""
    if not spec.nbytes:
        return fresh_array(spec)
    content = np.ctypeslib.as_array((c_ubyte * spec.nbytes).from_address(address))
    dtype = numpy_dtype(spec.dtype)
    return content if dtype is None else content.view(dtype).reshape([size or 0 for size in spec.shape or ()])


def to_value(spec: ValueSpec, array: np.ndarray[Any, Any]) -> onnxruntime.OrtValue:
    """An OrtValue on the host with the content of an array; of a packed type, with that of its bytes."""
    packed = numpy_dtype(spec.dtype) is None
    host = HostMemory()
    value = allocate(spec, [size or 0 for size in spec.shape or ()] if packed else array.shape, host)
    host.copy_in(value.data_ptr(), array.ctypes.data, array.nbytes)
    return value


def to_array(spec: ValueSpec, value: Any, memory: Memory) -> np.ndarray[Any, Any]:
    """A host array of a tensor in ``memory``; packed types are given as bytes."""
    if is_builtin(spec.dtype):
        return value if isinstance(value, np.ndarray) else value.numpy()
    dtype = numpy_dtype(spec.dtype)
    if isinstance(value, np.ndarray):
        return value if dtype else _without_spare_bits(value, spec.dtype, [size or 0 for size in spec.shape or ()])
    lies = extent(spec, value)
    array = np.empty(lies.nbytes, np.uint8) if dtype is None else np.empty(lies.shape, dtype)
    memory.copy_out(array.ctypes.data, lies.address, lies.nbytes)
    return array if dtype else _without_spare_bits(array, spec.dtype, lies.shape)


def _without_spare_bits(packed: np.ndarray[Any, Any], dtype: str, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """``packed`` with zeros where its last byte holds no element: kernels leave there whatever was there before."""
    used = prod(shape) * DTYPE_BITS[dtype] % 8
    if used:
        packed[-1] &= (1 << used) - 1
    return packed
