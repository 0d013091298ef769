"""Ops that ONNX Runtime runs by the body of their operator: that body stands in their place, under their name."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import hetpart
from hetpart.cost_model.kernels import ONNX_RUNTIME
from hetpart.errors import InvalidOptionError
from hetpart.graph.from_onnx import ImportedModel, import_onnx
from hetpart.graph.ir import Graph
from hetpart.graph.kernel_rules import KernelRules

FLOAT, HALF, BRAIN = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16
SCOPES = "['', 'encoder', 'encoder.act', 'x']"


def model_of(nodes: list[onnx.NodeProto], shape: list[int], *, opset: int = 24, dtype: int = FLOAT) -> onnx.ModelProto:
    ends = [[helper.make_tensor_value_info(name, dtype, shape)] for name in "xy"]
    graph = helper.make_graph(nodes, "g", *ends)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def imported(model: onnx.ModelProto) -> ImportedModel:
    return import_onnx(model, {}, ONNX_RUNTIME)


def op_types(graph: Graph) -> list[str]:
    return [op.op_type for op in graph.ops]


def results(model: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})


def swish(name: str = "/encoder/act", **attributes: float) -> onnx.NodeProto:
    return helper.make_node("Swish", ["x"], ["y"], name=name, **attributes)


@pytest.mark.parametrize("alpha", [None, 1.5])
@pytest.mark.parametrize("dtype", [FLOAT, HALF])
def test_a_body_computes_what_the_operator_does(alpha: float | None, dtype: int) -> None:
    model = model_of([swish(**({} if alpha is None else {"alpha": alpha}))], [4, 8], dtype=dtype)
    found = imported(model)
    assert op_types(found.graph) == ["Mul", "Sigmoid", "Mul"]
    x = np.linspace(-3, 3, 32).reshape(4, 8).astype(helper.tensor_dtype_to_np_dtype(dtype))
    for ours, theirs in zip(results(found.proto, x), results(model, x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3 if dtype == HALF else 1e-6)


def test_what_is_from_a_body_is_named_after_its_op_and_lies_in_its_module() -> None:
    node = swish("act")
    node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=SCOPES)
    graph = imported(model_of([node], [4, 8])).graph
    assert [op.name for op in graph.ops] == ["act.Mul", "act.Sigmoid", "act.Mul_1"]
    assert {op.scope for op in graph.ops} == {"encoder.act"}
    slashed = imported(model_of([swish()], [4, 8])).graph
    assert {op.scope for op in slashed.ops} == {"encoder"}
    for op in (*graph.ops, *slashed.ops):
        assert op.origin is not None
        assert op.origin.op_type == "Swish"


def test_names_that_are_taken_are_not_taken_again() -> None:
    nodes = [
        helper.make_node("Swish", ["x"], ["y.AlphaMulX"], name="act"),
        helper.make_node("Swish", ["y.AlphaMulX"], ["y.AlphaMulX_1"], name="act.Mul"),
        helper.make_node("Swish", ["y.AlphaMulX_1"], ["y"], name="act.Mul_1"),
    ]
    model = model_of(nodes, [4, 8])
    found = imported(model)
    assert len({op.name for op in found.graph.ops}) == len(found.graph.ops) == 9
    x = np.linspace(-3, 3, 32).reshape(4, 8).astype(np.float32)
    np.testing.assert_allclose(results(found.proto, x)[0], results(model, x)[0], rtol=1e-6)


def test_an_op_with_a_kernel_on_either_device_stays() -> None:
    for op_type in ("HardSwish", "Relu", "Softmax"):
        node = helper.make_node(op_type, ["x"], ["y"], name="op")
        assert op_types(imported(model_of([node], [4, 8])).graph) == [op_type]


def test_nothing_is_expanded_of_an_opset_that_onnx_runtime_does_not_read() -> None:
    assert op_types(imported(model_of([swish()], [4, 8], opset=28)).graph) == ["Swish"]


def test_inputs_left_out_stay_out() -> None:
    """A Clip of bfloat16, its minimum left out, which no provider has a kernel for."""
    model = model_of([helper.make_node("Clip", ["x", "", "most"], ["y"], name="clip")], [4, 8], dtype=BRAIN)
    model.graph.initializer.append(helper.make_tensor("most", BRAIN, [], [1.0]))
    graph = imported(model).graph
    assert op_types(graph) == ["Less", "Where"]
    assert all(value is not None for op in graph.ops for value in op.inputs)


def test_a_body_in_a_body_is_expanded_down_to_kernels() -> None:
    nodes = [helper.make_node("SoftmaxCrossEntropyLoss", ["x", "t"], ["loss", "y"], name="loss")]
    model = model_of(nodes, [4, 8])
    model.graph.initializer.append(numpy_helper.from_array(np.arange(4), "t"))
    model.graph.output.append(helper.make_tensor_value_info("loss", FLOAT, []))
    found = imported(model)
    assert not {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss", "CastLike"} & set(op_types(found.graph))
    origins = {(op.origin.op_type, op.origin.name) for op in found.graph.ops if op.origin}
    assert origins == {("SoftmaxCrossEntropyLoss", "loss")}
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    for ours, theirs in zip(results(found.proto, x), results(model, x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    (note,) = found.notes
    assert "1 NegativeLogLikelihoodLoss, 1 SoftmaxCrossEntropyLoss" in note


def test_shape_arithmetic_of_a_body_is_folded() -> None:
    model = model_of([helper.make_node("CenterCropPad", ["x", "size"], ["y"], name="crop")], [4, 8])
    model.graph.initializer.append(numpy_helper.from_array(np.array([6, 6]), "size"))
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.shape.dim.extend(
        onnx.TensorShapeProto.Dimension(dim_value=size) for size in (6, 6)
    )
    found = imported(model)
    assert op_types(found.graph) == ["Pad", "Slice"]
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    np.testing.assert_array_equal(results(found.proto, x)[0], results(model, x)[0])


def test_ops_inside_a_loop_are_expanded_too() -> None:
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Swish", ["v"], ["w"], name="inner"),
            helper.make_node("Add", ["w", "x"], ["next"], name="sum"),
            helper.make_node("Identity", ["go"], ["on"], name="on"),
        ],
        "body",
        [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), value("v", FLOAT, [4, 8])],
        [value("on", TensorProto.BOOL, []), value("next", FLOAT, [4, 8])],
    )
    model = model_of([helper.make_node("Loop", ["trips", "", "x"], ["y"], name="loop", body=body)], [4, 8])
    model.graph.initializer.append(numpy_helper.from_array(np.array(3), "trips"))
    found = imported(model)
    (loop,) = found.graph.ops
    computing = [op.op_type for op in loop.bodies[0].ops if op.op_type not in ("Constant", "Cast", "Identity")]
    assert computing == ["Mul", "Sigmoid", "Mul", "Add"]
    x = np.linspace(-3, 3, 32).reshape(4, 8).astype(np.float32)
    np.testing.assert_allclose(results(found.proto, x)[0], results(model, x)[0], rtol=1e-6)


def test_what_onnx_has_no_body_of_stays_and_is_told() -> None:
    model = model_of([helper.make_node("Erf", ["x"], ["y"], name="erf")], [4, 8])
    found = import_onnx(model, {}, KernelRules(lambda op, _: op.op_type == "Erf"))
    assert op_types(found.graph) == ["Erf"]
    assert any("onnx does not tell: erf" in note for note in found.notes)


@pytest.mark.parametrize("pin", ["node:/encoder/act=cpu", "op:Swish=cpu", "encoder.*=cpu", "/encoder/act=cpu"])
def test_a_pin_on_the_op_of_the_file_places_all_of_its_body(pin: str) -> None:
    model = model_of([swish()], [512, 1024])
    plan = hetpart.partition(model, hardware="l4+epyc", pin=pin).plan
    assert [decision.device for decision in plan.decisions] == ["cpu"] * 3
    with pytest.raises(InvalidOptionError):
        hetpart.partition(model, hardware="l4+epyc", pin="op:Mish=cpu")


def test_a_placement_of_the_op_of_the_file_places_all_of_its_body() -> None:
    model = model_of([swish()], [512, 1024])
    plan = hetpart.partition(model, hardware="l4+epyc", placement={"/encoder/act": "cuda:0"}).plan
    assert [decision.device for decision in plan.decisions] == ["cuda:0"] * 3


def test_a_cut_through_bodies_computes_what_the_file_does() -> None:
    nodes = [
        helper.make_node("Mish", ["x"], ["a"], name="mish"),
        helper.make_node("Swish", ["a"], ["b"], name="swish", alpha=1.7),
        helper.make_node("HardSwish", ["b"], ["y"], name="hard"),
    ]
    model = model_of(nodes, [16, 32])
    x = np.random.default_rng(0).standard_normal((16, 32)).astype(np.float32)
    for seed in range(4):
        made = hetpart.partition(model, hardware="l4+epyc", placement=f"random:{seed}")
        with made.session(emulate=True) as session:
            np.testing.assert_allclose(session.run(None, {"x": x})[0], results(model, x)[0], rtol=1e-5)


def test_a_range_over_vectors_of_one_element_can_be_loaded() -> None:
    """As ONNX's own body of AffineGrid has it: bound dimensions choose the branch that one of them comes from."""
    value = helper.make_tensor_value_info
    branches = {
        name: helper.make_graph(
            [helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array([length])))],
            name, [], [value(name, TensorProto.INT64, [1])],
        )
        for name, length in (("then_branch", 4), ("else_branch", 7))
    }  # fmt: skip
    nodes = [
        helper.make_node("Size", ["x"], ["elements"], name="size"),
        helper.make_node("Equal", ["elements", "few"], ["is_few"], name="equal"),
        helper.make_node("If", ["is_few"], ["end"], name="if", **branches),
        helper.make_node("Range", ["zero", "end", "one"], ["places"], name="range"),
        helper.make_node("Cast", ["places"], ["y"], name="cast", to=FLOAT),
    ]
    model = model_of(nodes, [1, 4], opset=20)
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.shape.dim.add()
    held = (("few", np.array(4)), ("zero", np.array(0)), ("one", np.array(1)))
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in held)
    x = np.zeros((1, 4), np.float32)
    with hetpart.partition(model, hardware="l4+epyc", placement="all-cpu").session() as session:
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.arange(4))


