# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingImports=false
"""Streams, events and pinned memory of a CUDA device, through NVIDIA's ``cuda.bindings``: work is asked for ahead.

Nothing of this has been measured on a GPU yet.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol
from weakref import finalize

from hetpart.errors import DeviceUnavailableError, ExecutionError
from hetpart.runtime.cuda import CHUNK_BYTES, CudaMemory

if TYPE_CHECKING:
    from hetpart.runtime.transport import Memory

_NOT_READY = 600
"""``cudaErrorNotReady``: an event has not come yet."""
_BY_ADDRESS = "cudaMemcpyDefault"
"""The kind of a copy of which addresses tell where both ends lie."""
_AT_ONCE = 2
"""Blocks of one copy to the host."""
BLOCKS = 8
"""Pinned blocks of ``CHUNK_BYTES`` that a device's copies share."""
_LASTING: dict[int, list[int]] = {}
"""Streams by device that nobody uses any more."""


class Driver(Protocol):
    """What asking ahead takes of a device. Handles are numbers; calls may come from any thread."""

    def stream(self) -> int:
        """A new stream, which does not wait for the default one."""
        ...

    def lasting_stream(self) -> int:
        """One that stays when this is gone, for others to use again: sessions hold on to it until they are gone."""
        ...

    def event(self) -> int:
        """A new event."""
        ...

    def pinned(self, nbytes: int) -> int:
        """The address of new page-locked host memory."""
        ...

    def record(self, event: int, stream: int) -> None:
        """Let ``event`` come when all that ``stream`` was asked for by now is done."""
        ...

    def wait(self, stream: int, event: int) -> None:
        """Let ``stream`` go on when ``event`` has come; the host goes on at once."""
        ...

    def has_come(self, event: int) -> bool:
        """Whether ``event`` has."""
        ...

    def settle(self, event: int) -> None:
        """Return when ``event`` has come."""
        ...

    def finish(self, stream: int) -> None:
        """Return when ``stream`` has done all that it was asked for."""
        ...

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Ask ``stream`` for a copy between the device and pinned memory."""
        ...


class CudaDriver:
    """The ``Driver`` of a device of this number. What it makes is freed with it.

    Raises:
        DeviceUnavailableError: ``cuda.bindings`` is not installed, or the device does not answer it.
    """

    def __init__(self, device_id: int) -> None:
        try:
            from cuda.bindings import runtime
        except ImportError as error:
            raise DeviceUnavailableError(
                f"cuda.bindings is not installed: {error}", hint="pip install cuda-bindings"
            ) from error
        self._runtime: Any = runtime
        self._device_id = device_id
        try:
            self._call("cudaSetDevice", device_id)
        except ExecutionError as error:
            raise DeviceUnavailableError(error.message, hint=error.hint) from error

    def _call(self, name: str, *arguments: object) -> Any:
        """Call a function on this device, which every thread must choose for itself.

        Raises:
            ExecutionError: it failed; its error is given.
        """
        made: Any = None
        for function, values in (("cudaSetDevice", (self._device_id,)), (name, arguments)):
            status, *found = getattr(self._runtime, function)(*values)
            if int(status) != 0:
                raise ExecutionError(
                    f"{function} failed on cuda:{self._device_id} with error {int(status)}: {status.name}",
                    hint="run with overlap=False (--no-overlap), which asks for one thing after the other",
                )
            made = found[0] if found else None
        return made

    def _made(self, free: str, name: str, *arguments: object) -> int:
        handle = int(self._call(name, *arguments))
        # At the end of the process the device has freed all before this could.
        finalize(self, getattr(self._runtime, free), handle).atexit = False
        return handle

    def stream(self) -> int:
        return self._made("cudaStreamDestroy", "cudaStreamCreateWithFlags", self._runtime.cudaStreamNonBlocking)

    def lasting_stream(self) -> int:
        idle = _LASTING.setdefault(self._device_id, [])
        try:
            stream = idle.pop()
        except IndexError:
            stream = int(self._call("cudaStreamCreateWithFlags", self._runtime.cudaStreamNonBlocking))
        finalize(self, idle.append, stream).atexit = False
        return stream

    def event(self) -> int:
        return self._made("cudaEventDestroy", "cudaEventCreateWithFlags", self._runtime.cudaEventDisableTiming)

    def pinned(self, nbytes: int) -> int:
        return self._made("cudaFreeHost", "cudaHostAlloc", nbytes, 0)

    def record(self, event: int, stream: int) -> None:
        self._call("cudaEventRecord", event, stream)

    def wait(self, stream: int, event: int) -> None:
        self._call("cudaStreamWaitEvent", stream, event, 0)

    def has_come(self, event: int) -> bool:
        (status,) = self._runtime.cudaEventQuery(event)
        if int(status) not in (0, _NOT_READY):
            raise ExecutionError(f"cudaEventQuery failed on cuda:{self._device_id} with {status.name}")
        return int(status) == 0

    def settle(self, event: int) -> None:
        self._call("cudaEventSynchronize", event)

    def finish(self, stream: int) -> None:
        self._call("cudaStreamSynchronize", stream)

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        kind = getattr(self._runtime.cudaMemcpyKind, _BY_ADDRESS)
        self._call("cudaMemcpyAsync", target, source, nbytes, kind, stream)


@dataclass(slots=True)
class PinnedBlock:
    """Page-locked memory, and the event of the last copy that used it."""

    address: int
    event: int
    is_used: bool = False
    """Whether there was such a copy."""


@dataclass(slots=True)
class PinnedPool:
    """Blocks of ``CHUNK_BYTES``, made when they are needed and none is free, ``BLOCKS`` of them at most."""

    driver: Driver
    _blocks: deque[PinnedBlock] = field(default_factory=deque[PinnedBlock])
    """Those that nobody holds, the one that was given back first at the left."""
    _made: int = 0
    _mutex: Lock = field(default_factory=Lock)

    @contextmanager
    def block(self) -> Generator[PinnedBlock]:
        """One that no copy uses any more; waits for the oldest copy where all are in use.

        A copy that uses it is over when the event of the block has come, which is recorded by then.
        """
        block = self._taken()
        try:
            if not self._is_free(block):
                self.driver.settle(block.event)
            yield block
        finally:
            with self._mutex:
                self._blocks.append(block)

    def _taken(self) -> PinnedBlock:
        with self._mutex:
            if self._blocks and (self._made == BLOCKS or self._is_free(self._blocks[0])):
                return self._blocks.popleft()
            assert self._made < BLOCKS, "more copies at once than there are directions"
            self._made += 1
        return PinnedBlock(self.driver.pinned(CHUNK_BYTES), self.driver.event())

    def _is_free(self, block: PinnedBlock) -> bool:
        return not block.is_used or self.driver.has_come(block.event)


class StreamMemory(CudaMemory):
    """A CUDA device's memory, whose copies in a run are asked for on streams of their own.

    Outside of runs its copies are done when they return, as ``CudaMemory``'s are.
    """

    staging_bytes = CudaMemory.staging_bytes + BLOCKS * CHUNK_BYTES

    def __init__(self, device_id: int, driver: Driver) -> None:
        super().__init__(device_id)
        self.driver = driver
        self.copies_in, self.copies_out, self.compute = driver.stream(), driver.stream(), driver.lasting_stream()
        self._pool = PinnedPool(driver)

    def begin_in(self, target: int, source: int, nbytes: int) -> None:
        """Ask for a copy from a host address, which may be written to again when this returns."""
        for start in range(0, nbytes, CHUNK_BYTES):
            size = min(CHUNK_BYTES, nbytes - start)
            with self._pool.block() as block:
                ctypes.memmove(block.address, source + start, size)
                self._ask(block, target + start, block.address, size, self.copies_in)

    def copy_out_in_order(self, target: int, source: int, nbytes: int) -> None:
        """Copy to a host address when the stream of such copies gets there; done when it returns.

        A block is emptied while the device fills the next.
        """
        with ExitStack() as held:
            filled: list[PinnedBlock] = []
            starts = range(0, nbytes, CHUNK_BYTES)
            for number, start in enumerate(starts):
                if number < _AT_ONCE:
                    filled.append(held.enter_context(self._pool.block()))
                else:
                    self._empty(filled[number % _AT_ONCE], target, start - _AT_ONCE * CHUNK_BYTES, nbytes)
                block = filled[number % _AT_ONCE]
                self._ask(block, block.address, source + start, min(CHUNK_BYTES, nbytes - start), self.copies_out)
            for number in range(max(0, len(starts) - _AT_ONCE), len(starts)):
                self._empty(filled[number % _AT_ONCE], target, starts[number], nbytes)

    def _ask(self, block: PinnedBlock, target: int, source: int, nbytes: int, stream: int) -> None:
        self.driver.copy(target, source, nbytes, stream)
        self.driver.record(block.event, stream)
        block.is_used = True

    def _empty(self, block: PinnedBlock, target: int, start: int, nbytes: int) -> None:
        self.driver.settle(block.event)
        ctypes.memmove(target + start, block.address, min(CHUNK_BYTES, nbytes - start))


def run_copies(memory: Memory) -> tuple[Callable[[int, int, int], None], Callable[[int, int, int], None]]:
    """How a run copies into ``memory``, and out of it to the host."""
    if isinstance(memory, StreamMemory):
        return memory.begin_in, memory.copy_out_in_order
    return memory.copy_in, memory.copy_out
