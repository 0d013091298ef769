"""A device that does what it was asked for as late as it may, and in the order that suits it best."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from threading import RLock
from typing import Any

import numpy as np

from hetpart.runtime.cuda_streams import StreamMemory
from hetpart.runtime.transport import HostBlock


@dataclass
class LateDriver:
    """Streams as queues. Nothing in them is done before somebody waits for it; then other work may be done too."""

    random: Random
    queues: dict[int, deque[tuple[str, Any]]] = field(default_factory=dict)
    told: dict[int, int] = field(default_factory=dict)
    """Event → how often it was recorded."""
    come: dict[int, int] = field(default_factory=dict)
    calls: list[tuple[str, int]] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)
    handles: int = 0
    lock: RLock = field(default_factory=RLock)

    def stream(self) -> int:
        self.handles += 1
        self.queues[self.handles] = deque()
        return self.handles

    lasting_stream = stream

    def event(self) -> int:
        self.handles += 1
        self.told[self.handles] = self.come[self.handles] = 0
        return self.handles

    def pinned(self, nbytes: int) -> int:
        block = ctypes.create_string_buffer(nbytes)
        self.kept.append(block)
        return ctypes.addressof(block)

    def record(self, event: int, stream: int) -> None:
        with self.lock:
            self.told[event] += 1
            self.queues[stream].append(("record", (event, self.told[event])))

    def wait(self, stream: int, event: int) -> None:
        with self.lock:
            self.calls.append(("wait", event))
            self.queues[stream].append(("wait", (event, self.told[event])))

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        self.ask(stream, lambda: ctypes.memmove(target, source, nbytes))

    def ask(self, stream: int, work: Callable[[], Any]) -> None:
        with self.lock:
            self.queues[stream].append(("do", work))

    def has_come(self, event: int) -> bool:
        with self.lock:
            self._dawdle()
            return self.come[event] >= self.told[event]

    def settle(self, event: int) -> None:
        with self.lock:
            self.calls.append(("settle", event))
            self._dawdle()
            while self.come[event] < self.told[event]:
                self._step(self._stream_of(event, self.told[event]))

    def finish(self, stream: int) -> None:
        with self.lock:
            self.calls.append(("finish", stream))
            while self.queues[stream]:
                self._step(stream)

    def _dawdle(self) -> None:
        """Do something that nobody asked about."""
        for _ in range(self.random.randrange(3)):
            busy = [stream for stream, queue in self.queues.items() if queue]
            if busy:
                self._step(self.random.choice(busy))

    def _stream_of(self, event: int, generation: int) -> int:
        return next(s for s, queue in self.queues.items() if ("record", (event, generation)) in queue)

    def _step(self, stream: int) -> None:
        kind, what = self.queues[stream][0]
        if kind == "wait" and self.come[what[0]] < what[1]:
            self._step(self._stream_of(*what))
            return
        self.queues[stream].popleft()
        if kind == "do":
            what()
        elif kind == "record":
            self.come[what[0]] = what[1]


class LateMemory(StreamMemory):
    """A device's memory in the host's: new blocks hold no zeros by chance."""

    device_type = "cpu"

    def allocate(self, nbytes: int) -> Any:
        block = HostBlock(nbytes)
        ctypes.memset(block.address, 0x5A, nbytes)
        return block

    def copy_in(self, target: int, source: int, nbytes: int) -> None:
        ctypes.memmove(target, source, nbytes)

    def copy_out(self, target: int, source: int, nbytes: int) -> None:
        ctypes.memmove(target, source, nbytes)


class LateSession:
    """A partition's session on a stream of the device's."""

    def __init__(self, session: Any, memory: LateMemory) -> None:
        self._session, self._memory = session, memory

    def run_with_iobinding(self, binding: Any, run_options: Any) -> None:
        """Ask for it: with these options ONNX Runtime does not wait."""
        assert run_options.get_run_config_entry("disable_synchronize_execution_providers") == "1"
        driver: Any = self._memory.driver
        driver.ask(self._memory.compute, lambda: self._session.run_with_iobinding(binding, None))


def noise(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Of a standard normal distribution."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32)
