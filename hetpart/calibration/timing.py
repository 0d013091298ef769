# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""How long kernels take at best: sessions bound to memory that all of them share."""

from __future__ import annotations

import json
import tempfile
from bisect import insort
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf, prod
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetpart.calibration.kernels import ROWS, TABLE
from hetpart.calibration.models import numbers
from hetpart.cost_model.detect import cache_bytes
from hetpart.runtime.sessions import SessionSettings, require_runtime, session_options
from hetpart.runtime.shared_threads import share_threads

EVICTING_CACHES = 2
"""What a core's own caches hold is read so often over before a run: in a model, other ops and their weights have passed
through them since an op's operands were made, which lie in the last cache."""
SETTLING = 2
"""Runs after which everything lies in the cache where it stays: weights of megabytes are then read twice as fast."""
KEEPING = 10
"""Runs after which the last cache holds what it keeps of weights: it lets go of others little by little."""
UNSETTLED_SECONDS = 2e-3
"""What takes longer fits in no cache anyway."""
CHOSEN = 2**21
"""Random rows to look up, one behind the other: by the time they come again they lie in no cache."""
FEW_ROWS = 1024
"""Of more, looked up in one run, chance does not decide what they take together."""
TAKING = 2
"""Runs in which a session takes memory: in the first value by value, in the second as the block that it lays out then.
Where a hypervisor maps each page at its first use, a kernel takes up to ten times as long in them."""
_KERNEL = "_kernel_time"
DTYPES: Mapping[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
}
"""Of a session's arguments. The buffers' numbers are ordinary ones in all of them."""


