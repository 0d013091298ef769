"""Products that read what was turned for them as it was, beside ONNX Runtime."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import parser

from hetpart.training.transposes import read_turned

_MODEL = """<ir_version: 9, opset_import: ["" : 20]>
g (float[{x}] x, float[{w}] w, float[5] b) => (float[3,5] y{more}) {{
  tx = Transpose<perm=[1,0]>(x)
  tw = Transpose(w)
  y = Gemm<{attributes}>({left}, {right}, b)
}}"""


def model(left: str, right: str, sides: tuple[int, int], more: str = "") -> onnx.ModelProto:
    """``left`` and ``right`` are the operands, turned by a Transpose or not, and by the product itself or not."""
    x, w = [3, 4], [4, 5]
    x = x[::-1] if (left == "tx") != bool(sides[0]) else x
    w = w[::-1] if (right == "tw") != bool(sides[1]) else w
    given = {"x": ",".join(map(str, x)), "w": ",".join(map(str, w)), "left": left, "right": right, "more": more}
    return parser.parse_model(_MODEL.format(attributes=f"transA={sides[0]}, transB={sides[1]}", **given))


def run(made: onnx.ModelProto) -> list[np.ndarray]:
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    return session.run(None, {one.name: random.random(one.shape, np.float32) for one in session.get_inputs()})


@pytest.mark.parametrize(("left", "right"), [*product(("x", "tx"), ("w", "tw"))])
@pytest.mark.parametrize("sides", [*product((0, 1), repeat=2)])
def test_a_product_reads_matrices_as_they_lie(left: str, right: str, sides: tuple[int, int]) -> None:
    made = model(left, right, sides)
    wanted = run(made)
    read_turned(made.graph)
    assert [node.op_type for node in made.graph.node] == ["Gemm"]
    assert [*made.graph.node[0].input[:2]] == ["x", "w"]
    np.testing.assert_array_equal(run(made), wanted)


def test_what_something_else_reads_stays_turned() -> None:
    made = model("x", "tw", (0, 0), more=", float[4,5] tw")
    wanted = run(made)
    read_turned(made.graph)
    assert [node.op_type for node in made.graph.node] == ["Transpose", "Gemm"]
    for ours, theirs in zip(run(made), wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)


_OTHERS = """<ir_version: 9, opset_import: ["" : 20]>
g (float[4,4] x, float[4,4] w, float[4] b, bool chosen) => (float[4,4] y, float[4,4] z) {
  tx = Transpose<perm=[0,1]>(x)
  tw = Transpose(w)
  y = Gemm(tx, tw, b)
  z = If (chosen) <
    then_branch = first () => (float[4,4] one) { one = Neg(tw) },
    else_branch = second () => (float[4,4] other) { other = Identity(w) }
  >
}"""


def test_what_a_branch_reads_or_nothing_turns_stays() -> None:
    made = parser.parse_model(_OTHERS)
    read_turned(made.graph)
    assert [node.op_type for node in made.graph.node] == ["Transpose", "Transpose", "Gemm", "If"]
    random = np.random.default_rng(0)
    given = {name: random.random(shape, np.float32) for name, shape in (("x", (4, 4)), ("w", (4, 4)), ("b", 4))}
    given["chosen"] = np.array(True)
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    y, z = session.run(None, given)
    np.testing.assert_allclose(y, given["x"] @ given["w"].T + given["b"], rtol=1e-5)
    np.testing.assert_array_equal(z, -given["w"].T)
