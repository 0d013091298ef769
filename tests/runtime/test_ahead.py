"""Work that a CUDA device is asked for ahead: in order on a device as late as can be, and with no wait too many."""

from __future__ import annotations

import sys
from random import Random
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import hetpart
from hetpart.runtime import cuda, cuda_streams, sessions
from hetpart.runtime.ahead import Streams, ask_ahead
from hetpart.runtime.cuda_streams import BLOCKS, CudaDriver, PinnedPool
from hetpart.runtime.executor import Executor
from hetpart.runtime.frame import Layout
from hetpart.runtime.stream_order import StreamOrder, stream_order
from hetpart.runtime.tasks import Task, TaskGraph
from tests.runtime.late import LateDriver, LateMemory, LateSession, noise
from tests.runtime.models import assert_same, cut, model, placed, plain

WIDTH, NODES = 1000, 14
SEEDS = range(12)


def _graph(random: Random, tasks: int) -> tuple[TaskGraph, list[str | None], frozenset[int]]:
    """Tasks of a host and two streams, after tasks by chance."""
    places = [random.choice([None, "one", "one", "two", "two"]) for _ in range(tasks)]
    after = [sorted(random.sample(range(task), min(task, random.randrange(4)))) for task in range(tasks)]
    graph = TaskGraph(tuple(Task(False, t, 0, tuple(firsts)) for t, firsts in enumerate(after)), ("lane",))
    on_streams = [task for task, place in enumerate(places) if place is not None]
    return graph, places, frozenset(random.sample(on_streams, len(on_streams) // 4))


def _certain(graph: TaskGraph, places: list[str | None], settled: frozenset[int], order: StreamOrder) -> nx.DiGraph:
    """What comes before what, whatever device and threads do: a task begins on the host, starts, is done, and ends."""
    known = nx.DiGraph()
    for task, own in enumerate(graph.tasks):
        known.add_edges_from([(("begins", task), ("starts", task)), (("starts", task), ("done", task))])
        held = places[task] is None or task in settled
        known.add_edge(("done" if held else "begins", task), ("ends", task))
        known.add_edges_from((("ends", first), ("begins", task)) for first in own.after)
        known.add_edges_from((("done", first), ("starts", task)) for first in order.waits[task])
    asked = nx.transitive_closure_dag(known)
    for task, place in enumerate(places):
        same = (first for first in range(task) if place is not None and places[first] == place)
        behind = (first for first in same if asked.has_edge(("begins", first), ("begins", task)))
        known.add_edges_from((("done", first), ("starts", task)) for first in behind)
    return nx.transitive_closure_dag(known)


def _is_safe(graph: TaskGraph, places: list[str | None], settled: frozenset[int], order: StreamOrder) -> bool:
    """The host may go on before a task of a stream is done: it needs of it what is there when it ends."""
    known = _certain(graph, places, settled, order)
    return all(
        known.has_edge(("done" if places[task] else "ends", first), ("starts", task))
        for task, own in enumerate(graph.tasks)
        for first in own.after
    )


@pytest.mark.parametrize("seed", range(40))
def test_every_task_starts_behind_those_it_needs_and_no_wait_is_too_many(seed: int) -> None:
    graph, places, settled = _graph(Random(seed), 12)
    order = stream_order(graph, places, settled)
    assert _is_safe(graph, places, settled, order)
    for task, waits in enumerate(order.waits):
        for first in waits:
            assert first in order.recorded
            fewer = tuple(other for other in waits if other != first)
            without = StreamOrder((*order.waits[:task], fewer, *order.waits[task + 1 :]), order.recorded)
            assert not _is_safe(graph, places, settled, without)


def _proto(random: Random) -> onnx.ModelProto:
    names, nodes = ["x", "y"], []
    for number in range(NODES):
        op = random.choice(["Add", "Mul", "Neg", "Sub"])
        inputs = random.sample(names[-5:], 1 if op == "Neg" else 2)
        nodes.append(helper.make_node(op, inputs, [f"v{number}"], name=f"n{number}"))
        names.append(f"v{number}")
    read = {name for node in nodes for name in node.input}
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [WIDTH]) for name in names]
    loose = [tensor for tensor in tensors[2:] if tensor.name not in read]
    graph = helper.make_graph(nodes, "random", [t for t in tensors[:2] if t.name in read], loose)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _late(
    monkeypatch: pytest.MonkeyPatch, session: hetpart.Session, random: Random, *, overlap: bool
) -> tuple[Executor, LateDriver]:
    """The plan of ``session`` with a late device for its accelerator, and copies in many pieces."""
    monkeypatch.setattr(cuda, "_cuda_runtime", lambda: None)
    monkeypatch.setattr(cuda_streams, "CHUNK_BYTES", 1024)
    driver = LateDriver(random)
    memory = LateMemory(0, driver)
    layout = Layout.of(session.plan, emulate=True, own={"cuda:0": memory})
    executor = Executor(layout, session._sessions, overlap=overlap)
    for stage in executor.frame.stages:
        if stage.partition.device == "cuda:0":
            late: Any = LateSession(stage.session, memory)
            stage.session = late
    return executor, driver


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_device_that_is_late_gives_what_the_uncut_model_gives(
    monkeypatch: pytest.MonkeyPatch, seed: int, overlap: bool
) -> None:
    random = Random(seed)
    proto = _proto(random)
    there = random.sample([node.name for node in proto.graph.node], NODES // 2)
    names = [value.name for value in proto.graph.input]
    with cut(proto, there) as session:
        executor, driver = _late(monkeypatch, session, random, overlap=overlap)
        for number in range(4):
            fed = {name: noise((WIDTH,), 2 * number + place) for place, name in enumerate(names)}
            made = executor.run(fed)
            assert_same([made[value.name] for value in proto.graph.output], plain(proto).run(None, fed))
            assert not any(driver.queues.values())
        executor.close()


@pytest.mark.parametrize("overlap", [False, True])
def test_without_its_waits_a_late_device_is_wrong(monkeypatch: pytest.MonkeyPatch, overlap: bool) -> None:
    """So the device above is one that finds what is missing."""
    monkeypatch.setattr("hetpart.runtime.ahead.stream_order", _without_waits)
    wrong = 0
    for seed in SEEDS:
        random = Random(seed)
        proto = _proto(random)
        there = random.sample([node.name for node in proto.graph.node], NODES // 2)
        fed = {value.name: noise((WIDTH,), place) for place, value in enumerate(proto.graph.input)}
        with cut(proto, there) as session:
            executor, _ = _late(monkeypatch, session, random, overlap=overlap)
            made = executor.run(fed)
            executor.close()
        right = plain(proto).run(None, fed)
        same = (np.array_equal(made[v.name], one) for v, one in zip(proto.graph.output, right, strict=True))
        wrong += not all(same)
    assert wrong > len(SEEDS) // 2


def _without_waits(graph: TaskGraph, streams: Any, settled: frozenset[int]) -> StreamOrder:
    order = stream_order(graph, streams, settled)
    return StreamOrder(((),) * len(order.waits), order.recorded)


def test_the_host_waits_for_what_it_reads_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two partitions of the accelerator with one of the host between them: a copy out, and the end of the run."""
    proto = model("""g (float[64] x, float[64] y) => (float[64] w) {
        [a] a = Neg(x) [b] b = Abs(a) [c] c = Neg(b) [d] d = Add(c, y) [w] w = Mul(d, a)
    }""")
    with cut(proto, ("a", "b", "d", "w")) as session:
        executor, driver = _late(monkeypatch, session, Random(0), overlap=False)
        driver.calls.clear()
        executor.run({"x": noise((64,), 0), "y": noise((64,), 1)})
        copies_out = [copy for copy in session.plan.transfers if copy.target == "cpu"]
        settled = [event for call, event in driver.calls if call == "settle"]
        assert len(settled) == len(copies_out), "a copy of one piece each"
        assert [call for call, _ in driver.calls].count("finish") == 3
        waits = sum(call == "wait" for call, _ in driver.calls)
        assert waits <= len(session.plan.transfers) + len(copies_out)


def test_a_failure_leaves_nothing_under_way_and_the_next_run_works(monkeypatch: pytest.MonkeyPatch) -> None:
    proto = model("""g (float[8] x, int64[1] at) => (float[1] z) {
        [a] a = Neg(x) [b] b = Gather(a, at) [c] z = Abs(b)
    }""")
    fed = {"x": noise((8,), 0), "at": np.array([3])}
    with cut(proto, ("a", "c")) as session:
        executor, driver = _late(monkeypatch, session, Random(1), overlap=False)
        with pytest.raises(hetpart.ExecutionError, match="on cpu failed"):
            executor.run({**fed, "at": np.array([9])})
        assert not any(driver.queues.values())
        assert_same(list(executor.run(fed).values()), plain(proto).run(None, fed))


def test_what_a_run_left_under_way_is_over_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does whose caller pressed Ctrl-C twice: its threads go on asking the device for work."""
    proto = model("g (float[4] x) => (float[4] z) { [a] a = Neg(x) [b] b = Abs(a) [c] z = Neg(b) }")
    with cut(proto, ("a", "c")) as session:
        executor, driver = _late(monkeypatch, session, Random(0), overlap=True)
        assert executor._lanes is not None
        done: list[str] = []
        left = SimpleNamespace(ended=False, cancel=lambda: None, enter=lambda *_: None)
        left.wait = lambda: driver.ask(next(iter(driver.queues)), lambda: done.append("late"))
        monkeypatch.setattr(executor._lanes, "_last", left)
        executor.settle()
        assert done == ["late"]
        fed = {"x": noise((4,), 0)}
        assert_same(list(executor.run(fed).values()), plain(proto).run(None, fed))
        executor.close()


def test_pinned_blocks_are_used_again_when_their_copy_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_streams, "CHUNK_BYTES", 8)
    driver = LateDriver(Random(0))
    stream, pool = driver.stream(), PinnedPool(driver)
    asked: list[int] = []
    for number in range(3 * BLOCKS):
        with pool.block() as block:
            driver.ask(stream, lambda number=number: asked.append(number))
            driver.record(block.event, stream)
            block.is_used = True
    assert len(driver.kept) <= BLOCKS
    assert len(asked) >= 2 * BLOCKS, "each but the last that used its block is over"
    with pytest.raises(ZeroDivisionError), pool.block():
        raise ZeroDivisionError
    for _ in range(2 * BLOCKS):
        with pool.block(), pool.block(), pool.block():
            pass
    assert len(driver.kept) <= BLOCKS


def test_where_the_driver_is_missing_every_task_is_waited_for_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    caplog.set_level("INFO")
    proto = model("g (float[4] x) => (float[4] z) { [a] a = Neg(x) [c] z = Abs(a) }")
    ahead = ask_ahead(placed(proto, ("a",), hardware="h100").bundle(), {"runs are recorded": False})
    assert not ahead.memories
    assert "cuda.bindings is not installed" in ahead.why_not
    assert "on cuda:0 is waited for: cuda.bindings is not installed" in caplog.text


OPEN = model("g (float[4] x) => (float[1,m] z, float[4] y) { [a] y = Neg(x) [b] i = NonZero(y) [c] z = Cast<to=1>(i) }")
REFUSED = [
    (("a",), "h100", "overlap is off"),
    (("b",), "h100", "only a run tells the size of"),
    ((), "h100", "no accelerator"),
    (("a",), "emulated", "not CUDA's"),
]


@pytest.mark.parametrize(("there", "hardware", "why"), REFUSED)
def test_what_streams_cannot_keep_in_order_is_waited_for(there: tuple[str, ...], hardware: str, why: str) -> None:
    bundle = placed(OPEN, there, hardware=hardware).bundle()
    ahead = ask_ahead(bundle, {"overlap is off": why == "overlap is off", "runs are recorded": False})
    assert why in ahead.why_not
    assert not ahead.memories
    assert not ahead.streams


def test_an_emulated_plan_has_no_streams() -> None:
    with cut(OPEN, ("a",)) as session:
        assert session.ahead.why_not == "accelerators are emulated"
        session.run(None, {"x": noise((4,), 0)})
        assert session._executor is not None
        assert Streams.of(session._layout, session._executor._graph) is None


class Runtime:
    """What ``cuda.bindings.runtime`` gives back: a status, and what was made."""

    class Status(int):
        name = "cudaErrorUnknown"

    cudaStreamNonBlocking, cudaEventDisableTiming = 1, 2  # noqa: N815

    class cudaMemcpyKind:  # noqa: N801
        cudaMemcpyDefault = 4  # noqa: N815

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.fails = ""

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, *arguments))
            made = (77,) if "Create" in name or name == "cudaHostAlloc" else ()
            return (self.Status(999 if name == self.fails else 0), *made)

        return call


