"""What moves between devices, and where it lies meanwhile."""

from __future__ import annotations

import ctypes
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hetpart
from hetpart.plan.model import Plan, ValueForm
from hetpart.runtime.frame import Frame
from tests.runtime.graphs import feeds, models
from tests.runtime.models import assert_same, cut, model, plain

GARBAGE = 0xFF
"""Four of them are a NaN."""


@dataclass
class Poisoner:
    """Stands in for a partition's session: before it runs, every byte of the arenas that holds no value is spoilt."""

    session: Any
    frame: Frame
    step: int

    def run_with_iobinding(self, *args: Any) -> Any:
        for device, block in self.frame.blocks.items():
            free = np.ones(self.frame.layout.arena_bytes(device), bool)
            for buffer in self.frame.layout.plan.buffers:
                if buffer.device == device and buffer.first <= self.step <= buffer.last:
                    free[buffer.offset : buffer.offset + buffer.nbytes] = False
            arena = np.frombuffer((ctypes.c_ubyte * len(free)).from_address(block.address), np.uint8)
            arena[free] = GARBAGE
        return self.session.run_with_iobinding(*args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)


def poison(session: hetpart.Session) -> None:
    executor = session._own_executor()
    assert not executor.overlaps
    frame = executor.frame
    for step, stage in enumerate(frame.stages):
        stage.session = Poisoner(stage.session, frame, step)


def assert_moved_as_planned(session: hetpart.Session) -> None:
    """Each value at most once to each device, all that the plan says, in sizes that are right where they are known."""
    plan = session.plan
    planned = Counter((copy.value, copy.source, copy.target) for copy in plan.transfers)
    assert set(planned.values()) <= {1}
    assert len({(copy.value, copy.target) for copy in plan.transfers}) == len(plan.transfers)
    assert Counter(direction for direction, _ in session.last_copies()) == Counter(
        f"{copy.source}->{copy.target}" for copy in plan.transfers
    )
    assert sum(n for _, n in session.last_copies()) == sum(copy.nbytes for copy in plan.transfers)


def assert_moves_are_needed(plan: Plan, graph: onnx.GraphProto) -> None:
    """By the graph alone: a copy for every (value, device) that reads it and did not make it, and no other."""
    device = {decision.op: decision.device for decision in plan.decisions}
    made = {name: device[node.name] for node in graph.node for name in node.output if name}
    made |= {value.name: "cpu" for value in graph.input}
    reads = {(name, device[node.name]) for node in graph.node for name in node.input if name in made}
    reads |= {(value.name, "cpu") for value in graph.output}
    needed = {(name, made[name], where) for name, where in reads if made[name] != where}
    assert {(copy.value, copy.source, copy.target) for copy in plan.transfers} == needed


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(proto=models(), data=st.data())
def test_values_are_whole_until_their_last_reader_ran(proto: onnx.ModelProto, data: st.DataObject) -> None:
    accelerated = data.draw(st.sets(st.sampled_from([node.name for node in proto.graph.node])))
    with cut(proto, accelerated, overlap=False) as session:
        poison(session)
        for seed in range(2):
            assert_same(session.run(None, feeds(proto, seed)), plain(proto).run(None, feeds(proto, seed)))
            assert_moved_as_planned(session)
        assert_moves_are_needed(session.plan, proto.graph)


def test_the_poison_is_deadly() -> None:
    """A plan whose buffers are let go too early is found out by the test above."""
    proto = model("g (float[8] x) => (float[8] z) { [a] a = Neg(x) [b] b = Exp(a) [c] z = Add(a, b) }")
    with cut(proto, ("b",), overlap=False) as session:
        assert any(buffer.value == "a" and buffer.last > 0 for buffer in session.plan.buffers)
        for buffer in session.plan.buffers:
            object.__setattr__(buffer, "last", buffer.first)
        poison(session)
        (result,) = session.run(None, {"x": np.ones(8, np.float32)})
    assert np.isnan(result).any()


def test_a_value_read_often_moves_once() -> None:
    proto = model("""g (float[8] x) => (float[8] z) {
        [a] a = Neg(x) [b] b = Exp(a) [c] c = Abs(a) [d] d = Add(b, c) [e] e = Neg(d)
        [f] f = Mul(e, a) [h] z = Add(f, d)
    }""")
    with cut(proto, ("b", "c", "d", "f", "h")) as session:
        session.run(None, {"x": np.ones(8, np.float32)})
        moved = Counter((copy.value, copy.target) for copy in session.plan.transfers)
        assert moved == {("a", "cuda:0"): 1, ("d", "cpu"): 1, ("e", "cuda:0"): 1, ("z", "cpu"): 1}
        assert_moved_as_planned(session)


HOST_OPERANDS = model(
    """g (float[4,6] x, int64[2] shape, float[2] y) => (float[N,M] z, int64[2] s, float[2] w) <int64[2] two = {2, 2}> {
    [neg] n = Neg(x)
    [reshape] r = Reshape(n, shape)
    [shapeof] s = Shape(r)
    [double] d = Add(s, s)
    [half] h = Div(d, two)
    [back] b = Reshape(x, h)
    [add] z = Add(r, b)
    [w] w = Neg(y)
}"""
)
HOST_FEED = {
    "x": np.arange(24, dtype=np.float32).reshape(4, 6),
    "shape": np.array([3, 8]),
    "y": np.ones(2, np.float32),
}


def test_what_kernels_read_from_the_host_is_bound_there() -> None:
    """CUDA's Reshape reads its shape from host memory, and Shape leaves its result there."""
    with cut(HOST_OPERANDS, ("neg", "reshape", "shapeof", "back", "add"), hardware="l4", overlap=False) as session:
        poison(session)
        assert_same(session.run(None, HOST_FEED), plain(HOST_OPERANDS).run(None, HOST_FEED))
        partitions = [p for p in session.plan.partitions if p.device == "cuda:0"]
        assert {name for p in partitions for name in p.host_inputs} == {"shape", "h"}
        assert {name for p in partitions for name in p.host_outputs} == {"s"}
        moved = {(copy.value, copy.target) for copy in session.plan.transfers}
        assert moved == {("x", "cuda:0"), ("z", "cpu")}
        assert_moved_as_planned(session)


@pytest.mark.parametrize("hardware", ["l4", "h100+epyc", "emulated"])
def test_host_operands_wherever_the_ops_run(hardware: str) -> None:
    expected = plain(HOST_OPERANDS).run(None, HOST_FEED)
    for seed in range(12):
        partitioned = hetpart.partition(HOST_OPERANDS, hardware=hardware, placement=f"random:{seed}")
        with partitioned.session(emulate=True, overlap=False) as session:
            poison(session)
            assert_same(session.run(None, HOST_FEED), expected)
            dynamic = {spec.name for spec in session.plan.values if spec.form is ValueForm.DYNAMIC}
            assert {buffer.value for buffer in session.plan.buffers}.isdisjoint(dynamic)
