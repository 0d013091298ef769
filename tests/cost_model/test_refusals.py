"""What ONNX Runtime refuses though it has a kernel, against its own answer on the CPU."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph, RuntimeException
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

from hetpart.cost_model.kernels import ONNX_RUNTIME, missing_kernel
from hetpart.devices import Provider
from hetpart.graph.from_onnx import import_onnx
from hetpart.graph.ir import Shape
from tests.cost_model.build import Builder, single
from tests.cost_model.float_models import feeds_of
from tests.cost_model.test_scratch import quantized_mixture

X, RESET = "float[2,2,3] x", "linear_before_reset = 1"


def _is_taken(model: onnx.ModelProto) -> bool:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except (Fail, InvalidGraph, NoKernel):
        return False
    return True


@pytest.mark.parametrize("provider", list(Provider))
@pytest.mark.parametrize(
    ("text", "plain", "refused"),
    [
        ("(float[2,2,3] x, float[1,16,3] u, float[1,16,4] r) => (y) { y = LSTM <OPTION, hidden_size = 4> (x, u, r) }",
         "layout = 0", "layout = 1"),
        ("(float[2,2,3] x, float[1,4,3] u, float[1,4,4] r) => (y) { y = RNN <OPTION, hidden_size = 4> (x, u, r) }",
         "layout = 0", "layout = 1"),
        (f"({X}, float[1,12,3] u, float[1,12,4] r) => (y) {{ y = GRU <OPTION, {RESET}, hidden_size = 4> (x, u, r) }}",
         "layout = 0", "layout = 1"),
        ("(float[1,1,4,8] x) => (float[1,1,4,8] y) { y = Attention <OPTION> (x, x, x) }",
         "is_causal = 1", "left_window_size = 2"),
    ],
)  # fmt: skip
def test_what_onnx_runtime_refuses_has_no_kernel_anywhere(
    provider: Provider, text: str, plain: str, refused: str
) -> None:
    for option in (plain, refused):
        written = text.replace("OPTION", option)
        model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 24]> g {written}')
        node = model.graph.node[0]
        options = {attribute.name: attribute.i for attribute in node.attribute}
        graph = single(node.op_type, [((2, 2, 3), "float32")] * 3, (2, 2, 3), version=24, **options)
        found = missing_kernel(provider, graph.ops[0], graph)
        assert _is_taken(model) == (option == plain)
        assert (found is None) == (option == plain)
        assert found is None or option.split()[0] in found


@pytest.mark.parametrize(
    ("shapes", "runs"),
    [(((2, 32, 32),) * 3, True), (((2, 32, 4, 3, 8),), False), (((2, 32, 32), (2, 64, 4, 2, 8)), False)],
)
def test_attention_with_packed_operands_has_no_kernel_on_the_cpu(
    shapes: tuple[tuple[int, ...], ...], runs: bool
) -> None:
    """ONNX Runtime makes a session of it, and refuses the run."""
    names, made = ["q", "k", "v"][: len(shapes)], (2, 32, 32)
    given = dict(zip(names, shapes, strict=True))
    typed = ", ".join(f"float{list(shape)} {name}" for name, shape in given.items())
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> g ({typed}) => (float{list(made)} y)'
        f"{{ y = com.microsoft.MultiHeadAttention <num_heads = 4> ({', '.join(names)}) }}"
    )
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {name: np.zeros(shape, np.float32) for name, shape in given.items()}
    with nullcontext() if runs else pytest.raises(RuntimeException, match="not implemented for CPU"):
        session.run(None, feeds)
    inputs: list[tuple[Shape | None, str] | None] = [(shape, "float32") for shape in shapes]
    graph = single("MultiHeadAttention", inputs, made, domain="com.microsoft", version=1, num_heads=4)
    assert (missing_kernel(Provider.CPU, graph.ops[0], graph) is None) == runs
    assert missing_kernel(Provider.CUDA, graph.ops[0], graph) is None


@pytest.mark.parametrize(
    ("told", "layers", "runs"),
    [(8, {}, True), (8, {1: 8, 2: 8}, True), (4, {1: 8, 2: 8}, False), (8, {3: 4}, False)],
)
def test_experts_of_mixed_widths_have_no_kernel_on_the_cpu(told: int, layers: dict[int, int], runs: bool) -> None:
    """ONNX Runtime makes a session of it, and refuses the run."""
    model = quantized_mixture(64, 32, 48, 4, 8)
    (node,) = [node for node in model.graph.node if node.op_type == "QMoE"]
    options = {"expert_weight_bits": told} | {f"fc{layer}_expert_weight_bits": bits for layer, bits in layers.items()}
    kept = [attribute for attribute in node.attribute if attribute.name not in options]
    del node.attribute[:]
    node.attribute.extend([*kept, *(helper.make_attribute(*pair) for pair in options.items())])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with nullcontext() if runs else pytest.raises(NoKernel, match="not yet implemented on CPU"):
        session.run(None, feeds_of(model))
    b = Builder()
    operands = [b.value((64, 32)), b.value((64, 4)), b.weight((4, 48, 32), "uint8"), b.weight((4, 48)), None]
    operands += [b.weight((4, 32, 48), "uint8"), b.weight((4, 32))]
    b.op("QMoE", operands, (64, 32), domain="com.microsoft", version=1, **options)
    assert (missing_kernel(Provider.CPU, b.ops[0], b.graph()) is None) == runs


@pytest.mark.parametrize("approximate", ["none", "tanh", None])
def test_a_gelu_of_float64_runs_where_its_body_does(approximate: str | None) -> None:
    """By ``Tanh``, which has a kernel for it; ``Erf`` has none."""
    given = {} if approximate is None else {"approximate": approximate}
    option = f'<approximate = "{approximate}">' if given else ""
    written = f"(double[2] x) => (double[2] y) {{ y = Gelu {option} (x) }}"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 20]> g {written}')
    graph = single("Gelu", [((2,), "float64")], (2,), dtype="float64", **given)
    assert (missing_kernel(Provider.CPU, graph.ops[0], graph) is None) == _is_taken(model)


def _runs(model: onnx.ModelProto) -> bool:
    """Whether ONNX Runtime makes a session of it and runs that."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        session.run(None, feeds_of(model))
    except (Fail, InvalidArgument, NoKernel, RuntimeException):
        return False
    return True