def test_the_driver_calls_the_cuda_runtime_on_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime()
    bindings: Any = type(sys)("cuda.bindings")
    bindings.runtime = runtime
    monkeypatch.setitem(sys.modules, "cuda", type(sys)("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    driver = CudaDriver(2)
    monkeypatch.setattr(cuda_streams, "_LASTING", lasting := {})
    assert (driver.stream(), driver.event(), driver.pinned(64)) == (77, 77, 77)
    driver.record(5, 6)
    driver.wait(6, 5)
    driver.copy(1, 2, 3, 6)
    driver.settle(5)
    driver.finish(6)
    assert driver.has_come(5)
    called = [call for call in runtime.calls if call[0] != "cudaSetDevice"]
    assert called == [
        ("cudaStreamCreateWithFlags", 1), ("cudaEventCreateWithFlags", 2), ("cudaHostAlloc", 64, 0),
        ("cudaEventRecord", 5, 6), ("cudaStreamWaitEvent", 6, 5, 0), ("cudaMemcpyAsync", 1, 2, 3, 4, 6),
        ("cudaEventSynchronize", 5), ("cudaStreamSynchronize", 6), ("cudaEventQuery", 5),
    ]  # fmt: skip
    runtime.fails = "cudaEventRecord"
    with pytest.raises(hetpart.ExecutionError, match="cudaEventRecord failed on cuda:2 with error 999"):
        driver.record(5, 6)
    runtime.fails = ""
    assert driver.lasting_stream() == 77
    del driver
    assert [call[0] for call in runtime.calls[-3:]] == ["cudaFreeHost", "cudaEventDestroy", "cudaStreamDestroy"]
    assert lasting == {2: [77]}
    again = CudaDriver(2)
    made = len(runtime.calls)
    assert again.lasting_stream() == 77
    assert len(runtime.calls) == made, "it is used again"


def test_partitions_on_cuda_compute_on_the_stream_they_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a device on one, and those of the host on none."""
    proto = model("g (float[4] x) => (float[4] z) { [a] a = Neg(x) [b] b = Abs(a) [c] z = Neg(b) }")
    bundle = placed(proto, ("a", "c"), hardware="h100").bundle()
    asked: list[Any] = []
    monkeypatch.setattr(sessions, "open_session", lambda *arguments: asked.append((arguments[0].device, arguments[2])))
    sessions.open_sessions(bundle, sessions.SessionSettings(streams={"cuda:0": 77}), [{}, {}, {}])
    streams = {device: listed[0][1]["user_compute_stream"] for device, listed in asked if device != "cpu"}
    assert streams == {"cuda:0": "77"}
    assert ("cpu", ["CPUExecutionProvider"]) in asked
    assert len(asked) == 3