def test_constants_that_onnx_runtime_has_no_kernel_for_are_made_by_those_it_has() -> None:
    """Or it would compute what is made of them in every run."""
    like = numpy_helper.from_array(np.zeros(1, np.float32), "like")
    bias = numpy_helper.from_array(np.arange(8, dtype=np.int64), "bias")
    nodes = [
        helper.make_node("CastLike", ["bias", "like"], ["b"], name="like"),
        helper.make_node("Exp", ["b"], ["e"], name="exp"),
        helper.make_node("Add", ["x", "e"], ["y"], name="add"),
    ]
    model = model_of(nodes, [4, 8], opset=22)
    model.graph.initializer.extend([like, bias])
    found = imported(model)
    assert op_types(found.graph) == ["Add"]
    assert [node.op_type for node in found.proto.graph.node] == ["Cast", "Exp", "Add"]
    assert runs(found.proto) == ["Add"]
    x = np.linspace(-3, 3, 32).reshape(4, 8).astype(np.float32)
    np.testing.assert_allclose(results(found.proto, x)[0], results(model, x)[0], rtol=1e-6)


def runs(model: onnx.ModelProto) -> list[str]:
    """Types of the nodes that are left of ``model`` in a session."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (cpu,) = session.get_provider_graph_assignment_info()
    return [node.op_type for node in cpu.get_nodes()]
