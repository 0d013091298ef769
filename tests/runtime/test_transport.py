"""Blocks of memory and copies by address: on the host for real, on CUDA by what its runtime library is told."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import pytest

from hetpart.errors import DeviceUnavailableError, ExecutionError
from hetpart.runtime import cuda
from hetpart.runtime.cuda import CHUNK_BYTES, CudaMemory
from hetpart.runtime.transport import ALIGNMENT, HostMemory, LinkedMemory, Memory

MEMORIES = [
    pytest.param(HostMemory, id="host"),
    pytest.param(lambda: CudaMemory(0), id="cuda", marks=pytest.mark.cuda),
]


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("nbytes", [0, 1, 255, 4096, 10_000_001])
def test_bytes_go_in_and_come_out(memory: Callable[[], Memory], nbytes: int) -> None:
    blocks = [memory().allocate(nbytes) for _ in range(3)]
    sent = [np.random.default_rng(seed).integers(0, 256, nbytes, np.uint8) for seed in range(3)]
    for block, content in zip(blocks, sent, strict=True):
        assert block.address % ALIGNMENT == 0
        memory().copy_in(block.address, content.ctypes.data, nbytes)
    for block, content in zip(blocks, sent, strict=True):
        received = np.zeros(nbytes, np.uint8)
        memory().copy_out(received.ctypes.data, block.address, nbytes)
        assert received.tobytes() == content.tobytes()


@pytest.mark.parametrize("nbytes", [10**17, 10**30])
def test_more_memory_than_there_is_is_a_clear_error(nbytes: int) -> None:
    with pytest.raises(ExecutionError, match="host memory") as refused:
        HostMemory().allocate(nbytes)
    assert refused.value.hint


class FakeRuntime:
    """A CUDA runtime on the host's memory that keeps what it is told and copies as late as it may."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.fails = ""
        self.held: dict[int, Any] = {}
        self.streams: dict[int, list[tuple[int, int, int]]] = {}
        self.events: dict[int, tuple[int, int]] = {}
        """Event → stream, and how many of its copies were asked for by then."""
        self.made: dict[int, int] = {}
        """Stream → copies made."""

    def cudaGetErrorString(self, status: int) -> bytes:  # noqa: N802
        return f"status {status}".encode()

    def __getattr__(self, name: str) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            told = [f"&{type(item).__name__}" if hasattr(item, "_obj") else item for item in arguments]
            self.calls.append((name, *told))
            if name == self.fails:
                return 2
            if name in self._deeds:
                self._deeds[name](self, *arguments)
            return 0

        return call

    def _give(self, pointer: Any, nbytes: int, *_: Any) -> None:
        memory = ctypes.create_string_buffer(nbytes + ALIGNMENT)
        pointer._obj.value = -(-ctypes.addressof(memory) // ALIGNMENT) * ALIGNMENT
        self.held[pointer._obj.value] = memory

    def _free(self, address: int) -> None:
        del self.held[address]

    def _new_handle(self, pointer: Any, _flags: int) -> None:
        self._give(pointer, 1)

    def _begin_copy(self, target: int, source: int, nbytes: int, _kind: int, stream: int) -> None:
        self.streams.setdefault(stream, []).append((target, source, nbytes))

    def _record(self, event: int, stream: int) -> None:
        self.events[event] = stream, len(self.streams[stream])

    def _wait_event(self, event: int) -> None:
        if event in self.events:
            self._make(*self.events[event])

    def _wait_stream(self, stream: int) -> None:
        self._make(stream, len(self.streams.get(stream, ())))

    _deeds = {  # noqa: RUF012
        "cudaMalloc": _give, "cudaHostAlloc": _give, "cudaFree": _free, "cudaFreeHost": _free,
        "cudaStreamCreateWithFlags": _new_handle, "cudaEventCreateWithFlags": _new_handle,
        "cudaStreamDestroy": _free, "cudaEventDestroy": _free, "cudaMemcpyAsync": _begin_copy,
        "cudaEventRecord": _record, "cudaEventSynchronize": _wait_event, "cudaStreamSynchronize": _wait_stream,
    }  # fmt: skip

    def _make(self, stream: int, until: int) -> None:
        for target, source, nbytes in self.streams.get(stream, ())[self.made.get(stream, 0) : until]:
            ctypes.memmove(target, source, nbytes)
        self.made[stream] = max(self.made.get(stream, 0), until)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeRuntime:
    runtime = FakeRuntime()
    monkeypatch.setattr(cuda, "_cuda_runtime", lambda: runtime)
    return runtime


def test_the_device_is_chosen_before_every_call(fake: FakeRuntime) -> None:
    memory = CudaMemory(3)
    block, content = memory.allocate(100), np.ones(100, np.uint8)
    memory.copy_in(block.address, content.ctypes.data, 100)
    memory.copy_out(content.ctypes.data, block.address, 100)
    assert len(fake.calls) > 10
    assert all(call == ("cudaSetDevice", 3) for call in fake.calls[::2])
    assert all(call[0] != "cudaSetDevice" for call in fake.calls[1::2])


@pytest.mark.parametrize("nbytes", [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES, 5 * CHUNK_BYTES + 7])
def test_copies_pass_through_buffers_that_are_free(fake: FakeRuntime, nbytes: int) -> None:
    """The fake copies when it is waited for: what is written to a buffer before that would be copied instead."""
    memory = CudaMemory(0)
    rng = np.random.default_rng(0)
    for _ in range(2):
        sent, received = rng.integers(0, 256, nbytes, np.uint8), np.zeros(nbytes, np.uint8)
        block = memory.allocate(nbytes)
        memory.copy_in(block.address, sent.ctypes.data, nbytes)
        assert ctypes.string_at(block.address, nbytes) == sent.tobytes()
        memory.copy_out(received.ctypes.data, block.address, nbytes)
        assert received.tobytes() == sent.tobytes()
    copies = [call for call in fake.calls if call[0] == "cudaMemcpyAsync"]
    assert sum(call[3] for call in copies) == 4 * nbytes
    assert len({call[5] for call in copies}) == (2 if nbytes else 0), "a stream for each direction"
    assert sum(call[0] == "cudaHostAlloc" for call in fake.calls) * CHUNK_BYTES == memory.staging_bytes
    assert memory.staged(nbytes) == min(nbytes, 2 * CHUNK_BYTES)


def test_pinned_memory_needs_no_buffers(fake: FakeRuntime) -> None:
    memory = CudaMemory(0)
    nbytes = 3 * CHUNK_BYTES
    block, sent, received = memory.allocate(nbytes), memory.pinned(nbytes), memory.pinned(nbytes)
    ctypes.memset(sent.address, 7, nbytes)
    memory.copy_in(block.address, sent.address, nbytes)
    memory.copy_out(received.address + 5, block.address, nbytes - 5)
    assert ctypes.string_at(received.address, 6) == bytes([0, 0, 0, 0, 0, 7])
    copies = [call[1:4] for call in fake.calls if call[0] == "cudaMemcpyAsync"]
    assert copies == [
        (block.address, sent.address, nbytes),
        (received.address + 5, block.address, nbytes - 5),
    ]
    del sent, received
    gc.collect()
    pageable = np.ones(10, np.uint8)
    memory.copy_in(block.address, pageable.ctypes.data, 10)
    assert ctypes.string_at(block.address, 10) == pageable.tobytes()


def test_everything_is_freed_with_its_last_reference(fake: FakeRuntime) -> None:
    memory = CudaMemory(1)
    block, content = memory.allocate(0), np.ones(1, np.uint8)
    address = block.address
    assert ("cudaMalloc", 1) in [(call[0], call[2]) for call in fake.calls if len(call) == 3]
    memory.copy_in(address, content.ctypes.data, 1)
    del block
    gc.collect()
    assert fake.calls[-2:] == [("cudaSetDevice", 1), ("cudaFree", address)]
    assert fake.held
    del memory
    gc.collect()
    assert not fake.held


def test_a_failed_call_is_named(fake: FakeRuntime) -> None:
    fake.fails = "cudaMalloc"
    with pytest.raises(ExecutionError, match="cudaMalloc failed on cuda:0 with error 2: status 2") as failed:
        CudaMemory(0).allocate(10)
    assert "--budget" in failed.value.hint
    gc.collect()
    assert not any(call[0] == "cudaFree" for call in fake.calls)


def test_a_copy_that_fails_leaves_the_next_one_its_turn(fake: FakeRuntime) -> None:
    memory = CudaMemory(0)
    nbytes = 3 * CHUNK_BYTES
    block, sent, received = memory.allocate(nbytes), np.full(nbytes, 3, np.uint8), np.zeros(nbytes, np.uint8)
    for name in ("cudaMemcpyAsync", "cudaEventSynchronize", "cudaEventRecord"):
        fake.fails = name
        with pytest.raises(ExecutionError, match=name):
            memory.copy_in(block.address, sent.ctypes.data, nbytes)
        with pytest.raises(ExecutionError, match=name):
            memory.copy_out(received.ctypes.data, block.address, nbytes)
    fake.fails = ""
    memory.copy_in(block.address, sent.ctypes.data, nbytes)
    memory.copy_out(received.ctypes.data, block.address, nbytes)
    assert received.tobytes() == sent.tobytes()


def test_a_link_takes_the_time_of_its_bytes() -> None:
    """No earlier than that; how much later is the machine's affair."""
    memory, content, received = LinkedMemory(1e6), np.arange(20_000, dtype=np.uint8), np.zeros(20_000, np.uint8)
    start = perf_counter()
    memory.copy_in(received.ctypes.data, content.ctypes.data, 20_000)
    assert perf_counter() - start > 0.0199
    assert received.tobytes() == content.tobytes()
    memory.copy_out(content.ctypes.data, received.ctypes.data, 0)


def test_addresses_are_declared_as_wide_as_they_are() -> None:
    """Undeclared, ctypes passes an int as a C int: 32 bits of the 64."""

    class Function:
        argtypes: Any = None
        restype: Any = ctypes.c_int

    class Library:
        def __getattr__(self, name: str) -> Function:
            made = Function()
            setattr(self, name, made)
            return made

    runtime: Any = cuda._declared(Library())
    pointer = ctypes.c_void_p
    assert runtime.cudaMemcpyAsync.argtypes == (pointer, pointer, ctypes.c_size_t, ctypes.c_int, pointer)
    assert runtime.cudaMalloc.argtypes == (ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t)
    assert runtime.cudaFree.argtypes == (ctypes.c_void_p,)
    assert runtime.cudaGetErrorString.restype is ctypes.c_char_p


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> ctypes.CDLL:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(DeviceUnavailableError, match=r"libcudart\.so\.13") as refused:
        CudaMemory(0)
    assert "hetpart[gpu]" in refused.value.hint
