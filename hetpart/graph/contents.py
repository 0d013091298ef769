# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""What small constants hold."""

from __future__ import annotations

from hashlib import blake2b
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import numpy_helper

if TYPE_CHECKING:
    from numpy.typing import NDArray

EVALUATED_LIMIT = 4096
"""Elements up to which a constant's content is worth knowing: shapes, axes, indices, small masks."""
_SHORT = 64
"""Bytes that are their own fingerprint."""


def fingerprint(content: NDArray[Any] | None) -> tuple[str, tuple[int, ...], bytes] | None:
    """What only arrays of the same content have in common; ``None`` of none."""
    if content is None:
        return None
    whole = content.tobytes()
    return content.dtype.str, content.shape, whole if len(whole) <= _SHORT else blake2b(whole).digest()


def constant_content(node: onnx.NodeProto) -> NDArray[Any] | None:
    """Of a ``Constant``, where it is numbers and small."""
    for attribute in node.attribute:
        if attribute.name == "value" and prod(attribute.t.dims) <= EVALUATED_LIMIT:
            return content_of(attribute.t)
        if attribute.name == "value_int":
            return np.array(attribute.i, np.int64)
        if attribute.name == "value_ints":
            return np.array(attribute.ints, np.int64)
        if attribute.name == "value_float":
            return np.array(attribute.f, np.float32)
        if attribute.name == "value_floats":
            return np.array(attribute.floats, np.float32)
    return None


def content_of(tensor: onnx.TensorProto) -> NDArray[Any] | None:
    """The tensor's elements; ``None`` for strings, malformed tensors, and types NumPy lacks."""
    if tensor.data_type == onnx.TensorProto.STRING:
        return None
    try:
        content = numpy_helper.to_array(tensor)
    except (ValueError, TypeError):
        return None
    return content if content.dtype.kind in "biuf" else None
