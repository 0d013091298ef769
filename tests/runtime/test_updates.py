"""Tables that are states, cut anywhere: every run gives what the uncut model gives of the content before it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import hetpart
from tests.runtime.models import assert_same, model, plain

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, LOOKED, WIDTH, MOST_STEPS, RUNS = 8, 3, 2, 5, 3


@dataclass
class Drawing:
    """A graph under way: a table, what is looked up in it, and what comes of that."""

    draw: Callable[[st.SearchStrategy[Any]], Any]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    values: list[str] = field(default_factory=lambda: ["x"])
    """All of ``LOOKED`` rows."""

    def add(self, op_type: str, inputs: list[str], output: str = "") -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [output or f"{name}.out"], name=name))
        return output or f"{name}.out"

    def step(self) -> None:
        kind = self.draw(st.sampled_from(["look", "look", "unary", "binary", "whole"]))
        if kind == "look":
            self.values.append(self.add("Gather", ["table", "looked"]))
        elif kind == "whole":
            self.values.append(self.add("Gather", [self.add("Neg", ["table"]), "looked"]))
        elif kind == "unary":
            self.values.append(self.add("Abs", [self.pick()]))
        else:
            self.values.append(self.add("Sub", [self.pick(), self.pick()]))

    def pick(self) -> str:
        return self.draw(st.sampled_from(self.values))


@st.composite
def updates(draw: st.DrawFn) -> onnx.ModelProto:
    """A model that overwrites rows of its table."""
    drawing = Drawing(draw)
    for _ in range(draw(st.integers(0, MOST_STEPS))):
        drawing.step()
    drawing.add("ScatterND", ["table", "at", drawing.pick()], "table_out")
    if draw(st.booleans()):
        drawing.values.append(drawing.add("Gather", ["table_out", "looked"]))
    for _ in range(draw(st.integers(0, 2))):
        drawing.step()
    shapes = {"table": [ROWS, WIDTH], "table_out": [ROWS, WIDTH]}
    inputs = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, shapes.get(n, [LOOKED, WIDTH])) for n in ("table", "x")
    ]
    inputs.append(helper.make_tensor_value_info("at", TensorProto.INT64, [LOOKED, 1]))
    inputs.append(helper.make_tensor_value_info("looked", TensorProto.INT64, [LOOKED]))
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes.get(name, [LOOKED, WIDTH]))
        for name in ("table_out", *drawing.values[1:])
    ]
    graph = helper.make_graph(drawing.nodes, "updates", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def feeds(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal((LOOKED, WIDTH), np.float32),
        "at": rng.permutation(ROWS)[:LOOKED, None],
        "looked": rng.integers(0, ROWS, LOOKED),
    }


def bundle_of(proto: onnx.ModelProto, accelerated: set[str]) -> Any:
    """With a budget of what the plan says it takes, and not a byte more."""
    pins = [f"node:{node.name}={'cuda' if node.name in accelerated else 'cpu'}" for node in proto.graph.node]
    bundle = hetpart.partition(proto, hardware="emulated", pin=pins, state="table=table_out").bundle()
    plan = bundle.plan
    devices = tuple(replace(use, budget_bytes=use.peak_bytes) for use in plan.devices)
    return replace(bundle, plan=replace(plan, devices=devices))


def assert_updated(proto: onnx.ModelProto, bundle: Any, *, overlap: bool) -> None:
    uncut, table = plain(proto), np.zeros((ROWS, WIDTH), np.float32)
    names = [output.name for output in proto.graph.output]
    with hetpart.Session(bundle, emulate=True, optimize=False, threads=1, overlap=overlap) as session:
        assert session.state().nbytes <= sum(use.state_bytes for use in bundle.plan.devices)
        for seed in range(RUNS):
            expected = uncut.run(names, feeds(seed) | {"table": table})
            assert_same(session.run(names, feeds(seed)), expected)
            table = expected[0]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(proto=updates(), data=st.data())
def test_tables_are_updated_as_the_plan_counts(proto: onnx.ModelProto, data: st.DataObject) -> None:
    """Whatever reads a table on another device than its update's reads a copy."""
    accelerated = data.draw(st.sets(st.sampled_from([node.name for node in proto.graph.node])))
    assert_updated(proto, bundle_of(proto, accelerated), overlap=data.draw(st.booleans()))


APART = model(f"""apart (float[{ROWS},{WIDTH}] table, int64[{LOOKED},1] at, int64[{LOOKED}] looked,
    float[{LOOKED},{WIDTH}] x) => (float[{ROWS},{WIDTH}] table_out, float[{LOOKED},{WIDTH}] y)
{{
    [look] before = Gather(table, looked)
    [far] changed = Sub(before, x)
    [set] table_out = ScatterND(table, at, changed)
    [after] y = Gather(table_out, looked)
}}""")


def test_a_lookup_and_the_update_that_waits_for_it_share_a_block_in_partitions_of_their_own() -> None:
    for accelerated in ({"far"}, {"look", "set", "after"}):
        bundle = bundle_of(APART, accelerated)
        table_bytes = ROWS * WIDTH * 4
        assert sum(use.state_bytes for use in bundle.plan.devices) == table_bytes
        assert len({part.id for part in bundle.plan.partitions if "table" in part.inputs}) == 2
        for overlap in (False, True):
            with hetpart.Session(bundle, emulate=True, overlap=overlap) as session:
                assert session.state().nbytes == table_bytes
            assert_updated(APART, bundle, overlap=overlap)
