# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
"""Tensors of other libraries, taken without a copy where they lie on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hetpart.errors import InvalidFeedError
from hetpart.runtime.cuda import CudaMemory
from hetpart.runtime.dtypes import dtype_known_as, numpy_dtype, onnx_number
from hetpart.runtime.transport import HostMemory

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
        if _extension_of(tensor).startswith("float8"):  # which neither takes through DLPack
            import onnxruntime

            bits = _bits(tensor.detach())
            return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, onnx_number(_extension_of(tensor)))
        return _ort_value(name, tensor, refused)


def array_over(tensor: Any) -> NDArray[Any] | None:
    """The array that shares the memory of a tensor of PyTorch's on the host, in a type that NumPy lacks.

    ``None`` for any other tensor, and for one that records gradients.
    """
    dtype = numpy_dtype(_extension_of(tensor)) if _extension_of(tensor) else None
    if dtype is None or tensor.device.type != "cpu" or tensor.requires_grad:
        return None
    return _bits(tensor).view(dtype)


def _extension_of(tensor: Any) -> str:
    """The plan's name for the type of a tensor of PyTorch's that NumPy lacks; nothing for others."""
    library, _, name = str(getattr(tensor, "dtype", "")).rpartition(".")
    return dtype_known_as(name) if library == "torch" else ""


def _bits(tensor: Any) -> NDArray[Any]:
    import torch

    return np.from_dlpack(tensor.contiguous().view({1: torch.uint8, 2: torch.uint16}[tensor.itemsize]))


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
