"""Blocks of device memory, and copies between them, by raw address."""

from __future__ import annotations

import ctypes
from typing import Protocol
from weakref import finalize

import numpy as np

from hetpart.errors import DeviceUnavailableError, ExecutionError
from hetpart.units import format_bytes

ALIGNMENT = 256
_CUDA_RUNTIMES = ("libcudart.so.13", "libcudart.so.12", "libcudart.so")
_CUDA_ARGUMENTS = {
    "cudaSetDevice": (ctypes.c_int,),
    "cudaMalloc": (ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t),
    "cudaFree": (ctypes.c_void_p,),
    "cudaHostAlloc": (ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_uint),
    "cudaFreeHost": (ctypes.c_void_p,),
    "cudaMemcpy": (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int),
    "cudaStreamSynchronize": (ctypes.c_void_p,),
}
"""Functions of the CUDA runtime API. Undeclared, ctypes would pass an address as a C int of 32 bits."""
_TO_DEVICE, _TO_HOST = 1, 2
"""``cudaMemcpyKind``."""
_DEFAULT_STREAM = None


class Memory(Protocol):
    """Where a device's arenas come from and how bytes get in and out."""

    device_type: str
    """``cpu`` or ``cuda``, as ``IOBinding`` names it."""
    device_id: int

    def allocate(self, nbytes: int) -> Block:
        """A block of at least ``nbytes``, aligned; freed with its last reference."""
        ...

    def pinned(self, nbytes: int) -> Block:
        """A block of host memory that the device reads and writes by itself."""
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
        try:
            self._owner = np.empty(nbytes + ALIGNMENT, np.uint8)
        except (MemoryError, ValueError, OverflowError) as error:
            raise ExecutionError(
                f"{format_bytes(nbytes)} of host memory for values between partitions cannot be had: {error}",
                hint="run on a machine with more memory, or partition again with a smaller --shape",
            ) from error
        self.address = -(-self._owner.ctypes.data // ALIGNMENT) * ALIGNMENT


class HostMemory:
    """The host's memory; behind a name of its own it also plays an accelerator's."""

    device_type = "cpu"
    device_id = 0

    def allocate(self, nbytes: int) -> HostBlock:
        """Untouched pages: they take room once they are written."""
        return HostBlock(nbytes)

    pinned = allocate

    def copy_in(self, target: int, source: int, nbytes: int) -> None:
        """``memmove``; ctypes lets go of the GIL meanwhile."""
        ctypes.memmove(target, source, nbytes)

    copy_out = copy_in


class CudaBlock:
    """A block of a CUDA device's memory."""

    __slots__ = ("__weakref__", "address")

    def __init__(self, memory: CudaMemory, nbytes: int) -> None:
        pointer = ctypes.c_void_p()
        memory.call("cudaMalloc", ctypes.byref(pointer), max(nbytes, 1))
        assert pointer.value is not None
        self.address = pointer.value
        # Unlike `__del__` it runs before the interpreter takes ctypes apart.
        finalize(self, memory.free, self.address)


class PinnedBlock:
    """A block of page-locked host memory."""

    __slots__ = ("__weakref__", "address")

    def __init__(self, memory: CudaMemory, nbytes: int) -> None:
        pointer = ctypes.c_void_p()
        memory.call("cudaHostAlloc", ctypes.byref(pointer), max(nbytes, 1), 0)
        assert pointer.value is not None
        self.address = pointer.value
        finalize(self, memory.free_pinned, self.address)


class CudaMemory:
    """A CUDA device's memory, through the CUDA runtime that ONNX Runtime's provider has loaded."""

    device_type = "cuda"

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        self._runtime = _cuda_runtime()

    def call(self, name: str, *arguments: object) -> None:
        """Call a function of the CUDA runtime on this device, which every thread must choose for itself.

        Raises:
            ExecutionError: the call failed; its number and name are given.
        """
        for function, values in (("cudaSetDevice", (self.device_id,)), (name, arguments)):
            status: int = getattr(self._runtime, function)(*values)
            if status != 0:
                why = self._runtime.cudaGetErrorString(status)
                raise ExecutionError(
                    f"{function} failed on cuda:{self.device_id} with error {status}: {why.decode()}",
                    hint="if memory ran out, free some on the device or partition again with a smaller --budget",
                )

    def allocate(self, nbytes: int) -> CudaBlock:
        """``cudaMalloc``, aligned to 256 bytes."""
        return CudaBlock(self, nbytes)

    def free(self, address: int) -> None:
        """``cudaFree``; a device that is gone already has freed it."""
        self._runtime.cudaSetDevice(self.device_id)
        self._runtime.cudaFree(address)

    def pinned(self, nbytes: int) -> PinnedBlock:
        """``cudaHostAlloc``."""
        return PinnedBlock(self, nbytes)

    def free_pinned(self, address: int) -> None:
        """``cudaFreeHost``."""
        self._runtime.cudaSetDevice(self.device_id)
        self._runtime.cudaFreeHost(address)

    def copy_in(self, target: int, source: int, nbytes: int) -> None:
        """``cudaMemcpy``; from pageable memory it returns before the bytes arrived, so the stream is waited for."""
        self.call("cudaMemcpy", target, source, nbytes, _TO_DEVICE)
        self.call("cudaStreamSynchronize", _DEFAULT_STREAM)

    def copy_out(self, target: int, source: int, nbytes: int) -> None:
        """``cudaMemcpy``, which waits for the bytes on the way to the host."""
        self.call("cudaMemcpy", target, source, nbytes, _TO_HOST)


def _cuda_runtime() -> ctypes.CDLL:
    for name in _CUDA_RUNTIMES:
        try:
            return _declared(ctypes.CDLL(name))
        except OSError:
            continue
    raise DeviceUnavailableError(
        f"the CUDA runtime library was not found ({', '.join(_CUDA_RUNTIMES)})",
        hint="install hetpart[gpu], or run with --emulate",
    )


def _declared(runtime: ctypes.CDLL) -> ctypes.CDLL:
    for name, arguments in _CUDA_ARGUMENTS.items():
        getattr(runtime, name).argtypes = arguments
    runtime.cudaGetErrorString.restype = ctypes.c_char_p
    return runtime
