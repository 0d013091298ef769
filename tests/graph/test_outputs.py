"""Graph inputs and outputs in every combination that ONNX allows."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import hetpart
from hetpart.graph.from_onnx import import_onnx
from tests.graph.models import assert_read_as_it_is, from_text, same

HEAD = """<ir_version: 9, opset_import: ["": 18]> g"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)

CASES = {
    "an output is an input": f"{HEAD} (float[2, 3] x) => (float[2, 3] y, float[2, 3] x) {{ y = Relu (x) }}",
    "the only output is an input": f"{HEAD} (float[2, 3] x) => (float[2, 3] x) {{ y = Relu (x) }}",
    "an output is a weight": f"{HEAD} (float[2, 3] x) => (float[2, 3] y, float[3] w) <float[3] w> {{ y = Add (x, w) }}",
    "two outputs are weights": f"""{HEAD} (float[2, 3] x) => (float[3] v, float[2, 3] y, float[3] w)
        <float[3] w, float[3] v> {{ y = Add (x, w) }}""",
    "a weight that nothing reads": f"""{HEAD} (float[2, 3] x) => (float[2, 3] y, float[3] w)
        <float[3] w> {{ y = Relu (x) }}""",
    "an output is a constant": f"""{HEAD} (float[2, 3] x) => (float[2, 3] y, int64[2] k)
        {{ y = Relu (x)  k = Constant <value_ints = [4, 5]> () }}""",
    "a constant that is read too": f"""{HEAD} (float[2, 3] x) => (float[3, 2] y, int64[2] k)
        {{ k = Constant <value_ints = [3, 2]> ()  y = Reshape (x, k) }}""",
    "folded arithmetic": f"""{HEAD} (float[2, 3] x) => (float[2, 3] y, int64[2] s, int64[2] t)
        {{ y = Relu (x)  s = Shape (x)  t = Add (s, s) }}""",
    "an op on weights": f"""{HEAD} (float[2, 3] x) => (float[2, 3] y, float[3, 2] t) <float[2, 3] w>
        {{ t = Transpose (w)  y = Add (x, w) }}""",
    "a value that is used and returned": f"""{HEAD} (float[2, 3] x) => (float[2, 3] a, float[2, 3] y)
        {{ a = Relu (x)  y = Neg (a) }}""",
    "no elements": f"""{HEAD} (float[0, 3] e, float[2, 3] x) => (float[2, 3] y, float[0, 3] z)
        {{ y = Concat <axis = 0> (e, x)  z = Neg (e) }}""",
    "a scalar": f"{HEAD} (float x) => (float y) {{ y = Neg (x) }}",
    "an unused input": f"{HEAD} (float[2, 3] x, float[7] q) => (float[2, 3] y) {{ y = Neg (x) }}",
    "an unused output": f"{HEAD} (float[2, 3] x) => (float[2, 3] y) {{ y, mask = Dropout (x) }}",
}  # fmt: skip


def feeds(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    known = {"x": X, "e": np.zeros((0, 3), np.float32), "q": np.ones(7, np.float32)}
    shapes = {value.name: len(value.type.tensor_type.shape.dim) for value in model.graph.input}
    return {name: known[name] if rank else np.array(2, np.float32) for name, rank in shapes.items()}


@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_reading_keeps_every_result(text: str) -> None:
    model = from_text(text)
    imported = assert_read_as_it_is(model, feeds(model))
    assert imported.returned == tuple(value.name for value in model.graph.output)


@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
@pytest.mark.parametrize("placement", ["random:0", "random:1", "all-accelerator"])
def test_cutting_keeps_every_result(text: str, placement: str) -> None:
    model = from_text(text)
    plain = hetpart.partition(model, hardware="emulated", placement="all-cpu")
    cut = hetpart.partition(model, hardware="emulated", placement=placement)
    with plain.session() as one, cut.session(emulate=True) as other:
        same(other.run(None, feeds(model)), one.run(None, feeds(model)))


def test_an_output_named_twice_is_returned_twice() -> None:
    model = from_text(f"{HEAD} (float[2, 3] x) => (float[2, 3] y, float[3] w) <float[3] w> {{ y = Add (x, w) }}")
    model.graph.output.extend(list(model.graph.output))
    with hetpart.partition(model, hardware="emulated", placement="random:0").session(emulate=True) as session:
        y, w, again, weight = session.run(None, {"x": X})
    same([again, weight], [y, w])


def with_default(ir_version: int) -> onnx.ModelProto:
    model = from_text(f"{HEAD} (float[2, 3] x, float[3] w) => (float[2, 3] y) <float[3] w> {{ y = Add (x, w) }}")
    model.graph.ClearField("initializer")
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 2, 3], np.float32), "w"))
    model.ir_version = ir_version
    model.opset_import[0].version = 8 if ir_version < 4 else 18
    return model


@pytest.mark.parametrize("ir_version", [3, 4, 9])
def test_an_input_with_a_default_is_a_weight(ir_version: int) -> None:
    imported = import_onnx(with_default(ir_version))
    assert [imported.graph.values[value].name for value in imported.graph.inputs] == ["x"]
    assert [weight.name for weight in imported.graph.weights] == ["w"]
    assert any("cannot be fed: w" in note for note in imported.notes) == (ir_version >= 4)
    with hetpart.partition(with_default(ir_version), hardware="emulated").session() as session:
        same(session.run(None, {"x": X}), [X + np.array([1, 2, 3], np.float32)])


def test_feeding_a_default_is_refused_with_the_reason() -> None:
    for placement in ("all-cpu", "all-accelerator"):
        model = hetpart.partition(with_default(9), hardware="emulated", placement=placement)
        with model.session(emulate=True) as session, pytest.raises(hetpart.InvalidFeedError) as caught:
            session.run(None, {"x": X, "w": np.zeros(3, np.float32)})
        assert "unknown 'w'" in caught.value.message
        assert "default" in caught.value.hint


def test_a_default_that_is_returned_keeps_its_value() -> None:
    model = with_default(9)
    model.graph.output.append(helper.make_tensor_value_info("w", 1, [3]))
    with hetpart.partition(model, hardware="emulated", placement="random:0").session(emulate=True) as session:
        same(session.run(["w"], {"x": X}), [np.array([1, 2, 3], np.float32)])


def test_a_weights_new_name_is_free() -> None:
    model = from_text(f"""{HEAD} (float[3] x) => (float[3] y, float[3] w) <float[3] w>
        {{ w__weight = Neg (x)  y = Add (w__weight, w) }}""")
    assert_read_as_it_is(model, {"x": np.ones(3, np.float32)})
