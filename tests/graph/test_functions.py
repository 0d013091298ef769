"""Local functions are inlined; what would not end is refused before it is tried."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from hetpart.errors import InvalidModelError
from hetpart.graph.from_onnx import import_onnx
from hetpart.graph.functions import MOST_NESTED
from tests.graph.models import assert_read_as_it_is, from_text

MAIN = """<ir_version: 9, opset_import: ["": 18, "own": 1]> g (float[2, 8] x) => (float[2, 8] y)"""
FEED = {"x": np.linspace(-3, 3, 16, dtype=np.float32).reshape(2, 8)}


def function(name: str, text: str, opset: int = 18) -> str:
    return f"""<domain: "own", opset_import: ["": {opset}, "own": 1]> {name} {text}"""


LEAKY = function("Leaky", "<slope> (a) => (b) { t = LeakyRelu <alpha : float = @slope> (a)  b = Add (t, t) }")
DEFAULTED = function("Leaky", "<slope : float = 0.25> (a) => (b) { b = LeakyRelu <alpha : float = @slope> (a) }")
NESTED = function(
    "Twice", "<slope> (a) => (b) { t = own.Leaky <slope : float = @slope> (a)  b = own.Leaky <slope = 0.5> (t) }"
)
BRANCHING = function(
    "Branch",
    """<slope> (a) => (b) { s = ReduceSum <keepdims = 0> (a)  z = Constant <value_float = 0.0> ()  c = Less (s, z)
    b = If (c) <then_branch = t () => (u) { u = LeakyRelu <alpha : float = @slope> (a) },
                else_branch = e () => (v) { v = Neg (a) }> }""",
)
FUNCTIONS = {
    "attributes": (f"{MAIN} {{ y = own.Leaky <slope = 0.3> (x) }} {LEAKY}", ["LeakyRelu", "Add"]),
    "a default": (f"{MAIN} {{ y = own.Leaky (x) }} {DEFAULTED}", ["LeakyRelu"]),
    "a default overridden": (f"{MAIN} {{ y = own.Leaky <slope = 0.9> (x) }} {DEFAULTED}", ["LeakyRelu"]),
    "a default in a function that another calls": (
        f"{MAIN} {{ y = own.F (x) }} {DEFAULTED} {function('F', '(a) => (b) { b = own.Leaky (a) }')}", ["LeakyRelu"]),
    "two calls": (
        f"{MAIN} {{ t = own.Leaky <slope = 0.3> (x)  y = own.Leaky <slope = 0.1> (t) }} {LEAKY}",
        ["LeakyRelu", "Add"] * 2),
    "functions that call functions": (
        f"{MAIN} {{ t = own.Twice <slope = 0.3> (x)  y = own.Leaky <slope = 0.1> (t) }} {LEAKY} {NESTED}",
        ["LeakyRelu", "Add"] * 3),
    "a body that refers to an attribute": (
        f"{MAIN} {{ y = own.Branch <slope = 0.3> (x) }} {BRANCHING}", ["ReduceSum", "Less", "If"]),
    "names that are used outside too": (
        f"{MAIN} {{ t = Neg (x)  b = own.Leaky <slope = 0.3> (t)  a = Neg (b)  y = Neg (a) }} {LEAKY}",
        ["Neg", "LeakyRelu", "Add", "Neg", "Neg"]),
    "an older opset with the same operators": (
        f"{MAIN} {{ y = own.F (x) }} {function('F', '(a) => (b) { b = Relu (a) }', opset=14)}", ["Relu"]),
    "a newer opset with the same operators": (
        f"{MAIN} {{ y = own.F (x) }} {function('F', '(a) => (b) { b = Relu (a) }', opset=20)}", ["Relu"]),
    "an operator set that the graph does not import": (
        f"""{MAIN} {{ y = own.F (x) }} <domain: "own", opset_import: ["": 18, "com.microsoft": 1]> F (a) => (b)
        {{ b = com.microsoft.QuickGelu <alpha : float = 1.0> (a) }}""", ["QuickGelu"]),
    "a function that nobody calls": (f"{MAIN} {{ y = Neg (x) }} {LEAKY}", ["Neg"]),
    "a call in a body": (
        f"""{MAIN} {{ s = ReduceSum <keepdims = 0> (x)  c = Less (s, s)
        y = If (c) <then_branch = t () => (u) {{ u = own.Leaky <slope = 0.3> (x) }},
                    else_branch = e () => (v) {{ v = own.Leaky <slope = 0.7> (x) }}> }} {LEAKY}""",
        ["ReduceSum", "Less", "If"]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "ops"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_function_is_inlined_where_it_is_called(text: str, ops: list[str]) -> None:
    graph = assert_read_as_it_is(from_text(text), FEED).graph
    assert [op.op_type for op in graph.ops] == ops
    assert len({op.name for op in graph.ops}) == len(ops)


def test_a_function_of_another_version_of_an_operator_is_refused() -> None:
    text = f"{MAIN} {{ y = own.F (x) }} {function('F', '(a) => (b) { b = Softmax (a) }', opset=11)}"
    with pytest.raises(
        InvalidModelError, match="'F' uses Softmax of opset 11, which is another in the model's opset 18"
    ):
        import_onnx(from_text(text))


def calls(count: int, fan: int) -> onnx.ModelProto:
    """Functions in a row, each calling the next ``fan`` times."""
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    functions: list[onnx.FunctionProto] = []
    for i in range(count):
        op_type, domain = (f"F{i + 1}", "own") if i + 1 < count else ("Relu", "")
        nodes = [helper.make_node(op_type, [f"v{k}"], [f"v{k + 1}"], domain=domain) for k in range(fan)]
        functions.append(helper.make_function("own", f"F{i}", ["v0"], [f"v{fan}"], nodes, opsets))
    model = from_text(f"{MAIN} {{ y = own.F0 (x) }}")
    model.functions.extend(functions)
    return model


def test_functions_that_multiply_are_refused() -> None:
    assert len(import_onnx(calls(8, 2)).graph.ops) == 2**8
    with pytest.raises(InvalidModelError, match=r"30 deep and come to 2.15e\+09 nodes of \d"):
        import_onnx(calls(30, 2))


def test_large_functions_that_multiply_are_refused() -> None:
    model = calls(12, 2)
    content = numpy_helper.from_array(np.zeros(10**6, np.float32))
    model.functions[-1].node.append(helper.make_node("Constant", [], ["unused"], value=content))
    with pytest.raises(InvalidModelError, match=r"nodes of 8.19e\+09 bytes"):
        import_onnx(model)


def test_functions_that_nest_too_deep_are_refused() -> None:
    assert len(import_onnx(calls(MOST_NESTED, 1)).graph.ops) == 1
    with pytest.raises(InvalidModelError, match=f"{20 * MOST_NESTED} deep"):
        import_onnx(calls(20 * MOST_NESTED, 1))


def test_functions_that_call_each_other_in_a_circle_are_refused() -> None:
    text = f"""{MAIN} {{ y = own.A (x) }} {function("A", "(a) => (b) { b = own.B (a) }")}
        {function("B", "(a) => (b) { b = own.A (a) }")}"""
    with pytest.raises(InvalidModelError, match=r"in a circle: 'own.(A|B)' → 'own.(A|B)' → 'own.(A|B)'"):
        import_onnx(from_text(text))


def test_a_function_that_cannot_be_inlined_is_refused() -> None:
    model = from_text(f"{MAIN} {{ y = own.Leaky <slope = 0.3> (x) }} {LEAKY}")
    model.graph.node[0].input.extend(["x", "x"])
    with pytest.raises(InvalidModelError, match="local function"):
        import_onnx(model)
