"""What a session's arena is predicted to have in use is what ONNX Runtime says it has."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import hetpart
from benchmarks.memory_error import row
from hetpart.cost_model.session.made import IN_PLACE
from tests.cost_model.arenas import measured_peak, predicted_peak, profiled_nodes

REACH = 0.05
SMALL = 64 << 10
"""Bytes of constants that were folded, beside matrices."""
ZOO = ("bert-tiny", "gpt2-tiny", "vit-tiny", "whisper-tiny", "moe-dense-tiny", "dlrm-tiny", "wide-and-deep-tiny")
ALIKE = {
    "BitCast", "Celu", "Cast", "Clip", "Elu", "HardSigmoid", "LeakyRelu", "LogSoftmax", "Relu", "Selu", "Shrink",
    "Sigmoid", "Softmax", "Softplus", "Softsign", "Tanh", "ThresholdedRelu", "Trilu",
}  # fmt: skip
NOT_IN_PLACE = ("Abs", "Erf", "Exp", "Floor", "Gelu", "Neg", "Reciprocal", "Round", "Sign", "Sqrt")
OPTIONS: dict[str, dict[str, Any]] = {name: {"to": TensorProto.INT32} for name in ("BitCast", "Cast")}
NEWER = {"BitCast": 26}
"""The opset where it is not 20."""


def chain(op_type: str) -> onnx.ModelProto:
    """The op between two transpositions, which cannot be done in place."""
    made = TensorProto.INT32 if op_type in OPTIONS else TensorProto.FLOAT
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], perm=[1, 0]),
        helper.make_node(op_type, ["a"], ["b"], name="op", **OPTIONS.get(op_type, {})),
        helper.make_node("Transpose", ["b"], ["y"], perm=[1, 0]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 128])
    y = helper.make_tensor_value_info("y", made, [64, 128])
    graph = helper.make_graph(nodes, op_type, [x], [y])
    opset = NEWER.get(op_type, 20)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


@pytest.mark.parametrize("opset", [10, 13])
def test_a_dropout_whose_mask_is_read_copies(opset: int, tmp_path: Path) -> None:
    model = chain("Dropout")
    model.graph.node[1].output.append("mask")
    model.graph.output.append(helper.make_tensor_value_info("mask", TensorProto.BOOL, [128, 64]))
    model.opset_import[0].version = opset
    nodes = profiled_nodes(model, {"x": np.ones((64, 128), np.float32)}, tmp_path)
    assert predicted_peak(model) == measured_peak(nodes)


TURNED: dict[str, tuple[list[int], list[int], dict[str, Any]]] = {
    "many filters": ([32, 64, 8, 8], [64, 32, 4, 4], {}),
    "along one axis": ([8, 32, 512], [32, 32, 4], {"strides": [2]}),
    "in groups": ([2, 32, 64, 64], [32, 4, 4, 4], {"group": 8, "strides": [2, 2]}),
    "by channel": ([2, 32, 64, 64], [32, 1, 4, 4], {"group": 32, "strides": [2, 2]}),
    "of one channel": ([2, 1, 64, 64], [1, 16, 4, 4], {"strides": [2, 2]}),
}


@pytest.mark.parametrize("thrifty", [False, True])
@pytest.mark.parametrize("name", TURNED)
def test_filters_that_are_turned_lie_in_the_arena(name: str, thrifty: bool, tmp_path: Path) -> None:
    shape, filters, options = TURNED[name]
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("ConvTranspose", ["a", "w"], ["b"], **options),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(np.ones(filters, np.float32), "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    measured = measured_peak(profiled_nodes(model, {"x": np.ones(shape, np.float32)}, tmp_path, thrifty=thrifty))
    assert predicted_peak(model, thrifty=thrifty) == measured


def test_every_op_called_in_place_is_tried() -> None:
    assert IN_PLACE == ALIKE


@pytest.mark.parametrize("op_type", [*sorted(ALIKE), *NOT_IN_PLACE])
def test_which_kernels_write_over_their_input(op_type: str, tmp_path: Path) -> None:
    feeds = {"x": np.ones((64, 128), np.float32)}
    nodes = profiled_nodes(chain(op_type), feeds, tmp_path, optimize=False)
    (taken, *_) = (int(n["args"]["mem_requested_in_use_delta"]) for n in nodes if n["name"] == "op_kernel_time")
    assert (taken == 0) == (op_type in IN_PLACE)


@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_reduction_along_axes_that_a_run_tells_makes_less_than_it_reads(keepdims: int, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], perm=[1, 0]),
        helper.make_node("ReduceL1", ["a", "axes"], ["b"], keepdims=keepdims),
        helper.make_node("Erf", ["b"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [512, 512])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    axes = helper.make_tensor_value_info("axes", TensorProto.INT64, [1])
    graph = helper.make_graph(nodes, "reduction", [x, axes], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    feeds = {"x": np.ones((512, 512), np.float32), "axes": np.array([0], np.int64)}
    assert predicted_peak(model) == measured_peak(profiled_nodes(model, feeds, tmp_path))


@pytest.mark.parametrize("op_type", ["Gelu", "QuickGelu"])
def test_activations_of_onnx_runtime_itself_keep_channels_in_blocks(op_type: str, tmp_path: Path) -> None:
    window = {"kernel_shape": [3, 3], "pads": [1] * 4}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], **window),
        helper.make_node(op_type, ["a"], ["b"], domain="com.microsoft"),
        helper.make_node("Conv", ["b", "w"], ["y"], **window),
    ]
    image = (1, 24, 64, 64)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, image) for name in "xy")
    weight = numpy_helper.from_array(np.ones((24, 24, 3, 3), np.float32), "w")
    opsets = [helper.make_opsetid("", 22), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(
        helper.make_graph(nodes, op_type, [x], [y], [weight]), opset_imports=opsets, ir_version=10
    )
    measured = measured_peak(profiled_nodes(model, {"x": np.ones(image, np.float32)}, tmp_path))
    assert predicted_peak(model) == pytest.approx(measured, rel=REACH)


@dataclass
class Drawing:
    """A graph that grows by ops of many sizes, over and beside each other."""

    rng: random.Random
    shapes: dict[str, tuple[int, int]]
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    weights: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])

    def weight(self, array: np.ndarray[Any, Any]) -> str:
        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def matmul(self, source: str, rows: int, columns: int) -> tuple[list[str], tuple[int, int]]:
        width = self.rng.choice([64, 160, 256, 512, 1024])
        return [source, self.weight(np.zeros((columns, width), np.float32))], (rows, width)

    def reshape(self, source: str, rows: int, columns: int) -> tuple[list[str], tuple[int, int]]:
        shape = (rows * columns // 32, 32)
        return [source, self.weight(np.array(shape, np.int64))], shape

    def alike(self, source: str, rows: int, columns: int) -> tuple[list[str], tuple[int, int]]:
        others = [other for other, size in self.shapes.items() if size == (rows, columns)]
        return [source, self.rng.choice(others)], (rows, columns)

    def grow(self) -> None:
        source, name = self.rng.choice(list(self.shapes)[-6:]), f"v{len(self.nodes)}"
        kind = self.rng.choice(["MatMul", "MatMul", "Relu", "Erf", "Add", "Concat", "Softmax", "Reshape"])
        takes = {"MatMul": self.matmul, "Reshape": self.reshape, "Add": self.alike, "Concat": self.alike}
        rows, columns = self.shapes[source]
        inputs, shape = takes[kind](source, rows, columns) if kind in takes else ([source], (rows, columns))
        node = helper.make_node(kind, inputs, [name], name=f"n{len(self.nodes)}")
        if kind == "Concat":
            node.attribute.append(helper.make_attribute("axis", 1))
            shape = (rows, 2 * columns)
        self.nodes.append(node)
        self.shapes[name] = shape


def drawn(seed: int) -> onnx.ModelProto:
    rng = random.Random(seed)
    drawing = Drawing(rng, {"x": (rng.choice([32, 64, 96]), rng.choice([64, 160, 256]))})
    for _ in range(rng.randrange(5, 40)):
        drawing.grow()
    used = {name for node in drawing.nodes for name in node.input}
    made = {name: shape for name, shape in drawing.shapes.items() if name not in used}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in made.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, drawing.shapes["x"])
    graph = helper.make_graph(drawing.nodes, f"drawn {seed}", [x], ends, drawing.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def feeds_of(model: onnx.ModelProto) -> dict[str, np.ndarray[Any, Any]]:
    dims = model.graph.input[0].type.tensor_type.shape.dim
    return {"x": np.ones([dim.dim_value for dim in dims], np.float32)}


@pytest.mark.parametrize("seed", range(40))
def test_the_peak_of_any_graph_is_what_onnx_runtime_says(seed: int, tmp_path: Path) -> None:
    model = drawn(seed)
    assert predicted_peak(model) == measured_peak(profiled_nodes(model, feeds_of(model), tmp_path))


def test_the_peak_of_thrifty_sessions_is_what_onnx_runtime_says(tmp_path: Path) -> None:
    equal = 0
    for seed in range(40):
        model = drawn(seed)
        measured = measured_peak(profiled_nodes(model, feeds_of(model), tmp_path, thrifty=True))
        predicted = predicted_peak(model, thrifty=True)
        assert predicted == pytest.approx(measured, rel=REACH), seed
        equal += predicted == measured
    assert equal > 38


@pytest.mark.parametrize("thrifty", [False, True])
@pytest.mark.parametrize("name", ZOO)
def test_the_peak_of_real_models_is_near_what_onnx_runtime_says(
    name: str, thrifty: bool, zoo_model: Callable[[str], Path]
) -> None:
    found = row(name, zoo_model(name).parent, thrifty=thrifty)
    assert found.predicted == pytest.approx(found.measured, rel=REACH)
    assert found.packed == pytest.approx(found.prepared, rel=REACH, abs=SMALL)


def routed() -> onnx.ModelProto:
    """Rows that a mask chooses pass through a product."""
    weight = np.random.default_rng(0).standard_normal((64, 256), np.float32)
    nodes = [
        helper.make_node("NonZero", ["mask"], ["chosen"], name="expert.chosen"),
        helper.make_node("Transpose", ["chosen"], ["rows"], name="expert.rows", perm=[1, 0]),
        helper.make_node("GatherND", ["x", "rows"], ["taken"], name="expert.taken"),
        helper.make_node("MatMul", ["taken", "w"], ["up"], name="expert.up"),
        helper.make_node("ReduceSum", ["up"], ["y"], name="sum", keepdims=0),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4096, 64])
    mask = helper.make_tensor_value_info("mask", TensorProto.BOOL, [4096])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [])
    graph = helper.make_graph(nodes, "routed", [x, mask], [y], [numpy_helper.from_array(weight, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.mark.parametrize("quarters", [1, 2, 4])
def test_an_access_profile_tells_what_routed_rows_take(quarters: int, tmp_path: Path) -> None:
    mask = np.arange(4096) % 4 < quarters
    feeds = {"x": np.ones((4096, 64), np.float32), "mask": mask}
    model = hetpart.partition(
        routed(), hardware="l4+generic-2core", placement="all-cpu", access={"expert*": quarters / 4}
    )
    use = model.plan.devices[0]
    expected = use.activation_bytes if use.expected_activation_bytes is None else use.expected_activation_bytes
    assert expected <= use.activation_bytes
    assert expected == pytest.approx(measured_peak(profiled_nodes(routed(), feeds, tmp_path)), rel=REACH)