def _experts(activation: str, fused: int = 0, *, third: bool = False) -> str:
    wide = 64 if activation == "swiglu" else 32
    more = ", float[4,32,16] w3" if third else ""
    return (
        f"(float[4,16] x, float[4,4] r, float[4,{wide},16] w1, float[4,16,32] w2{more}) => (float[4,16] y) {{ y = "
        f'com.microsoft.MoE <k = 2, activation_type = "{activation}", swiglu_fusion = {fused}> (x, r, w1, , w2'
        f"{', , w3' if third else ''}) }}"
    )


def _resized(mode: str, scales: tuple[int, ...], dtype: str = "float", antialias: int = 0) -> str:
    made, listed = [4 * scale for scale in scales], ", ".join(map(str, scales))
    return (
        f"({dtype}{[4] * len(scales)} x) => ({dtype}{made} y) <float[{len(scales)}] s = {{ {listed} }}> "
        f'{{ y = Resize <mode = "{mode}", antialias = {antialias}> (x, , s) }}'
    )


def _packed(bits: int, block: int) -> str:
    return (
        f"(float[4,{block}] x, uint8[16,1,{block * bits // 8}] w, float[16] s) => (float[4,16] y) {{ y = "
        f"com.microsoft.MatMulNBits <K = {block}, N = 16, bits = {bits}, block_size = {block}> (x, w, s) }}"
    )


def _scattered(op_type: str, reduction: str, dtype: str) -> str:
    indices = "int64[4]" if op_type == "ScatterElements" else "int64[4,1]"
    return (
        f"({dtype}[8] x, {indices} i, {dtype}[4] u) => ({dtype}[8] y) "
        f'{{ y = {op_type} <reduction = "{reduction}"> (x, i, u) }}'
    )


def _pooled(op_type: str, axes: int) -> str:
    window = "" if op_type.startswith("Global") else f" <kernel_shape = {[1] * axes}>"
    made = [1, 4, *[1 if op_type.startswith("Global") else 2] * axes]
    return f"(float{[1, 4, *[2] * axes]} x) => (float{made} y) {{ y = {op_type}{window} (x) }}"


