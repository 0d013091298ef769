"""Ops between quantization: which ONNX Runtime computes on integers, by dtype, axis, mode and what is constant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.cost_model.arenas import measured_peak, predicted_peak, profiled_nodes
from tests.cost_model.float_models import Sizes, feeds_of
from tests.cost_model.kernels_and_memory import assert_as_onnx_runtime

IMAGE, ROWS = (1, 32, 48, 48), (512, 256)
FILTERS, MATRIX = (64, 32, 3, 3), (256, 384)
U8, S8, U16 = TensorProto.UINT8, TensorProto.INT8, TensorProto.UINT16
node = helper.make_node


def quantized(
    op_type: str,
    shape: Sizes = IMAGE,
    dtype: int = U8,
    *,
    reads: tuple[str, ...] = ("a",),
    attributes: dict[str, Any] | None = None,
    before: tuple[onnx.NodeProto, ...] = (),
    **weights: Any,
) -> onnx.ModelProto:
    """``op_type`` of ``a``, which is dequantized, and of what else it reads; what it makes is quantized alike."""
    nodes = [
        node("Erf", ["x"], ["e"]),
        node("QuantizeLinear", ["e", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["a"]),
        *before,
        node(op_type, [*reads], ["b"], **(attributes or {})),
        node("QuantizeLinear", ["b", "s", "z"], ["r"]),
        node("DequantizeLinear", ["r", "s", "z"], ["d"]),
        node("Erf", ["d"], ["y"]),
    ]
    zero = np.array(3, helper.tensor_dtype_to_np_dtype(dtype))
    held = {"s": np.float32(0.01), "z": zero, **weights}
    ends = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()]
    graph = helper.make_graph(nodes, "g", [ends], [made], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def product(op_type: str, *, bytes_: bool, bias: str, dtype: int = U8) -> onnx.ModelProto:
    """Of weights that are bytes or floats, and of a bias of int32, of floats, or none."""
    shape, sizes = (IMAGE, FILTERS) if op_type == "Conv" else (ROWS, MATRIX)
    count = FILTERS[0] if op_type == "Conv" else MATRIX[1]
    held: dict[str, Any] = {"ws": np.float32(0.001), "wz": np.int8(0), "vs": np.float32(1e-5), "vz": np.int32(0)}
    drawn = np.random.default_rng(0).integers(-99, 33, sizes)
    before: list[onnx.NodeProto] = []
    held["wq" if bytes_ else "w"] = drawn.astype(np.int8) if bytes_ else (drawn / 1000).astype(np.float32)
    if bytes_:
        before.append(node("DequantizeLinear", ["wq", "ws", "wz"], ["w"]))
    if bias:
        held["v" if bias == "floats" else "vq"] = np.ones(count, np.float32 if bias == "floats" else np.int32)
    if bias == "int32":
        before.append(node("DequantizeLinear", ["vq", "vs", "vz"], ["v"]))
    reads = ("a", "w", "v") if bias else ("a", "w")
    attributes = {"pads": [1] * 4} if op_type == "Conv" else {}
    return quantized(op_type, shape, dtype, reads=reads, attributes=attributes, before=tuple(before), **held)


def shaped_anew(op_type: str, dtype: int, weights: dict[str, Any]) -> onnx.ModelProto:
    """Integers in another shape, and as they are for another reader: both lie in one place."""
    model = quantized(op_type, IMAGE, dtype, reads=("a", *weights), **weights)
    later = [node("DequantizeLinear", ["q", "s", "z"], ["p"]), node("Tanh", ["p"], ["w"])]
    nodes = [*model.graph.node[:2], *later, *model.graph.node[2:]]  # what comes last runs first
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.output.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, IMAGE))
    return model


TWICE = {"scales": np.array([1, 1, 2, 2], np.float32)}
MODELS: dict[str, onnx.ModelProto] = {
    **{
        f"{op_type} of {['uint8', 'int8', 'uint16'][place]}": quantized(op_type, dtype=dtype, attributes=attributes)
        for op_type, attributes in (
            ("Sigmoid", {}), ("LeakyRelu", {}), ("Softmax", {}), ("MaxPool", {"kernel_shape": [2, 2]}),
            ("AveragePool", {"kernel_shape": [2, 2]}), ("GlobalAveragePool", {}), ("DepthToSpace", {"blocksize": 2}),
            ("Transpose", {"perm": [0, 2, 3, 1]}),
        )
        for place, dtype in enumerate((U8, S8, U16))
    },
    "Softmax along channels": quantized("Softmax", attributes={"axis": 1}),
    **{
        f"Resize, {mode}": quantized("Resize", reads=("a", "", "scales"), attributes={"mode": mode}, **TWICE)
        for mode in ("nearest", "linear", "cubic")
    },
    "Where of a number": quantized(
        "Where", ROWS, reads=("c", "k", "a"), before=(node("IsNaN", ["x"], ["c"]),), k=np.float32(0.0)
    ),
    "Where of a number behind": quantized(
        "Where", ROWS, reads=("c", "a", "k"), before=(node("IsNaN", ["x"], ["c"]),), k=np.float32(1.0)
    ),
    "Where of a vector of one": quantized(
        "Where", ROWS, reads=("c", "a", "k"), before=(node("IsNaN", ["x"], ["c"]),), k=np.ones(1, np.float32)
    ),
    **{
        f"{op_type} of {'bytes' if bytes_ else 'floats'}, {bias or 'no'} bias{of}": product(
            op_type, bytes_=bytes_, bias=bias, dtype=dtype
        )
        for of, dtype in (("", U8), (", on 16 bits", U16))
        for op_type in ("Conv", "Gemm")
        for bytes_ in (True, False)
        for bias in ("int32", "floats", "")
    },
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_kernels_and_memory_are_onnx_runtimes(name: str, tmp_path: Path) -> None:
    assert_as_onnx_runtime(MODELS[name], name, tmp_path)


@pytest.mark.parametrize("dtype", [U8, S8, U16], ids=["uint8", "int8", "uint16"])
@pytest.mark.parametrize(
    ("op_type", "weights"),
    [
        ("Reshape", {"to": np.array([32, -1])}),
        ("Flatten", {}),
        ("Squeeze", {"axes": [0]}),
        ("Unsqueeze", {"axes": [0]}),
    ],
)
def test_integers_in_another_shape_lie_where_they_lay(
    op_type: str, weights: dict[str, Any], dtype: int, tmp_path: Path
) -> None:
    model = shaped_anew(op_type, dtype, weights)
    measured = measured_peak(profiled_nodes(model, feeds_of(model), tmp_path, thrifty=True))
    assert predicted_peak(model, thrifty=True) == measured
