"""Sessions whose lanes work at the same time: answers, faults and what is left behind."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from threading import Event, Thread
from time import monotonic
from typing import Any
from weakref import ref

import numpy as np
import onnx
import onnxruntime
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hetpart
from hetpart.errors import ExecutionError, InvalidOptionError
from hetpart.runtime.straight import task_functions
from hetpart.runtime.transport import HostMemory, LinkedMemory
from tests.runtime.graphs import feeds, models
from tests.runtime.models import assert_same, cut, model, plain
from tests.runtime.test_transfers import assert_moved_as_planned

SOON = 10.0


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(proto=models(), data=st.data())
def test_results_are_those_of_the_uncut_model(proto: onnx.ModelProto, data: st.DataObject) -> None:
    accelerated = data.draw(st.sets(st.sampled_from([node.name for node in proto.graph.node])))
    with cut(proto, accelerated, overlap=True) as session:
        for seed in range(4):
            assert_same(session.run(None, feeds(proto, seed)), plain(proto).run(None, feeds(proto, seed)))
            assert_moved_as_planned(session)


BRANCHES = model("""branches (float[1000] x, int64[1] at, int64[1] there) => (float[1000] z, float[1] p, float[1] q) {
    [a] a = Neg(x) [b] b = Exp(a) [c] c = Abs(b) [host_pick] p = Gather(c, at)
    [d] d = Exp(x) [e] e = Neg(d) [f] f = Abs(e) [far_pick] q = Gather(f, there)
    [z] z = Add(c, f)
}""")
FAR = ("d", "e", "f", "far_pick")
X = np.linspace(-1, 1, 1000, dtype=np.float32)
FEED = {"x": X, "at": np.array([3]), "there": np.array([5])}
FAULTS = {"at": ("cpu", "host_pick"), "there": ("cuda:0", "far_pick")}


@pytest.mark.parametrize("operand", FAULTS)
def test_a_failing_kernel_is_named_and_the_next_run_works(operand: str) -> None:
    device, op = FAULTS[operand]
    with cut(BRANCHES, FAR, overlap=True) as session:
        for _ in range(20):
            with pytest.raises(ExecutionError, match=rf"partition \d on {device} failed .*{op}") as failed:
                session.run(None, FEED | {operand: np.array([1000])})
            assert "terminate" not in str(failed.value)
            assert session.last_copies() == ()
            assert_same(session.run(None, FEED), plain(BRANCHES).run(None, FEED))


def _fail(*_: Any) -> None:
    raise MemoryError("nothing left")


def places_of_faults(session: hetpart.Session) -> list[tuple[str, Callable[[pytest.MonkeyPatch], None]]]:
    """Every copy and partition of a session, and how to make it fail."""
    executor = session._own_executor()
    frame = executor.frame
    found: list[tuple[str, Callable[[pytest.MonkeyPatch], None]]] = []
    for number, move in enumerate(frame.copies):

        def fail_copy(patch: pytest.MonkeyPatch, number: int = number, move: Any = move) -> None:
            copies = [
                replace(move, copy=_fail) if place == number else other for place, other in enumerate(frame.copies)
            ]
            patch.setattr(frame, "copies", copies)
            patch.setattr(executor, "_do", task_functions(frame, executor._graph.tasks))

        found.append((f"the copy of '{move.transfer.value}'", fail_copy))
    for stage in frame.stages:

        def fail_stage(patch: pytest.MonkeyPatch, stage: Any = stage) -> None:
            patch.setattr(stage, "session", _Broken())
            patch.setattr(executor, "_do", task_functions(frame, executor._graph.tasks))

        found.append((f"partition {stage.partition.id} on {stage.partition.device}", fail_stage))
    return found


class _Broken:
    run_with_iobinding = staticmethod(_fail)


@pytest.mark.parametrize("overlap", [False, True])
def test_a_fault_anywhere_is_named_and_the_next_run_works(overlap: bool) -> None:
    """Memory that runs out in each copy and in each partition in turn."""
    expected = plain(BRANCHES).run(None, FEED)
    with cut(BRANCHES, FAR, overlap=overlap) as session:
        places = places_of_faults(session)
        assert len(places) >= 6
        for name, inject in places:
            with pytest.MonkeyPatch.context() as patch:
                inject(patch)
                with pytest.raises(ExecutionError, match=name) as failed:
                    session.run(None, FEED)
                assert "nothing left" in str(failed.value)
                assert failed.value.hint
            assert not session._own_executor().frame.arrays
            assert_same(session.run(None, FEED), expected)


SLOW = model("""slow (float[1000] x, int64 n, int64[1] at, bool on) => (float[1000] z, float[1] q) {
    [loop] z = Loop(n, on, x) <body = body (int64 i, bool c, float[1000] v) => (bool d, float[1000] w) {
        [same] d = Identity(c) [next] w = Cos(v)
    }>
    [pick] q = Gather(x, at)
}""")


def slow_feed(at: int) -> dict[str, np.ndarray]:
    return {"x": X, "n": np.array(2**40), "at": np.array([at]), "on": np.array(True)}


def test_a_failure_in_one_lane_stops_a_long_partition_in_another() -> None:
    with cut(SLOW, ("pick",), overlap=True) as session:
        assert len(session.plan.partitions) == 2
        begin = monotonic()
        with pytest.raises(ExecutionError, match=r"on cuda:0 failed .*pick"):
            session.run(None, slow_feed(1000))
        assert monotonic() - begin < SOON
        (z, _) = session.run(None, slow_feed(3) | {"n": np.array(1)})
        np.testing.assert_allclose(z, np.cos(X), rtol=1e-5)


def test_ctrl_c_stops_a_long_partition() -> None:
    with cut(SLOW, ("pick",), overlap=True) as session:
        session.run(None, slow_feed(3) | {"n": np.array(1)})
        timer = threading.Timer(0.2, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
        timer.start()
        begin = monotonic()
        with pytest.raises(KeyboardInterrupt):
            session.run(None, slow_feed(3))
        assert monotonic() - begin < SOON
        timer.join()
        assert not session._own_executor().frame.arrays
        session.run(None, slow_feed(3) | {"n": np.array(1)})


def test_a_stop_reaches_a_long_copy_between_its_pieces() -> None:
    """A copy that would take hours on its link, beside a partition that fails."""
    proto = model(
        "g (float[100000] x, int64[1] at) => (float[100000] z, float[1] q) { [a] z = Neg(x) [p] q = Gather(x, at) }"
    )
    x = np.ones(100_000, np.float32)
    with cut(proto, ("a",), overlap=True, emulate_link=1000.0) as session:
        begin = monotonic()
        with pytest.raises(ExecutionError, match=r"partition \d on cpu"):
            session.run(None, {"x": x, "at": np.array([10**6])})
        assert monotonic() - begin < SOON
    with cut(proto, ("a",), overlap=True) as session:
        assert_same(session.run(None, {"x": x, "at": np.array([1])}), [-x, x[:1]])


@pytest.mark.parametrize("overlap", [False, True])
def test_options_of_the_caller_end_a_long_copy(overlap: bool) -> None:
    proto = model("g (float[100000] x) => (float[100000] y) { [a] z = Neg(x) [b] y = Abs(z) }")
    options = onnxruntime.RunOptions()
    x = np.ones(100_000, np.float32)
    with cut(proto, ("a",), overlap=overlap, emulate_link=1000.0) as session:
        timer = threading.Timer(0.1, lambda: setattr(options, "terminate", True))
        timer.start()
        begin = monotonic()
        with pytest.raises(ExecutionError, match="the run stops"):
            session.run(None, {"x": x}, options)
        assert monotonic() - begin < SOON
        timer.join()


def test_a_feed_that_goes_away_during_the_run_stays_whole() -> None:
    expected = plain(BRANCHES).run(None, FEED)
    with cut(BRANCHES, FAR, overlap=True) as session:
        feed = {name: np.array(array) for name, array in FEED.items()}
        gone = ref(feed["x"])
        for stage in session._own_executor().frame.stages:
            stage.session = _Clearing(stage.session, feed)
        assert_same(session.run(None, feed), expected)
        assert not feed
        gc.collect()
        assert gone() is None


@dataclass
class _Clearing:
    session: Any
    feed: dict[str, Any]

    def run_with_iobinding(self, *args: Any) -> None:
        self.feed.clear()
        gc.collect()
        self.session.run_with_iobinding(*args)


class _Vanishing(Mapping[str, Any]):
    """Knows of values that are there no more when they are asked for."""

    def __iter__(self) -> Iterator[str]:
        return iter(FEED)

    def __len__(self) -> int:
        return len(FEED)

    def __contains__(self, name: object) -> bool:
        return name in FEED

    def __getitem__(self, name: str) -> Any:
        if name == "x":
            return FEED[name]
        raise OSError("the file is gone")


def test_a_feed_that_cannot_be_read_ends_the_call_alone() -> None:
    with cut(BRANCHES, FAR, overlap=True) as session:
        with pytest.raises(OSError, match="gone"):
            session.run(None, _Vanishing())
        assert_same(session.run(None, FEED), plain(BRANCHES).run(None, FEED))


def test_threads_get_their_own_answers_and_memory_stays_flat() -> None:
    rng = np.random.default_rng(0)
    process = psutil.Process()
    given = [FEED | {"x": rng.standard_normal(1000).astype(np.float32)} for _ in range(8)]
    expected = [plain(BRANCHES).run(None, feed) for feed in given]
    with cut(BRANCHES, FAR, overlap=True) as session, ThreadPoolExecutor(8) as pool:

        def answers(thread: int) -> None:
            for _ in range(60):
                assert_same(session.run(None, given[thread]), expected[thread])

        def all_answers() -> int:
            list(pool.map(answers, range(8)))
            gc.collect()
            return process.memory_info().rss

        held = [all_answers() for _ in range(5)]
        # What every run leaves behind is there in every round; what the allocator keeps for other threads is not.
        assert min(after - before for before, after in pairwise(held)) < 1_000_000


def test_closing_ends_the_threads_and_waits_for_the_run_under_way() -> None:
    before = {*threading.enumerate()}
    session = cut(BRANCHES, FAR, overlap=True)
    started, ended = Event(), []

    def run_until_closed() -> None:
        while True:
            try:
                session.run(None, FEED)
            except ExecutionError as closed:
                ended.append(str(closed))
                return
            started.set()

    threads = [Thread(target=run_until_closed) for _ in range(3)]
    for thread in threads:
        thread.start()
    started.wait(SOON)
    session.close()
    for thread in threads:
        thread.join(SOON)
    assert len(ended) == 3
    assert all("closed" in text for text in ended)
    assert {*threading.enumerate()} <= before


def test_a_plan_of_one_lane_starts_no_thread() -> None:
    before = {*threading.enumerate()}
    for accelerated in ((), [node.name for node in BRANCHES.graph.node]):
        with cut(BRANCHES, accelerated) as session:
            session.run(None, FEED)
            assert {*threading.enumerate()} <= before


def test_lanes_are_used_where_the_plan_promises_a_gain() -> None:
    """Two products of matrices beside each other, or one after the other."""
    beside = model(
        "g (float[512,512] x) => (float[512,512] y, float[512,512] z) { [a] y = MatMul(x, x) [b] z = MatMul(x, x) }"
    )
    in_turn = model("g (float[512,512] x) => (float[512,512] z) { [a] y = MatMul(x, x) [b] z = MatMul(y, y) }")
    x = np.eye(512, dtype=np.float32)
    for proto, overlaps in ((beside, True), (in_turn, False)):
        with cut(proto, ("b",)) as session:
            assert session._own_executor().overlaps == overlaps
            assert_same(session.run(None, {"x": x}), plain(proto).run(None, {"x": x}))
        with cut(proto, ("b",), overlap=False) as session:
            assert not session._own_executor().overlaps


@pytest.mark.parametrize("link", ["12GB/s", 12e9])
def test_an_emulated_link_is_of_accelerators_alone(link: str | float) -> None:
    with cut(BRANCHES, FAR, emulate_link=link) as session:
        memories = session._layout.memories
        assert type(memories["cpu"]) is HostMemory
        assert type(memories["cuda:0"]) is LinkedMemory
        assert session._layout.link == 12e9
        assert_same(session.run(None, FEED), plain(BRANCHES).run(None, FEED))


@pytest.mark.parametrize("link", ["0", "-3GB/s", "fast", "1e99GB/s", 0.0, float("nan"), float("inf")])
def test_a_link_that_is_none_is_refused(link: str | float) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        cut(BRANCHES, FAR, emulate_link=link)
    assert refused.value.hint


def test_a_link_of_devices_that_are_not_emulated_is_refused() -> None:
    partitioned = hetpart.partition(BRANCHES, hardware="emulated", placement="all-cpu")
    with pytest.raises(InvalidOptionError, match="emulated") as refused:
        partitioned.session(emulate_link="12GB/s")
    assert "--emulate" in refused.value.hint


LOOSE_CHAIN = model("""loose (float[1000000] x) => (int64 n) {
    [a] a = NonZero(x) [b] b = Neg(a) [c] c = Abs(b) [d] d = Neg(c) [e] e = Abs(d) [n] n = ReduceSum<keepdims=0>(e)
}""")
"""Values of 8 MB whose size only a run can tell."""


@pytest.mark.parametrize("overlap", [False, True])
def test_values_are_let_go_with_their_last_reader(overlap: bool) -> None:
    """Of the five values and the copies of each, three at most are there at once, and none after the run."""
    x, held = np.ones(1_000_000, np.float32), list[int]()
    with cut(LOOSE_CHAIN, ("b", "d"), overlap=overlap) as session:
        frame = session._own_executor().frame
        for stage in frame.stages:
            stage.session = _Counting(stage.session, frame.arrays, held)
        assert_same(session.run(None, {"x": x}), plain(LOOSE_CHAIN).run(None, {"x": x}))
        assert len(held) == 5
        assert max(held) <= 3

        def resident_after(runs: int) -> int:
            for _ in range(runs):
                session.run(None, {"x": x})
            return psutil.Process().memory_info().rss

        before = resident_after(10)
        assert resident_after(30) - before < 20_000_000


@dataclass
class _Counting:
    session: Any
    arrays: dict[Any, Any]
    held: list[int]

    def run_with_iobinding(self, *args: Any) -> None:
        self.held.append(len(self.arrays))
        self.session.run_with_iobinding(*args)
