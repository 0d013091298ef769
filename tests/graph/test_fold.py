"""Folded shape arithmetic gives what ONNX Runtime gives, and nothing is folded that a run decides."""

from __future__ import annotations

import random

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from hetpart.errors import InvalidModelError
from hetpart.graph import inference
from hetpart.graph.from_onnx import import_onnx
from hetpart.graph.ir import ValueRole
from tests.graph.models import assert_read_as_it_is, from_text

INTEGERS = ("int64", "int32")
NUMBERS = (0, 1, 2, 3, 4, 5, 7, 8, -1, -2, -3, 64, 127, 1000)


class Chain:
    """A random graph of shape arithmetic: every node takes vectors or scalars that were made before it."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.values: list[tuple[str, np.dtype[np.generic], int]] = []
        """Name, type and length, -1 for a scalar."""

    def constant(self, content: object, dtype: str = "int64") -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(content, dtype), name))
        return name

    def add(self, op_type: str, inputs: list[str], dtype: str, length: int, **attributes: object) -> None:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], **attributes))
        self.values.append((name, np.dtype(dtype), length))

    def any_of(self, *dtypes: str) -> tuple[str, str, int]:
        name, dtype, length = self.rng.choice([value for value in self.values if value[1].name in dtypes])
        return name, dtype.name, length

    def start(self) -> None:
        """Shapes of the inputs, and small constants."""
        for name, rank in (("x", 4), ("w", 2)):
            self.add("Shape", [name], "int64", rank)
        self.add("Size", ["w"], "int64", -1)
        for dtype in (*INTEGERS, "float32", "bool"):
            self.values.append((self.constant(self.rng.choice(NUMBERS), dtype), np.dtype(dtype), -1))
            content = [self.rng.choice(NUMBERS) for _ in range(4)]
            self.values.append((self.constant(content, dtype), np.dtype(dtype), 4))

    def step(self) -> None:
        self.rng.choice(STEPS)(self)

    def model(self) -> onnx.ModelProto:
        inputs = [
            helper.make_tensor_value_info("x", 1, ["a", 3, "b", 4]),
            helper.make_tensor_value_info("w", 1, [5, "a"]),
        ]
        outputs = [helper.make_tensor_value_info("y", 1, None)]
        # every result is returned through an op on a fed value, so that folding may take all before it
        ends: list[onnx.NodeProto] = []
        for name, _, length in self.values:
            if name.startswith("v"):
                ends.append(helper.make_node("Cast", [name], [f"{name}_float"], to=TensorProto.FLOAT))
                ends.append(helper.make_node("Add", [f"{name}_float", "zero"], [f"{name}_out"]))
                outputs.append(helper.make_tensor_value_info(f"{name}_out", 1, [] if length < 0 else [None]))
        zero = (
            helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
            helper.make_node("Mul", ["sum", "nil"], ["zero"]),
        )
        relu = helper.make_node("Relu", ["x"], ["y"])
        weights = [*self.weights, numpy_helper.from_array(np.float32(0), "nil")]
        graph = helper.make_graph([*self.nodes, *zero, relu, *ends], "chain", inputs, outputs, weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _binary(chain: Chain) -> None:
    a, dtype, length = chain.any_of(*INTEGERS, "float32")
    matching = [v for v in chain.values if v[1].name == dtype and (v[2] in (length, -1, 1) or length in (-1, 1))]
    b, _, other = chain.rng.choice(matching)
    op_type = chain.rng.choice(("Add", "Sub", "Mul", "Min", "Max"))
    chain.add(op_type, [a, b], dtype, max(length, other))


def _divide(chain: Chain) -> None:
    a, dtype, length = chain.any_of(*INTEGERS, "float32")
    divisor = chain.constant(chain.rng.choice((2, 3, -2, 7)), dtype)
    floor = dtype != "float32" and chain.rng.random() < 0.5
    chain.add("Mod" if floor else "Div", [a, divisor], dtype, length)


def _compare(chain: Chain) -> None:
    a, dtype, length = chain.any_of("int64", "float32")
    op_type = chain.rng.choice(("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"))
    chain.add(op_type, [a, chain.constant(chain.rng.choice(NUMBERS), dtype)], "bool", length)


def _where(chain: Chain) -> None:
    condition, _, length = chain.any_of("bool")
    a, b = (chain.constant(chain.rng.choice(NUMBERS)) for _ in range(2))
    chain.add("Where", [condition, a, b], "int64", length)


def _cast(chain: Chain) -> None:
    a, dtype, length = chain.any_of("int64", "int32", "bool", "float32")
    # float to integer is defined where the number fits: the numbers here do not grow beyond it
    target, number = ("float32", TensorProto.FLOAT) if dtype == "int64" else ("int64", TensorProto.INT64)
    chain.add("Cast", [a], target, length, to=number)


def _round(chain: Chain) -> None:
    a, dtype, length = chain.any_of("float32")
    chain.add(chain.rng.choice(("Floor", "Ceil", "Round", "Neg", "Abs", "Sign")), [a], dtype, length)


def _negate(chain: Chain) -> None:
    a, dtype, length = chain.any_of(*INTEGERS)
    chain.add(chain.rng.choice(("Neg", "Abs", "Sign", "Identity")), [a], dtype, length)


def _gather(chain: Chain) -> None:
    vectors = [value for value in chain.values if value[2] > 0]
    a, dtype, length = chain.rng.choice(vectors)
    index = chain.rng.randrange(-length, length)
    one = chain.rng.random() < 0.5
    chain.add("Gather", [a, chain.constant(index if one else [index, 0])], dtype.name, -1 if one else 2)


def _slice(chain: Chain) -> None:
    a, dtype, length = chain.rng.choice([value for value in chain.values if value[2] > 0])
    start, step = chain.rng.randrange(-length, length), chain.rng.choice((1, 1, 2, -1))
    end = chain.rng.choice((length, -1, 2**62, -(2**62), 2))
    kept = len(
        range(length)[start:end:step]
        if abs(end) < 2**60
        else range(length)[start : None if end * step > 0 else start : step]
    )
    inputs = [a, *(chain.constant([number]) for number in (start, end, 0, step))]
    chain.add("Slice", inputs, dtype.name, kept)


def _concat(chain: Chain) -> None:
    a, dtype, length = chain.rng.choice([value for value in chain.values if value[2] > 0])
    b, _, other = chain.rng.choice([value for value in chain.values if value[2] > 0 and value[1] == dtype])
    if length + other < 40:
        chain.add("Concat", [a, b], dtype.name, length + other, axis=0)


def _unsqueeze(chain: Chain) -> None:
    scalars = [value for value in chain.values if value[2] < 0]
    a, dtype, _ = chain.rng.choice(scalars)
    chain.add("Unsqueeze", [a, chain.constant([0])], dtype.name, 1)


def _reduce(chain: Chain) -> None:
    a, dtype, _ = chain.rng.choice([value for value in chain.values if value[2] > 0 and value[1].name in INTEGERS])
    chain.add(chain.rng.choice(("ReduceMax", "ReduceMin", "ReduceSum")), [a], dtype.name, -1, keepdims=0)


def _range(chain: Chain) -> None:
    stop = chain.rng.randrange(0, 9)
    chain.add("Range", [chain.constant(number) for number in (0, stop, 1)], "int64", stop)


def _fill(chain: Chain) -> None:
    count = chain.rng.randrange(1, 6)
    value = helper.make_tensor("", TensorProto.INT64, [1], [chain.rng.choice(NUMBERS)])
    chain.add("ConstantOfShape", [chain.constant([count])], "int64", count, value=value)


def _expand(chain: Chain) -> None:
    a, dtype, _ = chain.rng.choice([value for value in chain.values if value[2] in (-1, 1)])
    chain.add("Expand", [a, chain.constant([3])], dtype.name, 3)


def _reshape(chain: Chain) -> None:
    a, dtype, length = chain.rng.choice([value for value in chain.values if value[2]])
    chain.add("Reshape", [a, chain.constant([-1])], dtype.name, abs(length))


STEPS = (
    _binary, _binary, _divide, _divide, _compare, _where, _cast, _cast, _round, _negate, _gather, _gather, _slice,
    _concat, _unsqueeze, _reduce, _range, _fill, _expand, _reshape,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_random_shape_arithmetic_gives_what_onnxruntime_gives(seed: int) -> None:
    chain = Chain(random.Random(seed))
    chain.start()
    for _ in range(12):
        chain.step()
    rng = np.random.default_rng(seed)
    a, b = int(rng.integers(1, 6)), int(rng.integers(0, 5))
    feeds = {"x": np.ones((a, 3, b, 4), np.float32), "w": np.ones((5, a), np.float32)}
    imported = assert_read_as_it_is(chain.model(), feeds, {"a": a, "b": b})
    kept = {op.op_type for op in imported.graph.ops}
    assert not kept & {"Shape", "Size", "Gather", "Slice", "Concat", "Range", "ConstantOfShape"}


HEAD = """<ir_version: 8, opset_import: ["": 18]> g"""


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("Div (seven, two)", [-3]),
        ("Mod (seven, two)", [1]),
        ("Mod <fmod = 1> (seven, two)", [-1]),
        ("Cast <to = 7> (half)", [-3]),
        ("Shape <start = -1> (x)", [6]),
        ("Shape <start = -9, end = -1> (x)", [2, 4]),
        ("ReduceProd <keepdims = 1> (dims)", [48]),
    ],
)
def test_folds_to_what_onnxruntime_computes(op: str, expected: list[int]) -> None:
    text = f"""{HEAD} (float[2, 4, 6] x) => (float[N] y)
        <int64[1] seven = {{-7}}, int64[1] two = {{2}}, float[1] half = {{-3.5}}>
        {{ dims = Shape (x)  v = {op}  f = Cast <to = 1> (v)  s = ReduceSum <keepdims = 0> (x)  y = Add (f, s) }}"""
    imported = assert_read_as_it_is(from_text(text), {"x": np.ones((2, 4, 6), np.float32)})
    assert numpy_helper.to_array(imported.proto.graph.initializer[0]).tolist() == expected


@pytest.mark.parametrize("op", ["Div (seven, zero)", "Mod (seven, zero)", "Cast <to = 7> (huge)", "Pow (seven, minus)"])
def test_what_has_no_defined_result_is_not_computed(op: str) -> None:
    text = f"""{HEAD} (float[2] x) => (float[N] y)
        <int64[1] seven = {{-7}}, int64[1] zero = {{0}}, int64[1] minus = {{-1}}, float[1] huge = {{1e30}}>
        {{ v = {op}  f = Cast <to = 1> (v)  y = Add (f, x) }}"""
    imported = import_onnx(from_text(text))
    assert imported.graph.value_named("v").role is ValueRole.DERIVED
    assert [node.op_type for node in imported.proto.graph.node][1:] == ["Cast", "Add"]


def test_what_only_a_run_can_tell_is_left_to_it() -> None:
    text = f"""{HEAD} (float[2, 3] x) => (int64[N] y)
        {{ n = NonZero (x)  s = Shape (n)  one = Constant <value_ints = [1]> ()  y = Add (s, one) }}"""
    imported = assert_read_as_it_is(from_text(text), {"x": np.eye(2, 3, dtype=np.float32)})
    assert [op.op_type for op in imported.graph.ops] == ["NonZero", "Shape", "Add"]
    assert imported.graph.value_named("n").shape == (2, None)


def test_a_known_part_of_a_shape_folds_where_the_rest_is_open() -> None:
    text = f"""{HEAD} (float[2, 3] x) => (float[N, M] y)
        {{ minus = Constant <value_ints = [-1]> ()  n = NonZero (x)  rows = Shape <end = 1> (n)
           c = Cast <to = 1> (n)  two = Concat <axis = 0> (rows, minus)  y = Reshape (c, two) }}"""
    imported = assert_read_as_it_is(from_text(text), {"x": np.eye(2, 3, dtype=np.float32)})
    assert [op.op_type for op in imported.graph.ops] == ["NonZero", "Cast", "Reshape"]


def test_content_larger_than_the_limit_is_never_made() -> None:
    text = f"""{HEAD} (float[1] x) => (float[N] y)
        <int64 zero = {{0}}, int64 end = {{1000000000000}}, int64 one = {{1}}>
        {{ r = Range (zero, end, one)  f = Cast <to = 1> (r)  y = Add (f, x) }}"""
    derived = import_onnx(from_text(text)).graph.value_named("f")
    assert (derived.role, derived.shape, derived.nbytes) == (ValueRole.DERIVED, (10**12,), 4 * 10**12)


def test_ops_on_weights_alone_are_derived_weights() -> None:
    text = f"""{HEAD} (float[2, 64] x) => (float[2, 64] y) <float[64, 64] a, float[64, 64] b>
        {{ t = Transpose <perm = [1, 0]> (a)  s = Add (t, b)  y = MatMul (x, s) }}"""
    graph = assert_read_as_it_is(from_text(text), {"x": np.ones((2, 64), np.float32)}).graph
    assert [op.op_type for op in graph.ops] == ["MatMul"]
    (weight,) = graph.weights
    assert (weight.name, weight.role, weight.sources) == ("s", ValueRole.DERIVED, ("a", "b"))
    assert (weight.shape, weight.nbytes) == ((64, 64), 64 * 64 * 4)


def test_a_dequantized_weight_is_an_op_on_a_weight() -> None:
    # ONNX Runtime keeps it quantized: as a derived weight it would be charged four times over
    text = """<ir_version: 9, opset_import: ["": 19]> g (float[2, 8] x) => (float[2, 8] y)
        <int8[8, 8] w, float scale = {0.5}, int8 zero = {0}>
        { d = DequantizeLinear (w, scale, zero)  y = MatMul (x, d) }"""
    graph = assert_read_as_it_is(from_text(text), {"x": np.ones((2, 8), np.float32)}).graph
    assert [op.op_type for op in graph.ops] == ["DequantizeLinear", "MatMul"]
    assert max(graph.weights, key=lambda weight: weight.nbytes).dtype == "int8"


@pytest.mark.parametrize("op", ["RandomNormalLike (w)", "Bernoulli (w)", "RandomUniform <shape = [4]> ()"])
def test_chance_is_not_constant(op: str) -> None:
    text = f"""{HEAD} (float[4] x) => (float[4] y) <float[4] w = {{0, 1, 0, 1}}> {{ r = {op}  y = Add (x, r) }}"""
    assert len(import_onnx(from_text(text)).graph.ops) == 2


def test_an_op_without_inputs_is_no_constant() -> None:
    text = """<ir_version: 8, opset_import: ["": 18, "own": 1]> g (float[4] x) => (float[4] y)
        { r = own.Read ()  y = Add (x, r) }"""
    assert [op.op_type for op in import_onnx(from_text(text)).graph.ops] == ["Read", "Add"]


def test_nodes_that_nothing_needs_go() -> None:
    text = f"""{HEAD} (float[2, 8] x) => (float[2, 8] y) <float[8, 8] unused>
        {{ d = MatMul (x, unused)  e = Relu (d)  y = Neg (x) }}"""
    imported = import_onnx(from_text(text))
    assert [op.op_type for op in imported.graph.ops] == ["Neg"]
    assert not imported.proto.graph.initializer
    assert any("2 of 3 nodes" in note for note in imported.notes)


def test_known_shapes_that_contradict_their_op_are_refused_with_both() -> None:
    text = "g (float[2, N] x, float[2, 3] w) => (float[2, 3] z) { [mm] z = MatMul(x, w) }"
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    assert import_onnx(proto, {"N": 2}).graph.ops[0].op_type == "MatMul"
    with pytest.raises(InvalidModelError, match=r"node 'mm'.*'x' \[2, 3\], 'w' \[2, 3\]: Incompatible") as refused:
        import_onnx(proto, {"N": 3})
    assert "--shape" in refused.value.hint


def test_layers_that_differ_in_their_biases_are_inferred_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(schema: onnx.defs.OpSchema, node: onnx.NodeProto, *rest: object, **named: object) -> object:
        asked.append(node.op_type)
        return onnx.shape_inference.infer_node_outputs(schema, node, *rest, **named)

    monkeypatch.setattr(inference, "infer_node_outputs", counted)
    layers = "".join(f"m{i} = MatMul (x{i}, w)  x{i + 1} = Add (m{i}, b{i})" for i in range(4))
    biases = ", ".join(f"float[100] b{i}" for i in range(4))
    import_onnx(
        from_text(f"{HEAD} (float[8, 100] x0) => (float[8, 100] x4) <float[100, 100] w, {biases}> {{ {layers} }}")
    )
    assert asked == ["MatMul", "Add"]


def test_few_floats_that_tell_sizes_tell_nodes_apart() -> None:
    text = f"""{HEAD} (float[1, 1, 4, 4] x) => (float[] y, float[] z)
        <float[4] a = {{1, 1, 2, 2}}, float[4] b = {{1, 1, 3, 3}}>
        {{ y = Resize (x, , a)  z = Resize (x, , b) }}"""
    graph = import_onnx(from_text(text)).graph
    assert [graph.values[value].shape for value in graph.outputs] == [(1, 1, 8, 8), (1, 1, 12, 12)]
