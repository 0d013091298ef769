"""Kernels that ONNX Runtime makes anew, to compute others on the way, run where the cost model says they do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from tests.cost_model.arenas import measured_peak, predicted_peak, profiled_nodes

SIZE, STAGES = 64, 6
IMAGE = (1, 4, 4, SIZE * SIZE // 16)
WEIGHTS = {
    "third": np.full((), 1 / 3, np.float32),
    "flat": np.array([SIZE * SIZE], np.int64),
    "square": np.array([SIZE, SIZE], np.int64),
    "image": np.array(IMAGE, np.int64),
    "zero": np.zeros((), np.float32),
    "six": np.full((), 6, np.float32),
    "line": np.array([1, 4, SIZE * SIZE // 4], np.int64),
    "filters": np.ones((4, 4, 1), np.float32),
    "ones": np.ones(4, np.float32),
    "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64),
}


def ends(*nodes: tuple[str, str], last: str, **attributes: int) -> list[NodeProto]:
    """Ops one behind the other, from ``end`` to ``y``: each with what it reads beside."""
    made, values = "end", list[NodeProto]()
    for place, (op_type, inputs) in enumerate(nodes):
        behind = last if place == len(nodes) - 1 else f"m{place}"
        given = [made if name == "_" else name for name in inputs.split()]
        values.append(helper.make_node(op_type, given, [behind], **(attributes if op_type == nodes[-1][0] else {})))
        made = behind
    return values


ENDS: Mapping[str, list[NodeProto]] = {
    "a product of what is transposed": ends(("Transpose", "_"), ("MatMul", "_ x"), last="y"),
    "a product of what is scaled": ends(("Mul", "_ third"), ("MatMul", "x _"), last="y"),
    "a Gemm of what is transposed": ends(("Transpose", "_"), ("Gemm", "x _ x"), last="y"),
    "two Reshapes": ends(("Reshape", "_ flat"), ("Reshape", "_ square"), last="y"),
    "a Relu before a Clip": ends(("Relu", "_"), ("Clip", "_ zero six"), last="y"),
    "a convolution before what goes into its weights": ends(
        ("Reshape", "_ line"), ("Conv", "_ filters"), ("BatchNormalization", "_ ones ones ones ones"), last="y"
    ),
    "a Pad before a pool": ends(
        ("Reshape", "_ image"), ("Pad", "_ pads"), ("MaxPool", "_"), last="y", kernel_shape=(3, 3)
    ),
}  # fmt: skip


def model(behind: list[NodeProto]) -> onnx.ModelProto:
    """Stages of which the last leads to ``y``, and behind that a sum of each, the first in the end.

    Sums that come first let go of a stage after the other; a ``y`` that comes first keeps them all.
    """
    stages = [helper.make_node("Erf", [f"s{n}" if n else "x"], [f"s{n + 1}"]) for n in range(STAGES)]
    stages.append(helper.make_node("Erf", [f"s{STAGES}"], ["end"]))
    sums = [helper.make_node("ReduceSum", [f"s{n}"], [f"r{n}"], keepdims=1) for n in range(STAGES, 0, -1)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [SIZE, SIZE])
    made = [helper.make_tensor_value_info(f"r{n}", TensorProto.FLOAT, [1, 1]) for n in range(1, STAGES + 1)]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    weights = [numpy_helper.from_array(content, name) for name, content in WEIGHTS.items()]
    graph = helper.make_graph([*stages, *behind, *sums], "stages", [x], [*made, y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.mark.parametrize("name", ENDS)
def test_a_kernel_runs_in_its_turn(name: str, tmp_path: Path) -> None:
    stages = model(ENDS[name])
    nodes = profiled_nodes(stages, {"x": np.ones((SIZE, SIZE), np.float32)}, tmp_path, thrifty=True)
    assert predicted_peak(stages, thrifty=True) == measured_peak(nodes)


@pytest.mark.parametrize("name", [name for name in ENDS if "before" not in name])
def test_it_is_new_and_so_comes_first(name: str, tmp_path: Path) -> None:
    """Or the other test could not fail."""
    nodes = profiled_nodes(model(ENDS[name]), {"x": np.ones((SIZE, SIZE), np.float32)}, tmp_path, thrifty=True)
    order = [node["args"]["op_name"] for node in nodes]
    assert "ReduceSum" in order[STAGES + 1 :]
    assert "ReduceSum" not in order[: STAGES + 1]
