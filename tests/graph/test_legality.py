"""Every rule with a model that breaks it, and the orders and names that are put right instead."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from hetpart.errors import InvalidModelError
from hetpart.graph.from_onnx import import_onnx
from tests.graph.models import assert_read_as_it_is, from_text, run

TEXT = """<ir_version: 9, opset_import: ["": 18]> g (float[2, 3] x) => (float[2, 3] y) <float[3] w>
    { a = Add (x, w)  b = Relu (a)  y = Neg (b) }"""
NAN_TEXT = b"\xff\xfe"
Break = Callable[[onnx.ModelProto], object]


def body(name: str, *nodes: onnx.NodeProto) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, [], [onnx.ValueInfoProto(name=nodes[-1].output[0])])


def add_if(model: onnx.ModelProto, branch: onnx.GraphProto) -> None:
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    model.graph.node.append(helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch))
    model.graph.output.append(onnx.ValueInfoProto(name="z"))


def damage_text(model: onnx.ModelProto, text: str) -> None:
    """Replace ``text`` in the serialized model with bytes that are no UTF-8."""
    data = model.SerializeToString().replace(text.encode(), NAN_TEXT * (len(text) // 2))
    model.ParseFromString(data)


def renamed(model: onnx.ModelProto, set_name: Callable[[onnx.ModelProto], object]) -> None:
    set_name(model)
    damage_text(model, "DAMAGE")


BROKEN: dict[str, tuple[Break, str]] = {
    "a value made by two nodes": (lambda m: m.graph.node[1].output.__setitem__(0, "a"), "made more than once: 'a'"),
    "a node that makes an input": (lambda m: m.graph.node[0].output.__setitem__(0, "x"), "made more than once: 'x'"),
    "a node that makes a weight": (lambda m: m.graph.node[0].output.__setitem__(0, "w"), "made more than once: 'w'"),
    "two inputs of one name": (lambda m: m.graph.input.append(m.graph.input[0]), "input 'x'"),
    "two weights of one name": (lambda m: m.graph.initializer.append(m.graph.initializer[0]), "initializer 'w'"),
    "an input that nothing makes": (lambda m: m.graph.node[0].input.__setitem__(0, "q"), "never made: 'q' of 'Add'"),
    "an output that nothing makes": (lambda m: m.graph.output.add(name="q"), "never made: output 'q'"),
    "a body that reads what nothing makes": (
        lambda m: add_if(m, body("b", helper.make_node("Relu", ["q"], ["r"]))), "never made: 'q' of 'If'"),
    "a body that is not sorted": (
        lambda m: add_if(m, body("b", helper.make_node("Relu", ["s"], ["r"]), helper.make_node("Relu", ["r"], ["s"]))),
        "never made: 's'"),
    "a cycle": (lambda m: m.graph.node[0].input.__setitem__(1, "b"), "in a cycle: "),
    "a node that reads itself": (lambda m: m.graph.node[1].input.__setitem__(0, "b"), "'Relu' → 'Relu'"),
    "a domain that is not imported": (
        lambda m: m.graph.node.append(helper.make_node("F", ["x"], ["z"], domain="own")), "not imported: F ('') is of"),
    "an operator that does not exist": (lambda m: setattr(m.graph.node[1], "op_type", "Rleu"), "not exist: 'Rleu'"),
    "an operator of a later opset": (lambda m: setattr(m.graph.node[1], "op_type", "Gelu"), "'Gelu' ('') in opset 18"),
    "an operator that is no more": (lambda m: setattr(m.graph.node[1], "op_type", "Upsample"), "deprecated"),
    "too many operands": (lambda m: m.graph.node[1].input.append("x"), "no Relu of opset 14: "),
    "no operand": (lambda m: m.graph.node[1].CopyFrom(helper.make_node("Shape", [], ["b"])), "no Shape of opset 15: "),
    "more elements than a number can count": (lambda m: uncountable(m), "more than any machine"),
    "an attribute of another operator": (
        lambda m: m.graph.node[1].attribute.append(helper.make_attribute("axis", 1)), "Unrecognized attribute: axis"),
    "an attribute twice": (
        lambda m: m.graph.node[1].CopyFrom(twice_axis()), "Attribute 'alpha' appeared multiple times"),
    "an attribute of another type": (
        lambda m: m.graph.node[1].CopyFrom(helper.make_node("Elu", ["a"], ["b"], alpha="x")), "Mismatched attribute"),
    "a wild axis": (lambda m: wild(m, "LayerNormalization", axis=2**31), "out of range: axis = 2147483648"),
    "wild batch dimensions": (lambda m: wild(m, "GatherND", batch_dims=-7), "out of range: batch_dims = -7"),
    "more parts than outputs": (lambda m: wild(m, "Split", num_outputs=2**40), "num_outputs = 1099511627776"),
    "an equation with half an arrow": (lambda m: einsum(m, "ij-ji"), "equations cannot be read: b'ij-ji'"),
    "an equation with one dot": (lambda m: einsum(m, ".ij->ij"), "equations cannot be read"),
    "an equation that is no text": (lambda m: einsum(m, "ij\ufffd->ij"), "equations cannot be read"),
    "a wild axis in a body": (
        lambda m: add_if(m, body("b", helper.make_node("LayerNormalization", ["x", "w"], ["r"], axis=2**40))),
        "out of range: axis"),
    "an opset of 0": (lambda m: setattr(m.opset_import[0], "version", 0), "'ai.onnx' version 0"),
    "an opset beyond 32 bits": (lambda m: setattr(m.opset_import[0], "version", 2**40), "version 1099511627776"),
    "a node's name that is no text": (
        lambda m: renamed(m, lambda m: setattr(m.graph.node[0], "name", "DAMAGE")), "not UTF-8 text: b'\\xff"),
    "a value's name that is no text": (
        lambda m: renamed(m, lambda m: m.graph.node[1].output.append("DAMAGE")), "not UTF-8 text: b'\\xff"),
    "a dimension's name that is no text": (
        lambda m: renamed(m, lambda m: m.graph.input[0].type.tensor_type.shape.dim.add(dim_param="DAMAGE")),
        "not UTF-8 text"),
    "an operator's name that is no text, in a body": (
        lambda m: renamed(m, lambda m: add_if(m, body("b", helper.make_node("DAMAGE", ["x"], ["r"])))), "not UTF-8"),
    "an attribute's name that is no text": (
        lambda m: renamed(m, lambda m: m.graph.node[0].attribute.add(name="DAMAGE", type=AttributeProto.INT)), "UTF-8"),
    "a weight's name that is no text": (
        lambda m: renamed(m, lambda m: setattr(m.graph.initializer[0], "name", "DAMAGE")), "not UTF-8 text"),
    "a weight of no type": (lambda m: setattr(m.graph.initializer[0], "data_type", 0), "'w' is of type 0"),
    "a weight of an unheard-of type": (lambda m: setattr(m.graph.initializer[0], "data_type", 99), "of type 99"),
    "a weight of a negative size": (lambda m: m.graph.initializer[0].dims.__setitem__(0, -3), "'w' has shape [-3]"),
    "a weight that claims more than there is memory": (
        lambda m: m.graph.initializer[0].dims.extend([2**40] * 9), "[3, 1099511627776, 1099511627776"),
    "a weight shorter than its shape": (lambda m: m.graph.initializer[0].dims.append(5), "12 where 60 are needed"),
    "a typed weight shorter than its shape": (
        lambda m: m.graph.initializer[0].CopyFrom(TensorProto(name="w", dims=[3], data_type=1, float_data=[1.0])),
        "holds 1 where 3 are needed"),
    "a value larger than any machine": (
        lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", 2**60), "more than any machine"),
}  # fmt: skip


def twice_axis() -> onnx.NodeProto:
    node = helper.make_node("Elu", ["a"], ["b"], alpha=0.5)
    node.attribute.append(node.attribute[0])
    return node


def einsum(model: onnx.ModelProto, equation: str) -> None:
    model.graph.node[1].CopyFrom(helper.make_node("Einsum", ["a"], ["b"], equation=equation))


@pytest.mark.parametrize("equation", ["ij->ji", "...j -> j...", "ij", "  i j -> i ", "...->..."])
def test_equations_that_onnx_knows_are_read(equation: str) -> None:
    model = from_text(TEXT)
    einsum(model, equation)
    assert [op.op_type for op in import_onnx(model).graph.ops] == ["Add", "Einsum", "Neg"]


def uncountable(model: onnx.ModelProto) -> None:
    model.graph.node[0].CopyFrom(helper.make_node("Relu", ["x"], ["a"]))
    model.graph.node[1].CopyFrom(helper.make_node("Size", ["x"], ["b"]))
    for dim in model.graph.input[0].type.tensor_type.shape.dim:
        dim.dim_value = 2**62


def wild(model: onnx.ModelProto, op_type: str, **attributes: int) -> None:
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((1, 1), np.int64), "at"))
    inputs = {"LayerNormalization": ["a", "w"], "GatherND": ["a", "at"], "Split": ["a"]}[op_type]
    model.graph.node[1].CopyFrom(helper.make_node(op_type, inputs, ["b"], **attributes))


@pytest.mark.parametrize(("damage", "said"), BROKEN.values(), ids=BROKEN)
def test_a_model_that_breaks_a_rule_is_refused_with_what_breaks_it(damage: Break, said: str) -> None:
    model = from_text(TEXT)
    import_onnx(model)
    damage(model)
    with pytest.raises(InvalidModelError) as caught:
        import_onnx(model)
    assert said in caught.value.message
    assert caught.value.hint


def test_many_offenders_are_counted() -> None:
    model = from_text(TEXT)
    model.graph.output.extend(onnx.ValueInfoProto(name=f"q{i}") for i in range(9))
    with pytest.raises(InvalidModelError, match=r"output 'q0', .*output 'q4' and 4 more\n"):
        import_onnx(model)


def test_nodes_out_of_order_are_sorted() -> None:
    model = from_text(TEXT)
    expected = run(model, {"x": np.ones((2, 3), np.float32)})
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    imported = import_onnx(model)
    assert [op.op_type for op in imported.graph.ops] == ["Add", "Relu", "Neg"]
    np.testing.assert_array_equal(run(imported.proto, {"x": np.ones((2, 3), np.float32)})["y"], expected["y"])


def test_sorting_sees_what_bodies_read() -> None:
    model = from_text(TEXT)
    add_if(model, body("b", helper.make_node("Neg", ["b"], ["r"])))
    nodes = [model.graph.node[3], *model.graph.node[:3]]
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)
    assert [op.op_type for op in import_onnx(model).graph.ops].index("If") > 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("", "", ""), ("Add_0", "Relu_1", "Neg_2")),
        (("n", "n", "n"), ("n", "n_1", "n_2")),
        (("Relu_1", "", "Relu_1"), ("Relu_1", "Relu_1_1", "Relu_1_2")),
    ],
)
def test_every_node_has_a_name_of_its_own(given: tuple[str, ...], expected: tuple[str, ...]) -> None:
    model = from_text(TEXT)
    for node, name in zip(model.graph.node, given, strict=True):
        node.name = name
    imported = import_onnx(model)
    assert tuple(op.name for op in imported.graph.ops) == expected
    assert tuple(node.name for node in imported.proto.graph.node) == expected
    assert any("had no name of their own" in note for note in imported.notes)


def test_an_operand_left_out_is_no_value() -> None:
    text = """<ir_version: 9, opset_import: ["": 18]> g (float[2, 3] x) => (float[2, 3] y)
        <float high = {1}> { y = Clip (x, , high) }"""
    imported = assert_read_as_it_is(from_text(text), {"x": np.arange(6, dtype=np.float32).reshape(2, 3)})
    assert imported.graph.ops[0].inputs[1] is None
