# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""Inputs and outputs that the caller keeps on an accelerator: taken from there and left there without a copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hetpart.runtime.dlpack import from_dlpack, is_ort_value, memory_of
from hetpart.runtime.dtypes import numpy_dtype, session_type
from hetpart.runtime.values import allocate

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetpart.plan.model import ValueSpec
    from hetpart.runtime.transport import Memory


@dataclass(frozen=True, slots=True)
class DevicePointer:
    """A tensor of known size at an address of a device. Whoever gave the address keeps it alive."""

    memory: Memory
    address: int

    def data_ptr(self) -> int:
        return self.address

    def lies_in(self, memory: Memory) -> bool:
        return _same(self.memory, memory)

    def read(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """``array``, filled with its bytes."""
        self.memory.copy_out(array.ctypes.data, self.address, array.nbytes)
        return array


def kept_feed(
    spec: ValueSpec, given: Any, memory: Memory, checked: Callable[[ValueSpec, Any], np.ndarray[Any, Any]]
) -> Any:
    """``given`` in ``memory``: itself where it lies there, else a copy of what ``checked`` makes of it.

    Raises:
        InvalidFeedError: its dtype or shape is not the planned one.
    """
    if isinstance(given, DevicePointer) and given.lies_in(memory):
        return given
    value = from_dlpack(spec.name, given) if _is_foreign(given) else given
    if is_ort_value(value) and _is_as_planned(spec, value) and _same(memory_of(value), memory):
        return value
    array = checked(spec, value)
    packed = numpy_dtype(spec.dtype) is None
    shape = [size or 0 for size in spec.shape or ()] if packed else array.shape
    copy = allocate(spec, shape, memory)
    memory.copy_in(copy.data_ptr(), array.ctypes.data, array.nbytes)
    return copy


def _is_foreign(given: Any) -> bool:
    return not isinstance(given, np.ndarray) and hasattr(given, "__dlpack__") and not is_ort_value(given)


def _is_as_planned(spec: ValueSpec, value: Any) -> bool:
    shape, wanted = value.shape(), spec.shape or ()
    same = len(shape) == len(wanted) and all(b in (None, a) for a, b in zip(shape, wanted, strict=True))
    return same and value.data_type() == session_type(spec.dtype)


def _same(one: Memory, other: Memory) -> bool:
    return (one.device_type, one.device_id) == (other.device_type, other.device_id)
