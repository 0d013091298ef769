"""What a caller binds a value to, in words that can be read before ONNX Runtime or a driver is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral
from reprlib import repr as shortened
from typing import TYPE_CHECKING, cast

import numpy as np

from hetpart.errors import InvalidFeedError

if TYPE_CHECKING:
    from hetpart.runtime.transport import Memory

_KNOWN = ("cpu", "cuda")
"""Kinds of device that every plan knows."""


def bound_device(name: str, device_type: object, device_id: object, memories: Mapping[str, Memory]) -> str:
    """The device that ``name`` is bound on, such as ``cuda:0``.

    Raises:
        InvalidFeedError: it is none that hetpart knows.
    """
    if device_type in _KNOWN and _is_whole(device_id):
        return f"{device_type}:{device_id}"
    known = [memory.partition(":")[0] for memory in memories]
    if device_type not in known or not _is_whole(device_id):
        raise InvalidFeedError(
            f"{name!r} is bound on {shortened(device_type)}, number {shortened(device_id)}",
            hint=f"a device is one of {', '.join(map(repr, dict.fromkeys((*_KNOWN, *known))))}, and a number from 0",
        )
    return f"{device_type}:{device_id}"


def bound_shape(name: str, shape: object) -> tuple[int, ...]:
    """The sizes of a buffer.

    Raises:
        InvalidFeedError: they are no whole numbers from 0.
    """
    sizes = list(cast("Iterable[int]", shape)) if isinstance(shape, Iterable) else None
    if sizes is None or not all(map(_is_whole, sizes)):
        raise InvalidFeedError(
            f"{name!r} is bound to the shape {shortened(cast('object', shape))}", hint="give a list of sizes"
        )
    return tuple(map(int, sizes))


def bound_address(name: str, address: object, nbytes: int) -> int:
    """Where a buffer of ``nbytes`` lies.

    Raises:
        InvalidFeedError: it is no address.
    """
    if not _is_whole(address) or (not address and nbytes):
        raise InvalidFeedError(
            f"{name!r} is bound to the address {shortened(address)}", hint="give that of a buffer: array.ctypes.data"
        )
    return int(cast("int", address))


def bound_type(name: str, element_type: object) -> np.dtype[np.generic]:
    """NumPy's type of a buffer's elements.

    Raises:
        InvalidFeedError: there is no such.
    """
    try:
        return np.dtype(cast("str", element_type))
    except TypeError as error:
        raise InvalidFeedError(
            f"{name!r} is bound to elements of {shortened(element_type)}",
            hint="give a type of NumPy's, or a number of onnx.TensorProto's",
        ) from error


def _is_whole(given: object) -> bool:
    return isinstance(given, Integral) and int(cast("int", given)) >= 0
