"""Blocks of device memory, and copies between them, by raw address."""

from __future__ import annotations

import ctypes
from time import perf_counter, sleep
from typing import Protocol

import numpy as np

from hetpart.devices import Provider
from hetpart.errors import ExecutionError
from hetpart.runtime.cuda import CudaMemory as CudaMemory
from hetpart.units import format_bytes

ALIGNMENT = 256
_PIECE_SECONDS = 0.25
_LATE_SECONDS = 60e-6
"""A thread wakes about this much later than it asked to."""


class Memory(Protocol):
    """Where a device's arenas come from and how bytes get in and out."""

    device_type: str
    """``cpu`` or ``cuda``, as ``IOBinding`` names it."""
    device_id: int
    staging_bytes: int
    """Of host memory through which copies pass."""
    piece_bytes: int
    """Longer copies are made in pieces of so many: a run that is to stop waits for one."""

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

    def staged(self, nbytes: int) -> int:
        """Bytes of staging memory that a copy of ``nbytes`` takes."""
        ...


class Block(Protocol):
    """Memory held as long as the block is referenced."""

    address: int


class HostBlock:
    """A block of host memory, zeros at first: they take room once they are written."""

    __slots__ = ("_owner", "address")

    def __init__(self, nbytes: int) -> None:
        try:
            self._owner = np.zeros(nbytes + ALIGNMENT, np.uint8)
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
    staging_bytes = 0
    piece_bytes = 64 * 2**20

    def allocate(self, nbytes: int) -> HostBlock:
        """Untouched pages: they take room once they are written."""
        return HostBlock(nbytes)

    pinned = allocate

    def copy_in(self, target: int, source: int, nbytes: int) -> None:
        """``memmove``; ctypes lets go of the GIL meanwhile."""
        ctypes.memmove(target, source, nbytes)

    copy_out = copy_in

    def staged(self, nbytes: int) -> int:
        """Nothing: bytes go straight to where they belong."""
        del nbytes
        return 0


class LinkedMemory(HostMemory):
    """The host's memory behind a link: no copy is faster than the link, and others compute while it waits."""

    def __init__(self, bytes_per_second: float) -> None:
        self._bytes_per_second = bytes_per_second
        self.piece_bytes = max(1, min(HostMemory.piece_bytes, int(_PIECE_SECONDS * bytes_per_second)))

    def copy_in(self, target: int, source: int, nbytes: int) -> None:
        """Return no earlier than the link would be done."""
        end = perf_counter() + nbytes / self._bytes_per_second
        super().copy_in(target, source, nbytes)
        left = end - perf_counter() - _LATE_SECONDS
        if left > 0:
            sleep(left)

    copy_out = copy_in


def device_memory(device: str, provider: str, *, emulate: bool, link: float | None) -> Memory:
    """The memory of a device: the host's where it is the host, or emulated, then behind ``link`` bytes/s or none."""
    if emulate and link:
        return LinkedMemory(link)
    if emulate or provider == Provider.CPU:
        return HostMemory()
    return CudaMemory(int(device.partition(":")[2] or 0))
