"""Types of ``com.microsoft`` operators against what ONNX Runtime's kernels make."""

from __future__ import annotations

import re

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

from hetpart.graph.contrib_types import _RULES, contrib_types
from hetpart.graph.from_onnx import import_onnx
from tests.graph.models import every_value

Operands = list[np.ndarray | np.generic | None]
RNG = np.random.default_rng(0)
ON_CUDA_ALONE = frozenset(
    {
        "BiasDropout", "BiasSoftmax", "BiasSplitGelu", "BiasAdd", "GroupNorm", "SkipGroupNorm", "PackedAttention",
        "DecoderMaskedMultiHeadAttention",
    }
)  # fmt: skip


def f(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def q(*shape: int, dtype: str = "uint8") -> np.ndarray:
    return RNG.integers(0, 100, shape).astype(dtype)


def ids(*shape: int) -> np.ndarray:
    return RNG.integers(0, 5, shape).astype(np.int32)


S, Z = np.float32(0.1), np.uint8(3)
PAST = f(1, 2, 4, 8), f(1, 2, 4, 8), ids(1), np.array(5, np.int32)
"""Keys and values before, length of each sequence, and the longest."""
NO_PAST = f(1, 2, 0, 8), f(1, 2, 0, 8), np.array([2], np.int32), np.array(3, np.int32)
CLASSICAL: list[tuple[str, Operands, int, dict[str, object]]] = [
    ("FeatureVectorizer", [f(4, 2), f(4, 3)], 1, {"inputdimensions": [2, 3]}),
    ("LinearRegressor", [f(4, 2)], 1, {"coefficients": [1.0, 2.0, 3.0, 4.0], "targets": 2}),
    (
        "SVMRegressor", [f(4, 2)], 1,
        {"coefficients": [1.0], "rho": [0.1], "n_supports": 1, "support_vectors": [1.0, 2.0],
         "kernel_type": "RBF", "kernel_params": [0.1, 0.0, 3.0]},
    ),
]  # fmt: skip
CASES: list[tuple[str, Operands, int, dict[str, object]]] = [
    *(("FastGelu", [f(*shape)], 1, {}) for shape in ((2, 4, 8), (8,))),
    ("FastGelu", [f(2, 4, 8), f(8)], 1, {}),
    ("BiasGelu", [f(2, 4, 8), f(8)], 1, {}),
    ("Gelu", [f(2, 4, 8)], 1, {}),
    ("QuickGelu", [f(2, 4, 8)], 1, {"alpha": 1.7}),
    ("Inverse", [np.eye(3, dtype=np.float32)[None]], 1, {}),
    ("Trilu", [f(3, 4)], 1, {}),
    ("SkipLayerNormalization", [f(2, 4, 8), f(2, 4, 8), f(8), f(8), f(8)], 1, {}),
    ("SkipLayerNormalization", [f(2, 4, 8), f(4, 8), f(8), f(8), f(8)], 4, {}),
    ("SkipSimplifiedLayerNormalization", [f(2, 4, 8), f(2, 4, 8), f(8)], 4, {}),
    ("EmbedLayerNormalization", [ids(2, 4), ids(2, 4), f(9, 8), f(6, 8), f(5, 8), f(8), f(8), ids(2, 4)], 2, {}),
    ("EmbedLayerNormalization", [ids(2, 4), None, f(9, 8), f(6, 8), None, f(8), f(8)], 3, {}),
    ("FusedMatMul", [f(2, 3, 4), f(4, 5)], 1, {}),
    ("FusedMatMul", [f(1, 3, 4), f(6, 4, 5)], 1, {"alpha": 2.0}),
    ("FusedMatMul", [f(6, 4, 3), f(2, 1, 5, 4)], 1, {"transA": 1, "transB": 1}),
    ("FusedMatMul", [f(3, 2, 4), f(2, 4, 5)], 1, {"transBatchA": 1}),
    ("FusedMatMul", [f(4, 2, 3), f(4, 2, 5)], 1, {"transBatchA": 1, "transA": 1, "transBatchB": 1}),
    ("FusedMatMul", [f(2, 3, 4), f(5, 2, 4)], 1, {"transBatchB": 1, "transB": 1}),
    ("TransposeMatMul", [f(2, 4, 3), f(2, 4, 5)], 1, {"transA": 1}),
    ("FusedGemm", [f(4, 3), f(5, 4), f(5)], 1, {"transA": 1, "transB": 1, "activation": "Relu"}),
    ("DynamicQuantizeMatMul", [f(2, 3, 4), q(4, 5), S, Z], 1, {}),
    ("MatMulIntegerToFloat", [q(2, 3, 4), q(4, 5), S, S, Z, Z], 1, {}),
    ("MatMulNBits", [f(2, 3, 32), q(7, 1, 16), f(7)], 1, {"K": 32, "N": 7, "bits": 4, "block_size": 32}),
    ("CDist", [f(5, 6), f(7, 6)], 1, {"metric": "euclidean"}),
    ("GatherND", [f(3, 4, 5), np.array([[0, 1], [2, 3]])], 1, {}),
    ("GatherND", [f(3, 4, 5), np.array([[0, 1, 2]] * 7)], 1, {}),
    ("GatherBlockQuantized", [q(9, 16), ids(2, 3), f(9, 2)], 1, {"bits": 4, "block_size": 16, "quantize_axis": 1}),
    ("GatherBlockQuantized", [q(9, 32), ids(2, 3), f(9, 2)], 1, {"bits": 8, "block_size": 16, "quantize_axis": 1}),
    ("Attention", [f(2, 4, 8), f(8, 24), f(24)], 1, {"num_heads": 2}),
    ("Attention", [f(2, 4, 6), f(6, 20), f(20)], 1, {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 4]}),
    ("QAttention", [q(2, 4, 8), q(8, 24), f(24), S, S, None, Z, Z], 1, {"num_heads": 2}),
    ("MultiHeadAttention", [f(2, 4, 8), f(2, 6, 8), f(2, 6, 12)], 1, {"num_heads": 2}),
    ("MultiHeadAttention", [f(2, 4, 8), f(2, 2, 6, 4), f(2, 2, 6, 4)], 1, {"num_heads": 2}),
    ("GroupQueryAttention", [f(1, 1, 32), f(1, 1, 16), f(1, 1, 16), *PAST], 3, {"num_heads": 4, "kv_num_heads": 2}),
    ("GroupQueryAttention", [f(1, 1, 64), None, None, *PAST], 3, {"num_heads": 4, "kv_num_heads": 2}),
    ("GroupQueryAttention", [f(1, 3, 32), f(1, 3, 16), f(1, 3, 16), *NO_PAST], 3, {"num_heads": 4, "kv_num_heads": 2}),
    ("RotaryEmbedding", [f(2, 4, 16), np.zeros((2, 4), np.int64), f(8, 4), f(8, 4)], 1, {"num_heads": 2}),
    ("MoE", [f(2, 4, 8), f(8, 3), f(3, 16, 8), None, f(3, 8, 16)], 1, {"k": 1, "activation_type": "relu"}),
    ("QLinearAdd", [q(2, 1, 3), S, Z, q(4, 3), S, Z, S, Z], 1, {}),
    ("QLinearMul", [q(3), S, Z, q(2, 4, 3), S, Z, S, Z], 1, {}),
    ("QLinearSigmoid", [q(2, 3), S, Z, S, Z], 1, {}),
    ("QLinearLeakyRelu", [q(2, 3), S, Z, S, Z], 1, {}),
    ("QLinearSoftmax", [q(2, 3), S, Z, S, Z], 1, {"opset": 13, "axis": -1}),
    ("QLinearConcat", [S, Z, q(2, 3), S, Z, q(2, 5), S, Z], 1, {"axis": 1}),
    ("QLinearConcat", [S, Z, q(2, 3), S, Z, q(4, 3), S, Z], 1, {"axis": -2}),
    ("QGemm", [q(2, 3), S, Z, q(3, 5), S, Z, None, S, Z], 1, {}),
    ("QGemm", [q(2, 3), S, Z, q(5, 3), S, Z], 1, {"transB": 1}),
    ("QuantizeLinear", [f(2, 3), S, Z], 1, {}),
    ("QuantizeLinear", [f(2, 3), S, np.uint16(7)], 1, {}),
    ("DequantizeLinear", [q(2, 3, dtype="uint16"), S, np.uint16(7)], 1, {}),
]  # fmt: skip


