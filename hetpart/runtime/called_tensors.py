# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingTypeStubs=false
"""Values of a plan as PyTorch's tensors, and the other way round, without a copy."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hetpart.runtime.dtypes import is_builtin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetpart.plan.model import ValueSpec
    from hetpart.runtime.transport import Memory


@dataclass(frozen=True, slots=True)
class _CudaBytes:
    """Bytes of a CUDA device, as ``torch.as_tensor`` reads them."""

    address: int
    nbytes: int

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.address, False), "version": 3, "stream": None}


@dataclass(frozen=True, slots=True)
class _AsBytes:
    """Truth values as ONNX Runtime takes them: it asks for the type by its name, and reads bytes."""

    held: torch.Tensor

    @property
    def dtype(self) -> torch.dtype:
        return self.held.dtype

    def __dlpack__(self) -> Any:
        return self.held.view(torch.uint8).__dlpack__()


def dtype_of(name: str) -> torch.dtype:
    """PyTorch's type for a dtype's name: its names are those of the plan but for the underscores of 8-bit floats."""
    return getattr(torch, name.replace("float8e", "float8_e"))


def at_address(spec: ValueSpec, address: int, memory: Memory) -> torch.Tensor:
    """The tensor of known size that lies at ``address`` of ``memory``; it must outlive the tensor."""
    dtype, shape = dtype_of(spec.dtype), [size or 0 for size in spec.shape or ()]
    device = torch.device("cpu") if memory.device_type == "cpu" else torch.device("cuda", memory.device_id)
    if not spec.nbytes:
        return torch.empty(shape, dtype=dtype, device=device)
    if device.type == "cpu":
        raw = torch.frombuffer((ctypes.c_char * spec.nbytes).from_address(address), dtype=torch.uint8)
    else:
        raw = torch.as_tensor(_CudaBytes(address, spec.nbytes), device=device)
    return raw.view(dtype).view(shape)


def of_value(value: Any) -> torch.Tensor:
    """The tensor that shares the memory of an OrtValue, which hands truth values on as bytes."""
    tensor = torch.from_dlpack(value)
    return tensor.view(torch.bool) if value.data_type() == "tensor(bool)" else tensor


def shared(spec: ValueSpec, value: Any) -> torch.Tensor:
    """The tensor that shares the memory of an array or OrtValue."""
    if not isinstance(value, np.ndarray):
        return of_value(value)
    if is_builtin(spec.dtype):
        return torch.from_numpy(value)
    return torch.from_numpy(value.view(f"u{value.itemsize}")).view(dtype_of(spec.dtype))


def lent(made: torch.Tensor, inputs: Sequence[torch.Tensor]) -> Any:
    """An OrtValue that shares the memory of ``made``, or of a copy where an input, whose memory goes back, is that."""
    import onnxruntime

    others = {tensor.untyped_storage().data_ptr() for tensor in inputs}
    owned = made.clone() if made.untyped_storage().data_ptr() in others else made
    held = owned.contiguous()
    return onnxruntime.OrtValue.from_dlpack(_AsBytes(held) if held.dtype is torch.bool else held)
