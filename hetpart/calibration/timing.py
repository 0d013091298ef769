# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""How long probes take at best: they take turns, so that what else the machine does meets all of them alike."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf, prod
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetpart.calibration.models import numbers
from hetpart.runtime.sessions import SessionSettings, require_runtime, session_options

SAMPLE_SECONDS = 3e-4
"""A sample repeats its run for at least so long: the clock's own cost then does not count."""
MOST_REPEATS = 100
FEWEST_ROUNDS = 3
LOOKUPS = 32
"""Sets of rows that a probe looks up in turn: so many lie in no cache."""
TABLE, ROWS = "table", "rows"
MOST_ROWS = 8192
_KERNEL = "_kernel_time"


@dataclass(slots=True)
class Buffers:
    """Memory that all probes share: what one leaves in the caches is as warm as in a model."""

    source: NDArray[np.float32]
    target: NDArray[np.float32]
    table: NDArray[np.float32]
    """Of rows to look up: a file mapped into memory, as the weights of a model are."""
    rows: NDArray[np.int64]
    """Numbers to take row indices from."""

    @staticmethod
    @contextmanager
    def of(elements: int, table_bytes: int) -> Generator[Buffers]:
        """Buffers of ``elements`` floats, and a table; the table's file is sparse and goes when done."""
        with tempfile.TemporaryFile() as file:
            file.truncate(table_bytes)
            table = np.memmap(file, np.float32, "r+", shape=(table_bytes // 4,))
            np.add.reduce(table[::1024])  # read once: no run shall wait for the file system
            rows = np.random.default_rng(0).integers(0, 2**31, LOOKUPS * MOST_ROWS)
            yield Buffers(numbers(elements), np.empty(elements, np.float32), table, rows)


class Probe:
    """A session bound to the shared buffers, and the least seconds one of its runs took."""

    def __init__(self, model: bytes, buffers: Buffers, threads: int) -> None:
        options = session_options(SessionSettings(threads=threads, alone=False), None)
        self._session = require_runtime().InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._chosen: list[NDArray[np.int64]] = []
        looks_up = any(arg.name == ROWS for arg in self._session.get_inputs())
        self._bindings = [self._bound(buffers, turn) for turn in range(LOOKUPS if looks_up else 1)]
        self._next = 0
        self.seconds = inf
        self._repeats = 1
        self.sample()
        self._repeats = max(1, min(MOST_REPEATS, int(SAMPLE_SECONDS / self.sample())))

    def _bound(self, buffers: Buffers, turn: int) -> Any:
        """Inputs one behind the other in the shared buffer; each binding looks up rows of its own."""
        binding, offset = self._session.io_binding(), 0
        inputs = {arg.name: tuple(arg.shape) for arg in self._session.get_inputs()}
        for name, shape in inputs.items():
            if name == ROWS:
                self._chosen.append(buffers.rows[turn * shape[0] :][: shape[0]] % inputs[TABLE][0])
                binding.bind_input(name, "cpu", 0, np.int64, shape, self._chosen[-1].ctypes.data)
                continue
            memory = buffers.table if name == TABLE else buffers.source[offset:]
            assert prod(shape) <= memory.size, "the shared buffer is too small for this probe"
            binding.bind_input(name, "cpu", 0, np.float32, shape, memory.ctypes.data)
            offset += 0 if name == TABLE else prod(shape)
        for arg in self._session.get_outputs():
            binding.bind_output(arg.name, "cpu", 0, np.float32, arg.shape, buffers.target.ctypes.data)
        return binding

    def sample(self) -> float:
        """Seconds of a run now."""
        started = perf_counter()
        for _ in range(self._repeats):
            self._session.run_with_iobinding(self._bindings[self._next])
            self._next = (self._next + 1) % len(self._bindings)
        seconds = (perf_counter() - started) / self._repeats
        self.seconds = min(self.seconds, seconds)
        return seconds


def take_turns(samplers: Sequence[Callable[[], object]], seconds: float) -> None:
    """Call each in turn until ``seconds`` have passed, and each a few times in any case."""
    started, rounds = perf_counter(), 0
    while rounds < FEWEST_ROUNDS or perf_counter() - started < seconds:
        for sample in samplers:
            sample()
        rounds += 1


class Profiled:
    """A session that ONNX Runtime profiles: the time of each kernel, without what reorders its operands."""

    def __init__(self, model: bytes, threads: int) -> None:
        self._folder = tempfile.TemporaryDirectory()
        options = session_options(SessionSettings(threads=threads, alone=False), None)
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(self._folder.name) / "profile")
        self._session = require_runtime().InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._feeds = {arg.name: numbers(*arg.shape) for arg in self._session.get_inputs()}

    def sample(self) -> None:
        """Run once."""
        self._session.run(None, self._feeds)

    def kernels(self) -> dict[str, float]:
        """Least seconds of each kernel, by op type. The session ends with it."""
        events = json.loads(Path(self._session.end_profiling()).read_text())
        self._folder.cleanup()
        least: dict[str, float] = {}
        for event in events:
            if event.get("cat") == "Node" and event["name"].endswith(_KERNEL):
                op_type = event["args"]["op_name"]
                least[op_type] = min(least.get(op_type, inf), event["dur"] * 1e-6)
        return least
