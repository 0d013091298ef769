"""If, Loop and Scan are one op each; what their bodies read from around them is an input of that op."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import hetpart
from hetpart.graph.from_onnx import import_onnx
from hetpart.graph.ir import Graph
from tests.graph.models import assert_read_as_it_is, every_value, from_text, same

HEAD = """<ir_version: 9, opset_import: ["": 18]> g"""
X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)

LOOP = f"""{HEAD} (float[n, 4] x, int64 turns) => (float[n, 4] y, float[t, n, 4] all) <float[4, 4] w, bool go = {{1}}>
    {{ outer = Neg (x)
       y, all = Loop (turns, go, x) <body = b (int64 i, bool c, float[p, q] state)
         => (bool c_out, float[p, q] next, float[p, q] seen) {{
         m = MatMul (state, w)  next = Add (m, outer)  seen = Tanh (next)  c_out = Identity (c) }}> }}"""
GROWING = f"""{HEAD} (float[n, 4] x, int64 turns) => (float[m, 4] y) <bool go = {{1}}>
    {{ y = Loop (turns, go, x) <body = b (int64 i, bool c, float[p, q] state) => (bool c_out, float[r, q] next) {{
         next = Concat <axis = 0> (state, x)  c_out = Identity (c) }}> }}"""
SCAN = f"""{HEAD} (float[n, 4] x) => (float[4] y, float[n, 4] all) <float[4] start = {{0, 0, 0, 0}}, float[4] scale>
    {{ y, all = Scan <num_scan_inputs = 1, body = b (float[4] state, float[4] row) => (float[4] next, float[4] seen) {{
         next = Add (state, row)  seen = Mul (next, scale) }}> (start, x) }}"""
NESTED = f"""{HEAD} (float[n, 4] x, int64 turns, bool c) => (float[n, 4] y) <float[4, 4] w, bool go = {{1}}>
    {{ a = Relu (x)
       y = If (c) <
         then_branch = t () => (float[n, 4] u) {{
           u = Loop (turns, go, x) <body = b (int64 i, bool g, float[n, 4] state) => (bool g_out, float[n, 4] next) {{
             f = Cast <to = 1> (i)  k = Less (f, half)  half = Constant <value_float = 0.5> ()
             next = If (k) <then_branch = tt () => (float[n, 4] p) {{ p = Add (state, a) }},
                            else_branch = ee () => (float[n, 4] q) {{ q = MatMul (state, w) }}>
             g_out = Identity (g) }}> }},
         else_branch = e () => (float[n, 4] v) {{ v = Neg (a) }}> }}"""
SHADOW = f"""{HEAD} (float[n, 4] x, bool c) => (float[n, 4] y, float[4] w) <float[4] w>
    {{ y = If (c) <then_branch = t () => (float[n, 4] u) {{ u = Add (x, w) }},
                   else_branch = e () => (float[n, 4] v) {{ v = Mul (x, w) }}> }}"""
SHAPES = f"""{HEAD} (float[n, 4] x, bool c) => (float[a, b] y)
    {{ s = Shape (x)  y = If (c) <
        then_branch = t () => (float[a, b] u) {{ u = Expand (one, s)  one = Constant <value_float = 1.0> () }},
        else_branch = e () => (float[a, b] v) {{ z = ConstantOfShape (s)  v = Add (z, x) }}> }}"""
TURNS = np.array(3)
CASES = {
    "a loop": (LOOP, {"x": X, "turns": TURNS}, ["Neg", "Loop"], [["outer", "w"]]),
    "a loop whose state grows": (GROWING, {"x": X, "turns": TURNS}, ["Loop"], [["x"]]),
    "a scan": (SCAN, {"x": X}, ["Scan"], [["scale"]]),
    "nested": (NESTED, {"x": X, "turns": TURNS, "c": np.array(True)}, ["Relu", "If"], [["turns", "go", "x", "a", "w"]]),
    "nested, the other branch": (
        NESTED, {"x": X, "turns": TURNS, "c": np.array(False)}, ["Relu", "If"], [["turns", "go", "x", "a", "w"]]),
    "a weight that is returned": (SHADOW, {"x": X, "c": np.array(False)}, ["If", "Identity"], [["x", "w__weight"]]),
    "a folded shape": (SHAPES, {"x": X, "c": np.array(True)}, ["If"], [["s", "x"]]),
}  # fmt: skip


def sorted_bodies(text: str) -> onnx.ModelProto:
    """The text with constants first in every body, as the standard wants them."""
    model = from_text(text)

    def put_first(graph: onnx.GraphProto) -> None:
        nodes = sorted(graph.node, key=lambda node: node.op_type != "Constant")
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    put_first(attribute.g)

    put_first(model.graph)
    return model


@pytest.mark.parametrize(("text", "feeds", "ops", "captured"), CASES.values(), ids=CASES)
def test_an_op_with_bodies_is_one_op_that_reads_what_they_read(
    text: str, feeds: dict[str, np.ndarray], ops: list[str], captured: list[list[str]]
) -> None:
    graph = assert_read_as_it_is(sorted_bodies(text), feeds, {"n": 2}).graph
    assert [op.op_type for op in graph.ops] == ops
    found = [sorted(graph.values[value].name for value in op.captures) for op in graph.ops if op.bodies]
    assert found == [sorted(names) for names in captured]


@pytest.mark.parametrize(("text", "feeds"), [case[:2] for case in CASES.values()], ids=CASES)
@pytest.mark.parametrize("seed", [0, 1])
def test_captured_values_cross_devices(text: str, feeds: dict[str, np.ndarray], seed: int) -> None:
    model = sorted_bodies(text)
    plain = hetpart.partition(model, shape={"n": 2}, hardware="emulated", placement="all-cpu")
    cut = hetpart.partition(model, shape={"n": 2}, hardware="emulated", placement=f"random:{seed}")
    with plain.session() as one, cut.session(emulate=True) as other:
        same(other.run(None, feeds), one.run(None, feeds))


def shapes_in(graph: Graph) -> dict[str, object]:
    found = {value.name: value.shape for value in graph.values}
    for op in graph.ops:
        for inner in op.bodies:
            found |= shapes_in(inner)
    return found


def test_a_state_that_every_turn_keeps_has_its_shape() -> None:
    shapes = shapes_in(import_onnx(from_text(LOOP), {"n": 2}).graph)
    assert shapes["y"] == shapes["state"] == shapes["m"] == shapes["next"] == (2, 4)
    assert shapes["all"] == (None, 2, 4)


def test_a_loop_of_no_turns_returns_its_state_and_an_empty_history() -> None:
    imported = import_onnx(from_text(LOOP), {"n": 2})
    found = every_value(imported, {"x": X, "turns": np.array(0)})
    same(found["y"], X)
    assert found["all"].shape == (0, 2, 4)


def test_a_state_that_changes_has_none() -> None:
    shapes = shapes_in(import_onnx(from_text(GROWING), {"n": 2}).graph)
    assert shapes["y"] is None or None in shapes["y"]


def test_bodies_have_values_of_their_own_and_those_they_capture() -> None:
    graph = import_onnx(sorted_bodies(NESTED), {"n": 2}).graph
    (branch, other) = graph.ops[1].bodies
    assert [op.op_type for op in branch.ops] == ["Loop"]
    assert {branch.values[value].name for value in branch.inputs} == {"turns", "go", "x", "a", "w"}
    assert [op.op_type for op in other.ops] == ["Neg"]
    (turn,) = branch.ops[0].bodies
    assert {op.op_type for op in turn.ops} == {"Constant", "Cast", "Less", "If", "Identity"}
    assert shapes_in(turn)["a"] == (2, 4)


def test_optional_and_sequence_values_keep_their_kind() -> None:
    text = f"""{HEAD} (float[4, 6] x, seq(float[2, 6]) given) => (float[a, 6] y, int64 n)
        {{ s = SplitToSequence <axis = 0> (x)  at = Constant <value_int = 0> ()  e = SequenceAt (given, at)
           u = SequenceInsert (s, e)  y = ConcatFromSequence <axis = 0> (u)  n = SequenceLength (u) }}"""
    feeds = {"x": np.ones((4, 6), np.float32), "given": [np.zeros((2, 6), np.float32)]}
    graph = assert_read_as_it_is(from_text(text), feeds).graph
    assert {value.name: value.kind for value in graph.values if value.kind != "tensor"} == {
        "given": "sequence", "s": "sequence", "u": "sequence",
    }  # fmt: skip
    assert {graph.value_named(name).dtype for name in ("given", "s", "u", "y")} == {"float32"}


def test_an_optional_input_keeps_its_kind() -> None:
    text = f"""{HEAD} (optional(float[3]) maybe, float[3] x) => (bool has, float[3] y)
        {{ has = OptionalHasElement (maybe)  y = Relu (x) }}"""
    x = np.ones(3, np.float32)
    graph = assert_read_as_it_is(from_text(text), {"maybe": x, "x": x}).graph
    assert graph.value_named("maybe").kind == "optional"
    assert graph.value_named("maybe").dtype == "float32"
