"""Ops of local functions are named after the calls that they are inlined for, which is what a user knows."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import hetpart
from hetpart.graph.call_sites import LONGEST
from hetpart.whatif.explain import explain

FEED = {"x": np.linspace(-1, 1, 4 * 16, dtype=np.float32).reshape(4, 16)}


def model_of(*calls: onnx.NodeProto, nested: bool = False) -> onnx.ModelProto:
    """From ``x`` to ``y``. ``Layer`` multiplies by its second input and takes off what is below zero."""
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    inner = [helper.make_node("MatMul", ["a", "w"], ["p"], name="product"), helper.make_node("Relu", ["p"], ["b"])]
    functions = [helper.make_function("own", "Layer", ["a", "w"], ["b"], inner, opsets)]
    if nested:
        twice = [
            helper.make_node("Layer", ["a", "w"], ["t"], name="first", domain="own"),
            helper.make_node("Layer", ["t", "w"], ["b"], name="second", domain="own"),
        ]
        functions.append(helper.make_function("own", "Block", ["a", "w"], ["b"], twice, opsets))
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, (4, 16))] for name in "xy"]
    weight = numpy_helper.from_array(np.eye(16, dtype=np.float32) * 2, "w")
    graph = helper.make_graph([*calls], "g", *ends, [weight])
    return helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=10)


def call(function: str, given: str, made: str, name: str = "") -> onnx.NodeProto:
    return helper.make_node(function, [given, "w"], [made], name=name, domain="own")


TWO = model_of(call("Layer", "x", "h", "/encoder/first"), call("Layer", "h", "y", "/encoder/second"))


def test_ops_are_named_after_their_call_and_lie_in_its_module() -> None:
    ops = hetpart.load(TWO).ops
    assert [(op.name, op.scope) for op in ops] == [
        ("/encoder/first/product", "encoder.first"), ("/encoder/first/Relu_1", "encoder.first"),
        ("/encoder/second/product", "encoder.second"), ("/encoder/second/Relu_1", "encoder.second"),
    ]  # fmt: skip
    assert {op.origin.name for op in ops if op.origin} == {"/encoder/first", "/encoder/second"}


def test_calls_in_functions_are_named_after_both() -> None:
    ops = hetpart.load(model_of(call("Block", "x", "y", "block"), nested=True)).ops
    assert [op.name for op in ops] == [
        f"/block/{which}/{what}" for which in ("first", "second") for what in ("product", "Relu_1")
    ]


def test_calls_without_a_name_are_told_apart() -> None:
    ops = hetpart.load(model_of(call("Layer", "x", "h"), call("Layer", "h", "y"))).ops
    assert len({op.name for op in ops}) == len(ops)
    assert len({op.scope for op in ops}) == 2


def test_names_of_calls_that_nest_deep_stay_short() -> None:
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    name = "called_by_a_long_name"
    functions = [
        helper.make_function(
            "own", f"F{n}", ["a"], ["b"], [helper.make_node(inner, ["a"], ["b"], name=name, domain=domain)], opsets
        )
        for n, (inner, domain) in enumerate([*((f"F{n + 1}", "own") for n in range(59)), ("Relu", "")])
    ]
    ends = [[helper.make_tensor_value_info(end, TensorProto.FLOAT, (4, 16))] for end in "xy"]
    graph = helper.make_graph([helper.make_node("F0", ["x"], ["y"], name="call", domain="own")], "g", *ends)
    (op,) = hetpart.load(helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=10)).ops
    assert len(op.name) <= LONGEST + len(name) + 5


def test_a_call_tells_its_ops_where_it_comes_from_and_where_it_is_wanted() -> None:
    wanted = call("Layer", "x", "y", "layer")
    for key, value in (("pkg.torch.onnx.name_scopes", "['', 'body', 'body.layer_1']"), ("hetpart.pin", "cpu")):
        wanted.metadata_props.add(key=key, value=value)
    assert {(op.scope, op.pin) for op in hetpart.load(model_of(wanted)).ops} == {("body", "cpu")}


@pytest.mark.parametrize("what", ["node:/encoder/second", "encoder.second", "encoder.second.*"])
def test_a_call_can_be_pinned_by_name_and_module(what: str) -> None:
    placed = hetpart.partition(TWO, hardware="emulated", pin=[f"{what}=cuda"]).plan
    on_cuda = {op for part in placed.partitions if part.device == "cuda:0" for op in part.ops}
    assert on_cuda >= {"/encoder/second/product", "/encoder/second/Relu_1"}


def test_what_is_pinned_runs_as_the_model_does() -> None:
    whole = onnxruntime.InferenceSession(TWO.SerializeToString(), providers=["CPUExecutionProvider"])
    cut = hetpart.partition(TWO, hardware="emulated", pin=["node:/encoder/second=cuda"]).session(emulate=True)
    assert np.array_equal(cut.run(None, FEED)[0], whole.run(None, FEED)[0])


def test_a_call_is_explained_by_its_name() -> None:
    found = explain(TWO, "/encoder/second", budget="1MB", hardware="l4").explanation
    assert (found.op, found.asked) == ("/encoder/second/product", "/encoder/second")
