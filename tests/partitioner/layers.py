"""A small network whose layers weigh unlike: what to keep on the accelerator is a real choice."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTHS = (64, 2048, 256, 4096, 64, 1024)


def layered(widths: tuple[int, ...] = WIDTHS, rows: int = 64) -> onnx.ModelProto:
    """MatMuls ``layer0``, ``layer1``, … between these widths, each with a weight of its own."""
    last = len(widths) - 2
    nodes = [
        helper.make_node("MatMul", [f"y{i}", f"w{i}"], ["z" if i == last else f"y{i + 1}"], name=f"layer{i}")
        for i in range(last + 1)
    ]
    weights = [
        numpy_helper.from_array(np.full(shape, 0.5, np.float32), f"w{i}") for i, shape in enumerate(pairwise(widths))
    ]
    given = helper.make_tensor_value_info("y0", TensorProto.FLOAT, [rows, widths[0]])
    made = helper.make_tensor_value_info("z", TensorProto.FLOAT, [rows, widths[-1]])
    graph = helper.make_graph(nodes, "layers", [given], [made], weights)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])
