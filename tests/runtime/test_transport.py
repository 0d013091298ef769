"""Blocks of memory and copies by address: on the host for real, on CUDA by what its runtime library is told."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hetpart.errors import DeviceUnavailableError, ExecutionError
from hetpart.runtime import transport
from hetpart.runtime.transport import ALIGNMENT, CudaMemory, HostMemory, Memory

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
    """A CUDA runtime that keeps what it is told. Addresses are beyond 32 bits, as real ones are."""

    def __init__(self, status: int = 0) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.status = status

    def cudaSetDevice(self, device: int) -> int:  # noqa: N802
        self.calls.append(("cudaSetDevice", device))
        return 0

    def cudaMalloc(self, pointer: Any, nbytes: int) -> int:  # noqa: N802
        self.calls.append(("cudaMalloc", nbytes))
        pointer._obj.value = 0x7F00_0000_0000 + len(self.calls) * 0x1_0000_0000
        return self.status

    def cudaGetErrorString(self, status: int) -> bytes:  # noqa: N802
        return f"status {status}".encode()

    def __getattr__(self, name: str) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            self.calls.append((name, *arguments))
            return self.status

        return call


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeRuntime:
    runtime = FakeRuntime()
    monkeypatch.setattr(transport, "_cuda_runtime", lambda: runtime)
    return runtime


def test_the_device_is_chosen_before_every_call(fake: FakeRuntime) -> None:
    memory = CudaMemory(3)
    block = memory.allocate(100)
    memory.copy_in(block.address, 7, 100)
    memory.copy_out(8, block.address, 100)
    assert fake.calls == [
        ("cudaSetDevice", 3), ("cudaMalloc", 100),
        ("cudaSetDevice", 3), ("cudaMemcpy", block.address, 7, 100, 1),
        ("cudaSetDevice", 3), ("cudaStreamSynchronize", None),
        ("cudaSetDevice", 3), ("cudaMemcpy", 8, block.address, 100, 2),
    ]  # fmt: skip


def test_a_block_is_freed_with_its_last_reference(fake: FakeRuntime) -> None:
    block = CudaMemory(1).allocate(0)
    address = block.address
    assert ("cudaMalloc", 1) in fake.calls
    assert address > 2**32
    del block
    gc.collect()
    assert fake.calls[-2:] == [("cudaSetDevice", 1), ("cudaFree", address)]


def test_a_failed_call_is_named(fake: FakeRuntime) -> None:
    fake.status = 2
    with pytest.raises(ExecutionError, match="cudaMalloc failed on cuda:0 with error 2: status 2") as failed:
        CudaMemory(0).allocate(10)
    assert "--budget" in failed.value.hint
    gc.collect()
    assert not any(call[0] == "cudaFree" for call in fake.calls)


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

    runtime: Any = transport._declared(Library())  # pyright: ignore[reportPrivateUsage, reportArgumentType]
    assert runtime.cudaMemcpy.argtypes == (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
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
