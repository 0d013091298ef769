# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""What a run takes on an undisturbed machine, from many runs on a disturbed one: the least of every piece of it.

Where other tenants share a processor's cores, moments without them are shorter than most runs. A run is cut into
pieces of a fraction of a millisecond, and the least that each took in any run is added up: single kernels would find
their operands in a cache by chance and add up to less than any run takes. What the profile itself adds to every node
is measured, on a chain of ops that do next to nothing, and taken off again.
"""

from __future__ import annotations

import ctypes
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from benchmarks.measure import say
from benchmarks.paired_kernels import CLOCK, profile_into, profiled_runs
from hetpart.runtime.sessions import SessionSettings, session_options

PIECE_SECONDS = 250e-6
CHAIN, REPEATS = 64, 400
_CUT_OFF = 0.5 * CLOCK
"""Of every node's time, by the profile's clock, on average."""
_WEIGHTS = ".data"
_POPULATE_READ = 22
"""``MADV_POPULATE_READ`` of Linux 5.14 and later."""

Piece = tuple[str, ...]
"""Names of nodes that run one after the other."""


@dataclass(slots=True)
class Pieces:
    """A model's run, and the least that its pieces took so far."""

    least: dict[Piece, float] = field(default_factory=dict[Piece, float])
    """Seconds by the profile."""

    def add(self, runs: Sequence[Mapping[str, float]]) -> None:
        """More of them: ticks by node, in the order in which they ran."""
        for piece in self.least or _cut(runs):
            taken = min(sum(run.get(name, 0.0) for name in piece) for run in runs)
            self.least[piece] = min(CLOCK * taken, self.least.get(piece, float("inf")))

    def seconds(self, noting: Noting) -> float:
        """Of a run without the profile."""
        nodes = sum(map(len, self.least))
        return sum(self.least.values()) + nodes * (_CUT_OFF - noting.node) + noting.session


def _cut(runs: Sequence[Mapping[str, float]]) -> list[Piece]:
    """The shortest run, in pieces just longer than ``PIECE_SECONDS``; what is left at its end goes with the last."""
    shortest = min(runs, key=lambda run: sum(run.values()))
    pieces: list[list[str]] = [[]]
    for name in shortest:
        if CLOCK * sum(map(shortest.__getitem__, pieces[-1])) >= PIECE_SECONDS:
            pieces.append([])
        pieces[-1].append(name)
    return [tuple(piece) for piece in pieces]


@dataclass(frozen=True, slots=True)
class Noting:
    """What the profile adds to a node, and what a session takes beside its nodes, in seconds."""

    node: float
    session: float

    def least(self, other: Noting | None) -> Noting:
        """Of both, as they are undisturbed."""
        if other is None:
            return self
        return Noting(min(self.node, other.node), min(self.session, other.session))

    @staticmethod
    def of(threads: int) -> Noting:
        """Of sessions with so many threads, now."""
        short, long = _plain(1, threads), _plain(CHAIN, threads)
        node = (long - short) / (CHAIN - 1)
        return Noting(_noted(threads) / CHAIN + _CUT_OFF - node, short - node)


def fetch_mapped_weights() -> None:
    """Let no run wait for a page of a weights' file: a lookup of one row took 5 us more where its page was new.

    Every page of a file that this process has mapped is read where Linux can do so; where it cannot, that is said.
    """
    maps = Path("/proc/self/maps")
    for line in maps.read_text().splitlines() if maps.exists() else ():
        span, *_, name = line.split(maxsplit=5)
        if name.endswith(_WEIGHTS):
            first, behind = (int(address, 16) for address in span.split("-"))
            if ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(behind - first), _POPULATE_READ):
                say(f"{Path(name).name}: not all of it could be read before the runs, which wait for new pages")


def _plain(nodes: int, threads: int) -> float:
    """Seconds of a run of a chain."""
    return _least_wall(_session(nodes, session_options(SessionSettings(threads=threads), None)))


def _noted(threads: int) -> float:
    """Seconds of its kernels by the profile."""
    with tempfile.TemporaryDirectory() as folder:
        options = session_options(SessionSettings(threads=threads), None)
        profile_into(options, Path(folder))
        session = _session(CHAIN, options)
        _least_wall(session)
        runs = profiled_runs(json.loads(Path(session.end_profiling()).read_bytes()))
        return CLOCK * min(sum(run.values()) for run in runs if len(run) == CHAIN)


def _least_wall(session: onnxruntime.InferenceSession) -> float:
    feed = {"x0": np.ones(8, np.float32)}
    return min(_wall(lambda: session.run(None, feed)) for _ in range(REPEATS))


def _wall(run: Callable[[], Any]) -> float:
    began = perf_counter()
    run()
    return perf_counter() - began


def _session(nodes: int, options: onnxruntime.SessionOptions) -> onnxruntime.InferenceSession:
    ops = [helper.make_node("Neg", [f"x{place}"], [f"x{place + 1}"], name=f"n{place}") for place in range(nodes)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8]) for name in ("x0", f"x{nodes}")]
    proto = helper.make_model(
        helper.make_graph(ops, "chain", ends[:1], ends[1:]), opset_imports=[helper.make_opsetid("", 21)], ir_version=10
    )
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
