# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
"""Tensors of other libraries, taken without a copy where they lie on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hetpart.errors import InvalidFeedError
from hetpart.runtime.cuda import CudaMemory
from hetpart.runtime.dtypes import dtype_known_as, onnx_number
from hetpart.runtime.transport import HostMemory

if TYPE_CHECKING:
    from hetpart.runtime.transport import Memory

_DLPACK_CPU = 1


def from_dlpack(name: str, tensor: Any) -> Any:
    """The tensor that the input ``name`` is fed with: an array that shares its memory, or an OrtValue that does.

    An OrtValue is given for a tensor that NumPy cannot hold, as one of bfloat16 or on another device.

    Raises:
        InvalidFeedError: the library does not share it, as PyTorch does not while it records gradients.
    """
    try:
        # PyTorch marks tensors to be negated or conjugated, and shares their memory without that.
        for resolved in ("resolve_neg", "resolve_conj"):
            tensor = getattr(tensor, resolved)() if hasattr(tensor, resolved) else tensor
        return np.from_dlpack(tensor)
    except (BufferError, RuntimeError, TypeError, ValueError) as refused:
        kind = dtype_known_as(str(getattr(tensor, "dtype", "")).removeprefix("torch."))
        return _float8(tensor, kind) if kind.startswith("float8") else _ort_value(name, tensor, refused)


def _float8(tensor: Any, dtype: str) -> Any:
    """The tensor by its bytes: neither ONNX Runtime nor NumPy takes such a one through DLPack."""
    import onnxruntime
    import torch

    content = np.from_dlpack(tensor.detach().contiguous().view(torch.uint8))
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(content, onnx_number(dtype))


def _ort_value(name: str, tensor: Any, refused: Exception) -> Any:
    import onnxruntime

    try:
        # NumPy takes any strides, ONNX Runtime only what is contiguous.
        return onnxruntime.OrtValue.from_dlpack(tensor.contiguous() if hasattr(tensor, "contiguous") else tensor)
    except Exception as error:  # ONNX Runtime's kinds of error share no other class
        raise InvalidFeedError(
            f"input {name!r} is a {type(tensor).__module__}.{type(tensor).__name__} that cannot be shared: {refused}",
            hint="feed an array, or a tensor that is contiguous and records no gradients (tensor.detach())",
        ) from error


def memory_of(value: Any) -> Memory:
    """The memory that an OrtValue lies in."""
    kind, index = value.__dlpack_device__()
    return HostMemory() if kind == _DLPACK_CPU else CudaMemory(index)


def is_ort_value(value: Any) -> bool:
    """Whether ONNX Runtime made it. A look at its class would import ``onnxruntime`` for feeds of any kind."""
    return hasattr(value, "_ortvalue")
