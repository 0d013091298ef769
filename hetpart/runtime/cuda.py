"""A CUDA device's memory: blocks, and copies through pinned buffers on streams of their own."""

from __future__ import annotations

import ctypes
from threading import Lock
from weakref import finalize

from hetpart.errors import DeviceUnavailableError, ExecutionError

_CUDA_DRIVER = "libcuda.so.1"
_CUDA_RUNTIMES = ("libcudart.so.13", "libcudart.so.12", "libcudart.so")
_POINTER, _OUT = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
_CUDA_ARGUMENTS = {
    "cudaSetDevice": (ctypes.c_int,),
    "cudaMalloc": (_OUT, ctypes.c_size_t),
    "cudaFree": (_POINTER,),
    "cudaHostAlloc": (_OUT, ctypes.c_size_t, ctypes.c_uint),
    "cudaFreeHost": (_POINTER,),
    "cudaStreamCreateWithFlags": (_OUT, ctypes.c_uint),
    "cudaStreamSynchronize": (_POINTER,),
    "cudaStreamDestroy": (_POINTER,),
    "cudaEventCreateWithFlags": (_OUT, ctypes.c_uint),
    "cudaEventRecord": (_POINTER, _POINTER),
    "cudaEventSynchronize": (_POINTER,),
    "cudaEventDestroy": (_POINTER,),
    "cudaMemcpyAsync": (_POINTER, _POINTER, ctypes.c_size_t, ctypes.c_int, _POINTER),
}
"""Functions of the CUDA runtime API. Undeclared, ctypes would pass an address as a C int of 32 bits."""
_TO_DEVICE, _TO_HOST = 1, 2
"""``cudaMemcpyKind``."""
_NON_BLOCKING = 1
"""``cudaStreamNonBlocking``: the stream does not wait for the default one."""
_NO_TIMING = 2
"""``cudaEventDisableTiming``."""
CHUNK_BYTES = 4 * 2**20
"""Of a pinned buffer. A direction has two: the processor fills or empties one while the device works on the other."""


def cuda_answers(index: int) -> bool:
    """Whether the CUDA driver is there and knows a device of this number. ONNX Runtime does not tell."""
    count = ctypes.c_int(0)
    try:
        driver = ctypes.CDLL(_CUDA_DRIVER)
    except OSError:
        return False
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and index < count.value


class CudaMemory:
    """A CUDA device's memory, through the CUDA runtime that ONNX Runtime's provider has loaded.

    A copy is done when it returns, so whoever starts a kernel then finds its bytes, whichever stream it runs on. Each
    direction has a stream and pinned buffers of its own, made for its first copy: copies go on beside kernels and
    beside copies in the other direction. From or to pinned memory of the caller's they go straight.
    """

    device_type = "cuda"
    staging_bytes = 4 * CHUNK_BYTES
    piece_bytes = 64 * 2**20

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        self._runtime = _cuda_runtime()
        self._pinned: dict[int, int] = {}
        """Addresses of the caller's pinned blocks, with their bytes."""
        self._channels: dict[int, Channel] = {}
        self._opening = Lock()

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

    def made(self, name: str, *arguments: object) -> int:
        """The address or handle that a function of the CUDA runtime gives back in its first argument."""
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *arguments)
        assert handle.value is not None
        return handle.value

    def free_with(self, owner: object, name: str, handle: int) -> None:
        """Free ``handle`` with the function ``name`` once nothing refers to ``owner``.

        Unlike ``__del__`` that is before the interpreter takes ctypes apart.
        """
        finalize(owner, _free, self._runtime, self.device_id, name, handle)

    def allocate(self, nbytes: int) -> CudaBlock:
        """``cudaMalloc``, aligned to 256 bytes."""
        return CudaBlock(self, nbytes)

    def pinned(self, nbytes: int) -> PinnedBlock:
        """``cudaHostAlloc``."""
        block = PinnedBlock(self, nbytes)
        self._pinned[block.address] = nbytes
        finalize(block, self._pinned.pop, block.address, None)
        return block

    def copy_in(self, target: int, source: int, nbytes: int) -> None:
        """Copy from a host address; done when it returns."""
        channel = self._channel(_TO_DEVICE)
        with channel.turn:
            if self._is_pinned(source, nbytes):
                channel.copy(target, source, nbytes)
            else:
                channel.fill(target, source, nbytes)
            channel.finish()

    def copy_out(self, target: int, source: int, nbytes: int) -> None:
        """Copy to a host address; done when it returns."""
        channel = self._channel(_TO_HOST)
        with channel.turn:
            if self._is_pinned(target, nbytes):
                channel.copy(target, source, nbytes)
                channel.finish()
            else:
                channel.drain(target, source, nbytes)

    def staged(self, nbytes: int) -> int:
        """No copy takes more than the two buffers of its direction."""
        return min(nbytes, 2 * CHUNK_BYTES)

    def _is_pinned(self, address: int, nbytes: int) -> bool:
        return any(start <= address and address + nbytes <= start + size for start, size in self._pinned.items())

    def _channel(self, kind: int) -> Channel:
        with self._opening:
            if kind not in self._channels:
                self._channels[kind] = Channel(self, kind)
            return self._channels[kind]