@dataclass(slots=True)
class Buffers:
    """Memory that all probes share: what one leaves in the caches is as warm as in a model."""

    source: NDArray[np.float32]
    target: NDArray[np.float32]
    table: NDArray[np.float32]
    """Of rows to look up: a file mapped into memory, as the weights of a model are."""
    rows: NDArray[np.int64]
    """Numbers to take row indices from."""
    other: NDArray[np.float32]

    def flush(self) -> None:
        """Push what lies in any cache out of it."""
        for memory in (self.source, self.target):
            np.bitwise_or.reduce(memory.view(np.int32))  # whatever lies there

    def evict(self) -> None:
        """Push what lies in the core's own caches out of them."""
        np.add.reduce(self.other)

    @staticmethod
    @contextmanager
    def of(elements: int, table_bytes: int) -> Generator[Buffers]:
        """Buffers of ``elements`` floats, and a table; the table's file is sparse and goes when done."""
        with tempfile.TemporaryFile() as file:
            file.truncate(table_bytes)
            table = np.memmap(file, np.float32, "r+", shape=(table_bytes // 4,))
            np.add.reduce(table[::1024])  # read once: no run shall wait for the file system
            rows = np.random.default_rng(0).integers(0, 2**31, CHOSEN)
            evicting = EVICTING_CACHES * cache_bytes(2) // 4
            yield Buffers(numbers(elements), numbers(elements), table, rows, numbers(evicting))


def _options(threads: int, *, alone: bool = False) -> Any:
    """Several threads are shared by all probes: in a model, they are awake when the next kernel starts.

    ``alone``: with threads of its own, so that the process remains as it is.
    """
    shared = threads > 1 and not alone
    if shared:
        share_threads(threads)
    return session_options(SessionSettings(threads=threads, shared=shared), None)


@dataclass(frozen=True, slots=True)
class Manner:
    """How a probe is run."""

    weighs: bool = False
    """Nearly all that it reads are weights."""
    flushed: bool = False
    """It is run after a flush, too."""
    over: bool = False
    """It writes over its first input."""
    kept: bool = False
    """It tells what of its weights the caches keep when it is repeated."""


PLAINLY = Manner()


@dataclass(slots=True)
class Times:
    """What a probe's runs took in one state of the caches."""

    by_chance: bool = False
    """Which few rows a run looks up decides: a model's run has many such kernels."""
    _known: list[float] = field(default_factory=list[float])

    def add(self, seconds: float) -> None:
        if self.by_chance:
            insort(self._known, seconds)
        else:
            self._known = [min(self.seconds, seconds)]

    @property
    def seconds(self) -> float:
        """The least; of what chance decides, what a quarter of the runs stays below: others may be disturbed."""
        return self._known[len(self._known) // 4] if self._known else inf


class Probe:
    """A session bound to the shared buffers, and the seconds of its runs."""

    def __init__(
        self,
        model: bytes,
        buffers: Buffers,
        threads: int,
        *,
        before: Probe | None = None,
        manner: Manner = PLAINLY,
    ) -> None:
        options = _options(threads)
        self._session = require_runtime().InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._lookups: _Lookups | None = None
        self._binding = self._bound(buffers, over=manner.over)
        self._evict, self._flush = buffers.evict, buffers.flush
        self.before = before or self
        """Runs before each timed run, so that the kernel's code is in the caches."""
        self.manner = manner
        few = self._lookups is not None and len(self._lookups.chosen) <= FEW_ROWS
        self.streamed, self.cool, self.warm, self.far = (Times(by_chance=few) for _ in range(4))
        self.run()

    def _bound(self, buffers: Buffers, *, over: bool) -> Any:
        """Inputs one behind the other in the shared buffer; outputs in another, or ``over`` the first input."""
        target = buffers.source if over else buffers.target
        binding, offset = self._session.io_binding(), 0
        inputs = {arg.name: tuple(arg.shape) for arg in self._session.get_inputs()}
        dtypes = {arg.name: DTYPES[arg.type] for arg in (*self._session.get_inputs(), *self._session.get_outputs())}
        for name, shape in inputs.items():
            if name.startswith(ROWS):
                rows = self._looked_up(buffers, inputs, name)
                binding.bind_input(name, "cpu", 0, np.int64, shape, rows.ctypes.data)
                continue
            memory = buffers.table if name == TABLE else buffers.source[offset:]
            assert prod(shape) <= memory.size, "the shared buffer is too small for this probe"
            binding.bind_input(name, "cpu", 0, dtypes[name], shape, memory.ctypes.data)
            offset += 0 if name == TABLE else prod(shape)
        for arg in self._session.get_outputs():
            binding.bind_output(arg.name, "cpu", 0, dtypes[arg.name], arg.shape, target.ctypes.data)
        return binding

    def _looked_up(self, buffers: Buffers, inputs: Mapping[str, tuple[int, ...]], name: str) -> NDArray[np.int64]:
        """Where the rows of this input are written before every run."""
        names = [other for other in inputs if other.startswith(ROWS)]
        if self._lookups is None:
            chosen = np.zeros(sum(prod(inputs[other]) for other in names), np.int64)
            self._lookups = _Lookups(buffers.rows, chosen, inputs[TABLE][0])
        count = prod(inputs[name])
        return self._lookups.chosen[names.index(name) * count :][:count]

    def run(self) -> None:
        """Run once, untimed."""
        self._timed()

    def sample(self) -> None:
        """Time a run after other data passed through the core's own caches, and one that repeats what was run.

        Before them, one of a probe that weighs: since its last run the others have passed through every cache.
        """
        if self.manner.weighs:
            self.before.run()
            self.streamed.add(self._timed())
        if self.manner.flushed:
            self._flush()
            self.before.run()  # the runtime's own code is as warm as behind the first kernels of a model
            self.far.add(self._timed())
        self._settle()
        self._evict()
        self.before.run()
        self.cool.add(self._timed())
        self._settle()
        self.warm.add(self._timed())

    def _settle(self) -> None:
        short = SETTLING if self.warm.seconds < UNSETTLED_SECONDS else 0
        for _ in range(KEEPING if self.manner.kept else short):
            self.run()

    def _timed(self) -> float:
        """Seconds of a run; what it looks up was never looked up before."""
        if self._lookups is not None:
            self._lookups.advance()
        started = perf_counter()
        self._session.run_with_iobinding(self._binding)
        return perf_counter() - started


@dataclass(slots=True)
class _Lookups:
    """Which rows of a table are looked up next."""

    random: NDArray[np.int64]
    chosen: NDArray[np.int64]
    """Where the session reads them, which other ops have just written in a model."""
    rows: int
    """Of the table."""
    _next: int = 0

    def advance(self) -> None:
        if self._next + len(self.chosen) > len(self.random):
            self._next = 0
        np.remainder(self.random[self._next :][: len(self.chosen)], self.rows, out=self.chosen)
        self._next += len(self.chosen)


class Profiled:
    """A session of one kernel of a kind that ONNX Runtime profiles: its time, without what reorders its operands."""

    def __init__(self, model: bytes, threads: int, evict: Callable[[], object] | None = None) -> None:
        """``evict`` pushes what lies in the core's own caches out of them; without it the session is the only probe."""
        self._evict = evict
        self._folder = tempfile.TemporaryDirectory()
        options = _options(threads, alone=evict is None)
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(self._folder.name) / "profile")
        self._session = require_runtime().InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._feeds = {arg.name: numbers(*arg.shape) for arg in self._session.get_inputs()}
        for _ in range(TAKING):
            self._session.run(None, self._feeds)

    def sample(self) -> None:
        """Run so that all lies in the last cache, then after other data passed through the core's own, and again."""
        self._session.run(None, self._feeds)
        if self._evict is not None:
            self._evict()
        self._session.run(None, self._feeds)
        self._session.run(None, self._feeds)

    def kernels(self) -> tuple[dict[str, float], dict[str, float]]:
        """Least seconds of each kernel by op type, in the cool runs and in the warm. The session ends with it."""
        events = json.loads(Path(self._session.end_profiling()).read_text())
        self._folder.cleanup()
        taken: dict[str, list[float]] = {}
        for event in events:
            if event.get("cat") == "Node" and event["name"].endswith(_KERNEL):
                taken.setdefault(event["args"]["op_name"], []).append(event["dur"] * 1e-6)
        cool, warm = ({name: min(seconds[TAKING + place :: 3]) for name, seconds in taken.items()} for place in (1, 2))
        return cool, warm
