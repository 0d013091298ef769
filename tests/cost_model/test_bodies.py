"""What bodies take, and ops in half precision, is what ONNX Runtime's arena says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.cost_model.arenas import measured_peak, predicted_peak, profiled_nodes
from tests.cost_model.float_models import FLOAT, Sizes, Weights, feeds_of, model_of

REACH = 0.05
TURN = (96, 160)


def turn(*, scanned: bool) -> list[onnx.NodeProto]:
    """From ``v`` to ``next`` by way of something wider; what is ``seen`` besides."""
    nodes = [
        helper.make_node("MatMul", ["v", "w1"], ["p"]),
        helper.make_node("Erf", ["p"], ["e"]),
        helper.make_node("MatMul", ["e", "w2"], ["q"]),
        helper.make_node("Add", ["q", "v"], ["next"]),
    ]
    return [*nodes, helper.make_node("Sqrt", ["q"], ["seen"])] if scanned else nodes


def turned(node: onnx.NodeProto, inputs: dict[str, Sizes], outputs: dict[str, Sizes], **more: Any) -> Any:
    """``node`` between other ops, with the weights of ``turn``."""
    weights = {"w1": np.zeros((TURN[1], 512), np.float32), "w2": np.zeros((512, TURN[1]), np.float32), **more}
    before = [helper.make_node("Erf", [f"{name}_in"], [name]) for name in inputs]
    behind = [helper.make_node("Erf", [name], [f"{name}_out"]) for name in outputs]
    ends = (
        {f"{name}_{end}": shape for name, shape in side.items()} for end, side in (("in", inputs), ("out", outputs))
    )
    return model_of([*before, node, *behind], *ends, weights)


def typed(*names: str) -> list[onnx.ValueInfoProto]:
    return [helper.make_tensor_value_info(name, FLOAT, TURN) for name in names]


def looped(trips: int, *, scanned: bool) -> Any:
    condition, iteration = ("c", TensorProto.BOOL), ("i", TensorProto.INT64)
    seen = ["seen"] if scanned else []
    body = helper.make_graph(
        [*turn(scanned=scanned), helper.make_node("Identity", ["c"], ["c_out"])], "body",
        [*(helper.make_tensor_value_info(*entry, []) for entry in (iteration, condition)), *typed("v")],
        [helper.make_tensor_value_info("c_out", TensorProto.BOOL, []), *typed("next", *seen)],
    )  # fmt: skip
    node = helper.make_node("Loop", ["limit", "go", "a"], ["last", *(["all"] if scanned else [])], body=body)
    outputs = {"last": TURN} | ({"all": (trips, *TURN)} if scanned else {})
    return turned(node, {"a": TURN}, outputs, limit=np.array(trips), go=np.array(True))


def narrow(trips: int) -> Any:
    """Each turn leaves 64 bytes, which take 256 of the arena."""
    ends = [helper.make_tensor_value_info(*entry, []) for entry in (("i", TensorProto.INT64), ("c", TensorProto.BOOL))]
    nodes = [
        helper.make_node("Identity", ["c"], ["c_out"]),
        helper.make_node("Gather", ["table", "row"], ["taken"]),
        helper.make_node("Relu", ["taken"], ["seen"]),
    ]
    made = [helper.make_tensor_value_info("c_out", TensorProto.BOOL, [])]
    body = helper.make_graph(nodes, "body", ends, [*made, helper.make_tensor_value_info("seen", FLOAT, [16])])
    loop = helper.make_node("Loop", ["limit", "go"], ["all"], body=body)
    weights: Weights = {"limit": np.array(trips), "go": np.array(True), "row": np.array(1)}
    return model_of([loop, helper.make_node("Relu", ["all"], ["y"])], {"table": (9, 16)}, {"y": (trips, 16)}, weights)


def scanning(trips: int) -> Any:
    nodes = [helper.make_node("Add", ["state", "row"], ["v"]), *turn(scanned=True)]
    body = helper.make_graph(nodes, "body", typed("state", "row"), typed("next", "seen"))
    node = helper.make_node("Scan", ["a", "rows"], ["last", "all"], body=body, num_scan_inputs=1)
    return turned(node, {"a": TURN, "rows": (trips, *TURN)}, {"last": TURN, "all": (trips, *TURN)})


def batched(sequences: int, length: int) -> Any:
    """A scan of opset 8, which has no ``Erf`` yet."""
    model = scanning(length)
    (node,) = [node for node in model.graph.node if node.op_type == "Scan"]
    node.input.insert(0, "")
    for other in (*model.graph.node, *next(each.g for each in node.attribute if each.name == "body").node):
        other.op_type = "Sigmoid" if other.op_type == "Erf" else other.op_type
    for value in (*model.graph.input, *model.graph.output):
        dims = value.type.tensor_type.shape.dim
        sizes = [sequences, *(dim.dim_value for dim in dims)]
        dims.add()
        for dim, size in zip(dims, sizes, strict=True):
            dim.dim_value = size
    del model.opset_import[:]
    model.opset_import.append(helper.make_opsetid("", 8))
    return model


def branched() -> Any:
    """Both branches do the same."""
    nodes = [helper.make_node("Identity", ["a"], ["v"]), *turn(scanned=False)]
    branches = {name: helper.make_graph(nodes, name, [], typed("next")) for name in ("then_branch", "else_branch")}
    model = turned(helper.make_node("If", ["c"], ["out"], **branches), {"a": TURN}, {"out": TURN})
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    return model


BODIES: dict[str, Any] = {
    **{f"a loop of {trips}": looped(trips, scanned=False) for trips in (1, 2, 7)},
    **{f"a loop of {trips} that is scanned": looped(trips, scanned=True) for trips in (1, 3, 9)},
    **{f"a scan of {trips}": scanning(trips) for trips in (1, 2, 3, 9)},
    **{
        f"a batch of {many} scans of {length}": batched(many, length)
        for many, length in ((1, 1), (1, 9), (3, 1), (3, 9))
    },
    "a branch": branched(),
    "narrow rows of many turns": narrow(2000),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies_take_what_onnx_runtime_takes(name: str, tmp_path: Path) -> None:
    model = BODIES[name]
    measured = measured_peak(profiled_nodes(model, feeds_of(model), tmp_path))
    assert predicted_peak(model) == pytest.approx(measured, rel=REACH)


def half(nodes: list[tuple[str, str, str]], weights: Weights, shape: Sizes, **options: Any) -> Any:
    """Ops in half precision, each with the names it reads and the one it makes, from ``x`` to ``y``."""
    made = [helper.make_node(kind, read.split(), [name], **options.get(name, {})) for kind, read, name in nodes]
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT16, shape)] for name in "xy"]
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(made, "g", *ends, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


WIDER = {"w": np.zeros((320, 640), np.float16), "w2": np.zeros((640, 320), np.float16)}
HALVES: dict[str, Any] = {
    "no op has a kernel": half(
        [
            ("Add", "x b", "a"), ("MatMul", "a w", "m"), ("Relu", "m", "r"), ("MatMul", "r w2", "k"),
            ("Sigmoid", "k", "y"),
        ],
        {**WIDER, "b": np.zeros(320, np.float16)}, (256, 320),
    ),
    "views between have one": half(
        [
            ("MatMul", "x w", "m"), ("Reshape", "m by_head", "r"), ("Transpose", "r", "t"), ("Erf", "t", "e"),
            ("Reshape", "e flat", "f"), ("MatMul", "f w2", "y"),
        ],
        {**WIDER, "by_head": np.array([8, 32, 640]), "flat": np.array([256, 640])}, (256, 320),
        t={"perm": [0, 2, 1]},
    ),
    "all have one": half(
        [("Concat", "x x", "c"), ("Slice", "c from to", "y")],
        {"from": np.array([128]), "to": np.array([384])}, (256, 320), c={"axis": 0},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HALVES)
def test_half_precision_takes_the_room_of_float32_where_the_cpu_has_no_kernel(name: str, tmp_path: Path) -> None:
    model = HALVES[name]
    measured = measured_peak(profiled_nodes(model, feeds_of(model), tmp_path))
    assert predicted_peak(model) == pytest.approx(measured, rel=REACH)
