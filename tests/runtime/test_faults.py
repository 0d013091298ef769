"""Memory that runs out, sessions that cannot be made, Ctrl-C while they are: an end soon, and the next call works."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any

import numpy as np
import onnxruntime
import pytest

import hetpart
from hetpart.errors import ExecutionError
from hetpart.runtime.loads import Loads, load_all
from tests.runtime.models import assert_same, cut, model, placed, plain

SOON = 10.0
"""Seconds after which a test gives up waiting. None of them waits so long unless something hangs."""

GROWS = model("""grows (float[4] x, int64[1] n) => (float[N] y, float[4] z) {
    [fill] f = ConstantOfShape(n)
    [many] y = Neg(f)
    [host] h = Exp(x)
    [far] z = Abs(h)
}""")
X = np.array([1, -2, 3, -4], np.float32)


@pytest.mark.parametrize("accelerated", [("many", "far"), ("fill", "many", "host", "far")])
@pytest.mark.parametrize("overlap", [False, True])
def test_a_kernel_that_gets_no_memory_ends_the_run_alone(accelerated: tuple[str, ...], overlap: bool) -> None:
    with cut(GROWS, accelerated, overlap=overlap) as session:
        for _ in range(2):
            with pytest.raises(ExecutionError, match=r"partition \d on \S+ failed .*'fill'") as failed:
                session.run(None, {"x": X, "n": np.array([2**60])})
            assert "memory ran out" in failed.value.hint
            small = {"x": X, "n": np.array([3])}
            assert_same(session.run(None, small), plain(GROWS).run(None, small))


@dataclass
class _Options:
    """Stands for a session's options: whoever makes it waits until it is told to stop."""

    told: threading.Event = field(default_factory=threading.Event)

    def set_load_cancellation_flag(self, stop: bool, /) -> None:
        assert stop
        self.told.set()


@dataclass
class _Makes:
    """Sessions that are made two at a time: none is ever done, and one of the first two fails when both are begun."""

    failing: int | None
    begun: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    both: threading.Barrier = field(default_factory=lambda: threading.Barrier(2))

    def make(self, place: int, loads: Loads) -> Any:
        options = _Options()
        loads.begin(options)
        self.begun.append(place)
        if place < 2:
            self.both.wait(SOON)
        if place == self.failing:
            raise ZeroDivisionError(f"session {place}")
        if self.failing is None and place == 0:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        assert options.told.wait(SOON)
        self.ended.append(place)
        raise RuntimeError("told to stop")


@pytest.mark.parametrize(
    ("failing", "raised"), [(0, ZeroDivisionError), (1, ZeroDivisionError), (None, KeyboardInterrupt)]
)
def test_where_one_session_fails_or_ctrl_c_comes_the_others_end(
    monkeypatch: pytest.MonkeyPatch, failing: int | None, raised: type[BaseException]
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    makes, begin = _Makes(failing), monotonic()
    with pytest.raises(raised):
        load_all(5, makes.make)
    assert monotonic() - begin < SOON / 2
    assert {0, 1} <= set(makes.begun) <= {0, 1, 2}, "the thread of the one that failed may have gone on to the next"
    while set(makes.ended) != set(makes.begun) - {failing} and monotonic() - begin < SOON / 2:
        sleep(0.01)  # Python waits for no thread in whose start Ctrl-C came: it ends a moment later
    assert set(makes.ended) == set(makes.begun) - {failing}


def test_onnxruntime_stops_loading_when_it_is_told() -> None:
    loads, options = Loads(), onnxruntime.SessionOptions()
    loads.stop()
    loads.begin(options)
    with pytest.raises(Exception, match=r"(?i)cancel"):
        onnxruntime.InferenceSession(GROWS.SerializeToString(), options, providers=["CPUExecutionProvider"])


def test_a_partition_that_cannot_be_loaded_is_named_and_the_bundle_can_be_opened_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whichever it is."""
    bundle = placed(GROWS, ("many", "far")).bundle()
    feed = {"x": X, "n": np.array([2])}
    real = onnxruntime.InferenceSession
    for place in range(len(bundle.plan.partitions)):
        with monkeypatch.context() as patch:

            def refusing(model: bytes, *args: Any, broken: bytes = bundle.models[place], **options: Any) -> Any:
                if model == broken:
                    raise RuntimeError("no memory for its weights")
                return real(model, *args, **options)

            patch.setattr(onnxruntime, "InferenceSession", refusing)
            with pytest.raises(ExecutionError, match=rf"cannot load partition {place} .*no memory for its weights"):
                hetpart.Session(bundle, emulate=True)
        with hetpart.Session(bundle, emulate=True, optimize=False) as session:
            assert_same(session.run(None, feed), plain(GROWS).run(None, feed))