def call(
    op_type: str, inputs: Operands, outputs: int, attributes: dict[str, object], domain: str = "com.microsoft"
) -> onnx.ModelProto:
    """The operator on fed values; small operands that kernels want constant are initializers."""
    names = [f"i{position}" if given is not None else "" for position, given in enumerate(inputs)]
    node = helper.make_node(op_type, names, [f"o{i}" for i in range(outputs)], domain=domain, **attributes)
    fed, constants = [], []
    for name, given in zip(names, inputs, strict=True):
        if given is None:
            continue
        content = np.asarray(given)
        if content.ndim and name == "i0":
            fed.append(
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(content.dtype), content.shape)
            )
        else:
            constants.append(numpy_helper.from_array(content, name))
    outs = [onnx.ValueInfoProto(name=name) for name in node.output]
    graph = helper.make_graph([node], "contrib", fed, outs, constants)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(domain, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.mark.parametrize(("op_type", "inputs", "outputs", "attributes"), CASES)
def test_types_are_those_of_the_kernel(
    op_type: str, inputs: Operands, outputs: int, attributes: dict[str, object]
) -> None:
    model = call(op_type, inputs, outputs, attributes)
    feeds = {f"i{position}": np.asarray(given) for position, given in enumerate(inputs) if given is not None}
    imported = import_onnx(model)
    for name, found in every_value(imported, feeds).items():
        value = imported.graph.value_named(name)
        if value.shape is not None and found is not None:
            assert (value.shape, value.dtype, value.nbytes) == (found.shape, found.dtype.name, found.nbytes)
    assert imported.graph.value_named("o0").is_static


@pytest.mark.parametrize(("op_type", "inputs", "outputs", "attributes"), CLASSICAL)
def test_classical_types_are_those_of_the_kernel(
    op_type: str, inputs: Operands, outputs: int, attributes: dict[str, object]
) -> None:
    imported = import_onnx(call(op_type, inputs, outputs, attributes, "ai.onnx.ml"))
    found = every_value(imported, {"i0": inputs[0]})["o0"]
    value = imported.graph.value_named("o0")
    assert (value.shape, value.dtype, value.nbytes) == (found.shape, found.dtype.name, found.nbytes)


def test_every_rule_is_held_against_a_kernel_where_the_cpu_has_one() -> None:
    assert {case[0] for case in CASES} == set(_RULES) - ON_CUDA_ALONE - {"QMoE", "SimplifiedLayerNormalization"} - set(
        IN_BITS
    )


ROWS, NORM = f(2, 3, 32), f(32)


def in_bits(columns: int) -> list[np.ndarray]:
    """A weight, its scales and its bias."""
    return [q(columns, 1, 16), f(columns, 1), f(columns)]


IN_BITS: dict[str, tuple[list[np.ndarray], int, dict[str, object]]] = {
    "MatMulNBitsMlp": ([ROWS, ROWS, NORM, *in_bits(7), *in_bits(7)], 2, {"N": 7, "activation": "silu"}),
    "MatMulNBitsQkv": ([ROWS, ROWS, NORM, *in_bits(8), *in_bits(4), *in_bits(4)], 4, {"Nq": 8, "Nkv": 4}),
}
"""Of these no provider here has a kernel."""


@pytest.mark.parametrize("op_type", IN_BITS)
def test_types_without_a_kernel_are_those_that_onnx_runtime_infers(
    op_type: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """It complains of every output whose shape is declared otherwise."""
    inputs, outputs, attributes = IN_BITS[op_type]
    model = call(op_type, inputs, outputs, {"K": 32, "bits": 4, "block_size": 32, **attributes})
    graph = import_onnx(model).graph
    for output in model.graph.output:
        output.CopyFrom(helper.make_tensor_value_info(output.name, onnx.TensorProto.FLOAT, [99, 99, 99]))
    with pytest.raises(NoKernel):
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    said = dict(re.findall(r"for output\. '(\w+)' source:\{([\d,]+)\}", capfd.readouterr().err))
    assert {name: ",".join(map(str, graph.value_named(name).shape or ())) for name in said} == said
    assert len(said) == outputs


@pytest.mark.parametrize(("op_type", "inputs", "outputs", "attributes"), CASES)
def test_unknown_operands_give_no_type_and_no_error(
    op_type: str, inputs: Operands, outputs: int, attributes: dict[str, object]
) -> None:
    node = call(op_type, inputs, outputs, attributes).graph.node[0]
    unranked = onnx.TypeProto()
    unranked.tensor_type.elem_type = 1
    scalar = helper.make_tensor_type_proto(1, [])
    for known in ({}, dict.fromkeys(node.input, unranked), dict.fromkeys(node.input, scalar)):
        contrib_types(node, known)
    del node.input[1:]
    del node.attribute[:]
    contrib_types(node, dict.fromkeys(node.input, helper.make_tensor_type_proto(1, [2, 3, 4])))
    del node.input[:]
    assert contrib_types(node, {}) == {}


def test_another_domain_has_no_rule() -> None:
    node = helper.make_node("FastGelu", ["a"], ["b"], domain="own")
    assert contrib_types(node, {"a": helper.make_tensor_type_proto(1, [2])}) == {}