class CudaBlock:
    """A block of a CUDA device's memory."""

    __slots__ = ("__weakref__", "address")

    def __init__(self, memory: CudaMemory, nbytes: int) -> None:
        self.address = memory.made("cudaMalloc", max(nbytes, 1))
        memory.free_with(self, "cudaFree", self.address)


class PinnedBlock:
    """A block of page-locked host memory."""

    __slots__ = ("__weakref__", "address")

    def __init__(self, memory: CudaMemory, nbytes: int) -> None:
        self.address = memory.made("cudaHostAlloc", max(nbytes, 1), 0)
        memory.free_with(self, "cudaFreeHost", self.address)


class Channel:
    """One direction's stream and its two pinned buffers, each with an event that tells when it is free again."""

    def __init__(self, memory: CudaMemory, kind: int) -> None:
        self.turn = Lock()
        self._call = memory.call
        self._kind = kind
        self._stream = _handle(self, memory, "cudaStreamCreateWithFlags", _NON_BLOCKING, free="cudaStreamDestroy")
        self._buffers = [_handle(self, memory, "cudaHostAlloc", CHUNK_BYTES, 0, free="cudaFreeHost") for _ in range(2)]
        self._events = [
            _handle(self, memory, "cudaEventCreateWithFlags", _NO_TIMING, free="cudaEventDestroy") for _ in range(2)
        ]

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Begin a copy between the device and pinned memory."""
        self._call("cudaMemcpyAsync", target, source, nbytes, self._kind, self._stream)

    def finish(self) -> None:
        """Wait for all that has begun."""
        self._call("cudaStreamSynchronize", self._stream)

    def fill(self, target: int, source: int, nbytes: int) -> None:
        """Begin a copy to the device, by way of the buffers."""
        for number, start in enumerate(range(0, nbytes, CHUNK_BYTES)):
            buffer, event = self._buffers[number % 2], self._events[number % 2]
            size = min(CHUNK_BYTES, nbytes - start)
            self._call("cudaEventSynchronize", event)
            ctypes.memmove(buffer, source + start, size)
            self.copy(target + start, buffer, size)
            self._call("cudaEventRecord", event, self._stream)

    def drain(self, target: int, source: int, nbytes: int) -> None:
        """Copy from the device by way of the buffers: one is emptied while the next is filled."""
        starts = range(0, nbytes, CHUNK_BYTES)
        for number, start in enumerate(starts):
            self.copy(self._buffers[number % 2], source + start, min(CHUNK_BYTES, nbytes - start))
            self._call("cudaEventRecord", self._events[number % 2], self._stream)
            if number:
                self._empty(number - 1, target, nbytes)
        if starts:
            self._empty(len(starts) - 1, target, nbytes)

    def _empty(self, number: int, target: int, nbytes: int) -> None:
        start = number * CHUNK_BYTES
        self._call("cudaEventSynchronize", self._events[number % 2])
        ctypes.memmove(target + start, self._buffers[number % 2], min(CHUNK_BYTES, nbytes - start))


def _handle(owner: Channel, memory: CudaMemory, name: str, *arguments: object, free: str) -> int:
    handle = memory.made(name, *arguments)
    memory.free_with(owner, free, handle)
    return handle


def _free(runtime: ctypes.CDLL, device_id: int, name: str, handle: int) -> None:
    """A device that is gone already has freed it: no status is looked at."""
    runtime.cudaSetDevice(device_id)
    getattr(runtime, name)(handle)


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
