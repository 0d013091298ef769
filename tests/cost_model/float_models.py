"""Models of float32 for what ONNX Runtime's arena is asked of."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CONTRIB = "com.microsoft"
FLOAT = TensorProto.FLOAT
Sizes = tuple[int, ...]
Weights = dict[str, np.ndarray[Any, Any]]


def model_of(
    nodes: list[onnx.NodeProto], inputs: dict[str, Sizes], outputs: dict[str, Sizes], weights: Weights, opset: int = 21
) -> onnx.ModelProto:
    """A model of float32 inputs and outputs."""
    ends = [
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in side.items()]
        for side in (inputs, outputs)
    ]
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(CONTRIB, 1)]
    graph = helper.make_graph(nodes, "g", *ends, initializers)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def feeds_of(model: onnx.ModelProto) -> dict[str, np.ndarray[Any, Any]]:
    types = {value.name: value.type.tensor_type for value in model.graph.input}
    return {
        name: np.full([dim.dim_value for dim in kind.shape.dim], 0.5, helper.tensor_dtype_to_np_dtype(kind.elem_type))
        for name, kind in types.items()
    }
