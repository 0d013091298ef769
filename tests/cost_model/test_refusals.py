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
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph, RuntimeException
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

from hetpart.cost_model.kernels import missing_kernel
from hetpart.devices import Provider
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
