"""Blocks of device memory, and copies between them, by raw address."""

from __future__ import annotations

import ctypes
from typing import Protocol

import numpy as np

from hetpart.errors import DeviceUnavailableError

ALIGNMENT = 256
_CUDA_RUNTIMES = ("libcudart.so.13", "libcudart.so.12", "libcudart.so")
_TO_DEVICE, _TO_HOST = 1, 2
"""``cudaMemcpyKind`` of the CUDA runtime API."""


class Memory(Protocol):
    """Where a device's arenas come from and how bytes get in and out."""

    device_type: str
    """``cpu`` or ``cuda``, as ``IOBinding`` names it."""
    device_id: int

    def allocate(self, nbytes: int) -> Block:
        """A block of at least ``nbytes``, aligned; freed with its last reference."""
        ...

    def copy_in(self, target: int, source: int, nbytes: int) -> None:
        """Copy from a host address to an address of this memory; done when it returns."""
        ...

    def copy_out(self, target: int, source: int, nbytes: int) -> None:
        """Copy from an address of this memory to a host address; done when it returns."""
        ...


class Block(Protocol):
    """Memory held as long as the block is referenced."""

    address: int


class HostBlock:
    """A block of host memory."""

    __slots__ = ("_owner", "address")

    def __init__(self, nbytes: int) -> None:
        self._owner = np.empty(nbytes + ALIGNMENT, np.uint8)
        self.address = -(-self._owner.ctypes.data // ALIGNMENT) * ALIGNMENT


class HostMemory:
    """The host's memory; behind a name of its own it also plays an accelerator's."""

    device_type = "cpu"
    device_id = 0

    def allocate(self, nbytes: int) -> HostBlock:
        """Untouched pages: they take room once they are written."""
        return HostBlock(nbytes)

    def copy_in(self, target: int, source: int, nbytes: int) -> None:
        """``memmove``; ctypes lets go of the GIL meanwhile."""
        ctypes.memmove(target, source, nbytes)

    copy_out = copy_in


class CudaBlock:
    """A block of a CUDA device's memory."""

    __slots__ = ("_memory", "address")

    def __init__(self, memory: CudaMemory, nbytes: int) -> None:
        self._memory = memory
        pointer = ctypes.c_void_p()
        memory.call("cudaMalloc", ctypes.byref(pointer), ctypes.c_size_t(max(nbytes, 1)))
        self.address = pointer.value or 0

    def __del__(self) -> None:
        if hasattr(self, "address"):
            self._memory.free(self.address)


class CudaMemory:
    """A CUDA device's memory, through the CUDA runtime that ONNX Runtime's provider has loaded."""

    device_type = "cuda"

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        self._runtime = _cuda_runtime()

    def call(self, name: str, *arguments: object) -> None:
        """Call a function of the CUDA runtime on this device.

        Raises:
            DeviceUnavailableError: the call failed; its number and name are given.
        """
        for function, values in (("cudaSetDevice", (self.device_id,)), (name, arguments)):
            status = getattr(self._runtime, function)(*values)
            if status != 0:
                raise DeviceUnavailableError(
                    f"{function} failed on cuda:{self.device_id} with error {status}",
                    hint="look it up as cudaError_t; 2 means out of memory: lower --budget",
                )

    def allocate(self, nbytes: int) -> CudaBlock:
        """``cudaMalloc``, aligned to 256 bytes."""
        return CudaBlock(self, nbytes)

    def free(self, address: int) -> None:
        """``cudaFree``."""
        self._runtime.cudaFree(ctypes.c_void_p(address))

    def copy_in(self, target: int, source: int, nbytes: int) -> None:
        """``cudaMemcpy``; from pageable memory it returns before the bytes arrived, so the stream is waited for."""
        self._copy(target, source, nbytes, _TO_DEVICE)
        self.call("cudaStreamSynchronize", ctypes.c_void_p(0))

    def copy_out(self, target: int, source: int, nbytes: int) -> None:
        """``cudaMemcpy``, which waits for the bytes on the way to the host."""
        self._copy(target, source, nbytes, _TO_HOST)

    def _copy(self, target: int, source: int, nbytes: int, kind: int) -> None:
        self.call("cudaMemcpy", ctypes.c_void_p(target), ctypes.c_void_p(source), ctypes.c_size_t(nbytes), kind)


def _cuda_runtime() -> ctypes.CDLL:
    for name in _CUDA_RUNTIMES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise DeviceUnavailableError(
        f"the CUDA runtime library was not found ({', '.join(_CUDA_RUNTIMES)})",
        hint="install hetpart[gpu], or run with --emulate",
    )