def _recurrent(op_type: str, gates: int, dtype: str, option: str) -> str:
    return (
        f"({dtype}[2,2,3] x, {dtype}[1,{4 * gates},3] u, {dtype}[1,{4 * gates},4] r) => ({dtype}[2,1,2,4] y) "
        f"{{ y = {op_type} <hidden_size = 4, {option}> (x, u, r) }}"
    )


def _activated(gates: int, name: str) -> str:
    """By one function for all of the gates that have one."""
    words = ", ".join([f'"{name}"'] * {4: 3, 3: 2, 1: 1}[gates])
    return f"activations = [{words}]"


def _of_zero_points(left: str, right: str) -> str:
    return (
        f"(uint8[8,8] a, int8[8,8] b, uint8{left} c, int8{right} d) => (int32[8,8] y) "
        "{ y = MatMulInteger (a, b, c, d) }"
    )


def _convolved_bytes(image: str, filters: str) -> str:
    return (
        f"(uint8[1,4,8,8] x, uint8[4,4,3,3] w, uint8{image} c, uint8{filters} d) => (int32[1,4,6,6] y) "
        "{ y = ConvInteger (x, w, c, d) }"
    )


def _fused_product(activation: str, option: str = "") -> str:
    return (
        "(float[8,8] a, float[8,8] b, float[8] c) => (float[8,8] y) "
        f'{{ y = com.microsoft.FusedGemm <activation = "{activation}"{option}> (a, b, c) }}'
    )


def _fused_convolution(activation: str) -> str:
    parameters = {"Clip": "[0.0, 6.0]", "HardSigmoid": "[0.2, 0.5]", "LeakyRelu": "[0.1]"}.get(activation)
    option = f", activation_params = {parameters}" if parameters else ""
    return (
        "(float[1,4,8,8] x, float[4,4,3,3] w) => (float[1,4,6,6] y) "
        f'{{ y = com.microsoft.FusedConv <activation = "{activation}"{option}> (x, w) }}'
    )


def _packed_experts(bits: int) -> str:
    width, inner = (32 // (8 // bits if 8 % bits == 0 else 2), 64 // (8 // bits if 8 % bits == 0 else 2))
    return (
        f"(float[4,32] x, float[4,2] r, uint8[2,64,{width}] w1, float[2,64] s1, uint8[2,32,{inner}] w2, "
        f"float[2,32] s2) => (float[4,32] y) {{ y = com.microsoft.QMoE <k = 1, expert_weight_bits = {bits}> "
        "(x, r, w1, s1, , w2, s2) }"
    )


GATES = (("LSTM", 4), ("GRU", 3), ("RNN", 1))
NAMED = ("Affine", "Elu", "HardSigmoid", "LeakyRelu", "Relu", "ScaledTanh", "Sigmoid", "Softplus", "Softsign", "Tanh",
         "ThresholdedRelu", "Swish", "tanh")  # fmt: skip
FUSED = ("Affine", "Celu", "Elu", "Gelu", "HardSigmoid", "LeakyRelu", "ParametricSoftplus", "Relu", "ScaledTanh",
         "Selu", "Sigmoid", "Softplus", "Softsign", "Tanh", "ThresholdedRelu")  # fmt: skip
PARAMETERS = tuple(
    "".join(f", activation_{name} = 0.5" for name in names)
    for names in ((), ("alpha",), ("alpha", "beta"), ("alpha", "gamma"))
)
ON_THE_CPU = [
    *(_recurrent(*layer, dtype, "layout = 0") for layer in GATES for dtype in ("float", "double")),
    *(_recurrent(op_type, gates, "float", _activated(gates, name)) for op_type, gates in GATES for name in NAMED),
    *(_of_zero_points(*shapes) for shapes in (
        ("", ""), ("[1]", "[1]"), ("", "[8]"), ("[8]", ""), ("[8,1]", ""), ("", "[1,8]"),
    )),
    *(_convolved_bytes(*shapes) for shapes in (("", ""), ("[1]", "[1]"), ("", "[4]"), ("[4]", ""))),
    *("(float[1,8,64] x, float[64,192] w, float[192] b) => (float[1,8,64] y) "
      f"{{ y = com.microsoft.Attention <num_heads = 2, do_rotary = {rotary}> (x, w, b) }}" for rotary in (0, 1)),
    *("(float[8,8] a, float[6,8] b) => (float[8,6] y) "
      f'{{ y = com.microsoft.CDist <metric = "{metric}"> (a, b) }}'
      for metric in ("euclidean", "sqeuclidean", "cosine", "cityblock")),
    *(_fused_product(activation, option) for activation in FUSED for option in PARAMETERS),
    *(_fused_convolution(activation)
      for activation in ("Clip", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Relu", "Sigmoid", "Tanh")),
    *(_packed_experts(bits) for bits in (1, 2, 3, 4, 5, 8)),
    *(_resized("linear", scales) for scales in (
        (2, 2), (2, 2, 2), (1, 1, 2, 2), (1, 2, 2, 1), (1, 2, 1, 2), (2, 1, 1, 1), (1, 1, 2, 2, 2), (1, 2, 2, 2, 1),
        (1, 1, 1, 1, 2, 2), (2,),
    )),
    *(_resized("cubic", scales) for scales in (
        (2, 2), (1, 1, 2), (1, 1, 2, 2), (1, 2, 2, 1), (1, 2, 1, 2), (1, 1, 2, 2, 2),
    )),
    *(_resized("nearest", (1, 2, 1, 2, 1, 2), antialias=antialias) for antialias in (0, 1)),
    *(_resized("cubic", (1, 1, 2, 2), dtype) for dtype in ("uint8", "int32")),
    *(_pooled(op_type, axes) for op_type in ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool", "MaxPool")
      for axes in (3, 4)),
    *(f'(float[1,2{",4" * axes}] x, float[1{",3" * axes},{axes}] g) => (float[1,2{",3" * axes}] y) '
      f'{{ y = GridSample <mode = "{mode}"> (x, g) }}' for axes in (2, 3) for mode in ("cubic", "linear")),
    *(f"(float[1,4,8,8] x) => (float[1,4,8,8] y) {{ y = LRN <size = {size}> (x) }}" for size in (3, 4)),
    *(_packed(bits, block) for bits, block in ((2, 32), (3, 32), (4, 16), (4, 24), (8, 32))),
    *(_experts(activation) for activation in ("relu", "gelu", "silu", "identity", "softmax", "swiglu")),
    _experts("swiglu", 1), _experts("silu", third=True),
    *(_scattered(op_type, reduction, dtype) for op_type in ("ScatterElements", "ScatterND")
      for reduction in ("none", "add", "max") for dtype in ("float", "float16", "bool")),
]  # fmt: skip


@pytest.mark.parametrize("text", ON_THE_CPU)
def test_what_the_cpu_refuses_by_shape_attribute_or_dtype_has_no_kernel_there(text: str) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> g {text}')
    graph = import_onnx(model).graph
    (op,) = graph.ops
    assert (missing_kernel(Provider.CPU, op, graph) is None) == _runs(model)


FLOATS = ("float", "float16", "double", "bfloat16")


@pytest.mark.parametrize("opset", [23, 24])
@pytest.mark.parametrize(("first", "other"), [(a, b) for a in FLOATS for b in FLOATS])
@pytest.mark.parametrize(
    "text",
    [
        "(FIRST[2,4,8] x, OTHER[8] s) => (OTHER[2,4,8] y) { y = RMSNormalization (x, s) }",
        "(FIRST[1,2,4,8] q, OTHER[1,2,4,8] v) => (FIRST[1,2,4,8] y) { y = Attention (q, q, v) }",
    ],
)
def test_operands_of_several_types_have_kernels_where_onnx_runtime_finds_them(
    text: str, first: str, other: str, opset: int
) -> None:
    written = text.replace("FIRST", first).replace("OTHER", other)
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> g {written}')
    imported = import_onnx(model, {}, ONNX_RUNTIME)
    missing = [missing_kernel(Provider.CPU, op, imported.graph) for op in imported.graph.ops]
    if first != other:
        assert not _is_taken(model)
        assert all(why is not None and "of another type" in why for why in missing)
    elif first != "bfloat16":  # which is computed in float32
        assert _is_taken(imported.proto)
        assert missing == [None] * len(missing)
