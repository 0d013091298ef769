"""What kernels take beside inputs and outputs is what ONNX Runtime's arena says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from hetpart.cost_model.session.scratch import FAMILIES, SCRATCH
from hetpart.cost_model.session.scratch.table import at_once, scratch
from tests.cost_model.arenas import measured_peak, predicted_peak, profiled_nodes
from tests.cost_model.float_models import CONTRIB, FLOAT, Sizes, Weights, feeds_of, model_of

REACH = 0.05


def between(node: onnx.NodeProto, inputs: dict[str, Sizes], made: Sizes, weights: Weights, opset: int = 21) -> Any:
    """``node`` on what other ops make, read by another op. Its first output is ``made``, its inputs are ``inputs``."""
    before = [helper.make_node("Erf", [f"{name}_in"], [name]) for name in inputs]
    behind = helper.make_node("Erf", [node.output[0]], ["y"])
    given = {f"{name}_in": shape for name, shape in inputs.items()}
    return model_of([*before, node, behind], given, {"y": made}, weights, opset)


def of_given_weights(**level: int) -> Any:
    """A product with packed weights that are no constants."""
    product = helper.make_node(
        "MatMulNBits", ["a", "w", "s"], ["out"], domain=CONTRIB, K=384, N=640, bits=4, block_size=32, **level
    )
    model = between(product, {"a": (256, 384)}, (256, 640), {"s": np.ones(640 * 12, np.float32)})
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.UINT8, (640, 12, 16)))
    return model


def recurrent(op_type: str, direction: str, *, bias: bool = True, last: bool = False, **options: int) -> Any:
    """Of 48 steps, 8 sequences, 128 inputs and 256 states."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op_type] * 256
    ways = 2 if direction == "bidirectional" else 1
    weights = {"w": np.zeros((ways, gates, 128), np.float32), "r": np.zeros((ways, gates, 256), np.float32)}
    if bias:
        weights["b"] = np.zeros((ways, 2 * gates), np.float32)
    outputs = ["", "out"] if last else ["out"]
    node = helper.make_node(op_type, ["a", *weights], outputs, hidden_size=256, direction=direction, **options)
    made = (ways, 8, 256) if last else (48, ways, 8, 256)
    # Another op reads "out" wherever it stands among the outputs.
    before = helper.make_node("Erf", ["a_in"], ["a"])
    behind = helper.make_node("Erf", ["out"], ["y"])
    return model_of([before, node, behind], {"a_in": (48, 8, 128)}, {"y": made}, weights)


def einsum(equation: str, *shapes: Sizes, made: Sizes) -> Any:
    names = [f"a{number}" for number in range(len(shapes))]
    node = helper.make_node("Einsum", names, ["out"], equation=equation)
    return between(node, dict(zip(names, shapes, strict=True)), made, {})


def alike(op_type: str, inputs: int = 1, shape: Sizes = (8, 96, 160), **options: int) -> Any:
    names = [f"a{number}" for number in range(inputs)]
    return between(helper.make_node(op_type, names, ["out"], **options), dict.fromkeys(names, shape), shape, {})


TOKENS, HEADS, SIZE, BATCH = 96, 6, 64, 2
WIDTH = HEADS * SIZE


def multi_head(rest: tuple[str, ...] = (), *, keys: int = TOKENS, **options: int) -> Any:
    weights: Weights = {
        "bias": np.zeros(3 * WIDTH, np.float32),
        "lengths": np.full(BATCH, keys, np.int32),
        "scores": np.zeros((1, 1, TOKENS, keys), np.float32),
    }
    node = helper.make_node(
        "MultiHeadAttention", ["q", "k", "v", *rest], ["out"], domain=CONTRIB, num_heads=HEADS, **options
    )
    inputs = {"q": (BATCH, TOKENS, WIDTH), "k": (BATCH, keys, WIDTH), "v": (BATCH, keys, WIDTH)}
    return between(node, inputs, (BATCH, TOKENS, WIDTH), {name: weights[name] for name in rest if name})


def grouped(tokens: int, kept: int, **options: int) -> Any:
    """Four queries to a key, ``kept`` tokens from before."""
    heads, total = 8, tokens + kept
    cache = {name: np.zeros((1, 2, kept, SIZE), np.float32) for name in ("past_k", "past_v")}
    rotation = {name: np.zeros((512, SIZE // 2), np.float32) for name in ("cos", "sin")}
    weights = {**cache, "last": np.array([total - 1], np.int32), "total": np.array(total, np.int32), **rotation}
    names = ["q", "k", "v", *list(weights)[: 6 if options.get("do_rotary") else 4]]
    node = helper.make_node(
        "GroupQueryAttention", names, ["out", "pk", "pv"], domain=CONTRIB, num_heads=heads, kv_num_heads=2, **options
    )
    inputs = {"q": (1, tokens, heads * SIZE), "k": (1, tokens, 2 * SIZE), "v": (1, tokens, 2 * SIZE)}
    made = between(node, inputs, inputs["q"], {name: weights[name] for name in names[3:]})
    made.graph.output.extend(helper.make_tensor_value_info(name, FLOAT, (1, 2, total, SIZE)) for name in ("pk", "pv"))
    return made


def projecting(*rest: str, heads: int = HEADS, tokens: int = TOKENS, size: int = SIZE) -> Any:
    width = heads * size
    weights: Weights = {
        "w": np.zeros((width, 3 * width), np.float32),
        "b": np.zeros(3 * width, np.float32),
        "mask": np.ones((BATCH, tokens), np.int32),
    }
    names = ["w", "b", *rest]
    node = helper.make_node("Attention", ["x", *names], ["out"], domain=CONTRIB, num_heads=heads)
    shape = (BATCH, tokens, width)
    return between(node, {"x": shape}, shape, {name: weights[name] for name in names})


def standard(width: int = WIDTH, tokens: int = TOKENS, **options: int) -> Any:
    node = helper.make_node("Attention", ["q", "k", "v"], ["out"], **options)
    shape = (BATCH, tokens, width) if options.get("q_num_heads") else (BATCH, HEADS, tokens, SIZE)
    return between(node, dict.fromkeys("qkv", shape), shape, {}, opset=23)


def quantized(node: onnx.NodeProto, given: Sizes, made: Sizes, weights: Weights) -> Any:
    """``node`` from ``q`` to ``out``, which are bytes, between floats."""
    scale, zero = np.array(0.1, np.float32), np.array(3, np.uint8)
    nodes = [
        helper.make_node("Erf", ["x"], ["a"]),
        helper.make_node("QuantizeLinear", ["a", "s", "z"], ["q"]),
        node,
        helper.make_node("DequantizeLinear", ["out", "s", "z"], ["d"]),
        helper.make_node("Erf", ["d"], ["y"]),
    ]
    return model_of(nodes, {"x": given}, {"y": made}, {"s": scale, "z": zero, **weights})


def quantized_product(op_type: str, domain: str, names: tuple[str, ...], given: Sizes = (256, 384)) -> Any:
    weights = {"w": np.ones((384, 640), np.int8), "wz": np.array(0, np.int8)}
    node = helper.make_node(op_type, names, ["out"], domain=domain)
    return quantized(node, given, (*given[:-1], 640), weights)


def between_quantizers() -> Any:
    """A product whose operands are dequantized and whose result is quantized."""
    nodes = [
        helper.make_node("Erf", ["x"], ["a"]),
        helper.make_node("QuantizeLinear", ["a", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["left"]),
        helper.make_node("DequantizeLinear", ["w", "s", "wz"], ["right"]),
        helper.make_node("MatMul", ["left", "right"], ["product"]),
        helper.make_node("QuantizeLinear", ["product", "s", "z"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "s", "z"], ["d"]),
        helper.make_node("Erf", ["d"], ["y"]),
    ]
    weights: Weights = {"w": np.ones((384, 640), np.int8), "wz": np.array(0, np.int8)}
    weights |= {"s": np.array(0.1, np.float32), "z": np.array(3, np.uint8)}
    return model_of(nodes, {"x": (256, 384)}, {"y": (256, 640)}, weights)


def quantizing(products: int) -> Any:
    """Products of integers, as ``quantize_dynamic`` writes them, of one tensor that is quantized as it comes."""
    nodes = [
        helper.make_node("Erf", ["x"], ["a"]),
        helper.make_node("DynamicQuantizeLinear", ["a"], ["q", "qs", "qz"]),
    ]
    for n in range(products):
        nodes += [
            helper.make_node("MatMulInteger", ["q", "w", "qz", "wz"], [f"i{n}"]),
            helper.make_node("Cast", [f"i{n}"], [f"f{n}"], to=FLOAT),
            helper.make_node("Mul", ["qs", f"s{n}"], [f"m{n}"]),
            helper.make_node("Mul", [f"f{n}", f"m{n}"], [f"g{n}"]),
            helper.make_node("Erf", [f"g{n}"], [f"y{n}"]),
        ]
    weights: Weights = {"w": np.ones((384, 640), np.int8), "wz": np.array(0, np.int8)}
    weights |= {f"s{n}": np.array(0.1 + n, np.float32) for n in range(products)}
    return model_of(nodes, {"x": (256, 384)}, {f"y{n}": (256, 640) for n in range(products)}, weights)


def weighted(op_type: str, shape: Sizes, made: Sizes, weight: np.ndarray[Any, Any], **options: Any) -> Any:
    return between(helper.make_node(op_type, ["a", "w"], ["out"], **options), {"a": shape}, made, {"w": weight})


def mixture(tokens: int, width: int, inner: int, experts: int, *, gated: bool = False, **options: Any) -> Any:
    """Two experts a token; all tokens go to the same ones, and there is room for more."""
    first = 2 * inner if gated else inner
    weights: Weights = {
        "before": np.ones((experts, first, width), np.float32), "behind": np.ones((experts, width, inner), np.float32)
    }  # fmt: skip
    options |= {"activation_type": "swiglu", "swiglu_fusion": 1} if gated else {}
    names = ["a", "router", "before", "", "behind"]
    node = helper.make_node("MoE", names, ["out"], domain=CONTRIB, k=2, **options)
    return between(node, {"a": (tokens, width), "router": (tokens, experts)}, (tokens, width), weights)


def quantized_mixture(tokens: int, width: int, inner: int, experts: int, bits: int) -> Any:
    """Of few bits; every token goes to every expert."""
    packed = 8 // bits
    weights: Weights = {
        "before": np.full((experts, inner, width // packed), 0x77, np.uint8),
        "before_scale": np.ones((experts, inner), np.float32),
        "behind": np.full((experts, width, inner // packed), 0x77, np.uint8),
        "behind_scale": np.ones((experts, width), np.float32),
    }
    names = ["a", "router", "before", "before_scale", "", "behind", "behind_scale"]
    options = {"k": experts, "activation_type": "relu", "expert_weight_bits": bits}
    node = helper.make_node("QMoE", names, ["out"], domain=CONTRIB, **options)
    return between(node, {"a": (tokens, width), "router": (tokens, experts)}, (tokens, width), weights)


def chosen(condition: Sizes, one: Sizes, other: Sizes, made: Sizes) -> Any:
    weights: Weights = {"c": np.zeros(condition, np.bool_)}
    node = helper.make_node("Where", ["c", "a", "b"], ["out"])
    return between(node, {"a": one, "b": other}, made, weights)


def resized(mode: str, given: Sizes, scales: tuple[float, ...]) -> Any:
    """Smoothed as it is resized."""
    made = tuple(int(size * scale) for size, scale in zip(given, scales, strict=True))
    node = helper.make_node("Resize", ["a", "", "scales"], ["out"], mode=mode, antialias=1)
    return between(node, {"a": given}, made, {"scales": np.array(scales, np.float32)})


def trained(image: Sizes) -> Any:
    """Running means and variances are read too."""
    weights: Weights = {name: np.ones(image[1], np.float32) for name in ("scale", "bias", "mean", "variance")}
    node = helper.make_node("BatchNormalization", ["a", *weights], ["out", "m", "v"], training_mode=1)
    model = between(node, {"a": image}, image, weights)
    for name in "mv":
        model.graph.node.append(helper.make_node("Erf", [name], [f"{name}_out"]))
        model.graph.output.append(helper.make_tensor_value_info(f"{name}_out", FLOAT, image[1:2]))
    return model


def activated(op_type: str, *, bias: bool) -> Any:
    node = helper.make_node(op_type, ["a", "w"] if bias else ["a"], ["out"], domain=CONTRIB)
    return between(node, {"a": (256, 1024)}, (256, 1024), {"w": np.ones(1024, np.float32)} if bias else {})


CASES: dict[str, Any] = {
    "LSTM": recurrent("LSTM", "forward"),
    "LSTM both ways": recurrent("LSTM", "bidirectional"),
    "LSTM backward without bias": recurrent("LSTM", "reverse", bias=False),
    "LSTM, last state": recurrent("LSTM", "forward", last=True),
    "GRU": recurrent("GRU", "forward"),
    "GRU, linear before reset": recurrent("GRU", "bidirectional", linear_before_reset=1),
    "GRU backward": recurrent("GRU", "reverse", bias=False),
    "GRU, last state": recurrent("GRU", "forward", last=True),
    "RNN both ways": recurrent("RNN", "bidirectional"),
    "RNN, last state": recurrent("RNN", "forward", last=True),
    "Einsum of scores": einsum("bqhd,bkhd->bhqk", (2, 96, 6, 64), (2, 96, 6, 64), made=(2, 6, 96, 96)),
    "Einsum of values": einsum("bhqk,bkhd->bqhd", (2, 6, 96, 96), (2, 96, 6, 64), made=(2, 96, 6, 64)),
    "Einsum of matrices": einsum("ij,jk->ik", (384, 256), (256, 640), made=(384, 640)),
    "Einsum, transposed": einsum("ij,kj->ik", (512, 256), (1024, 256), made=(512, 1024)),
    "Einsum of three": einsum("ij,jk,kl->il", (256, 256), (256, 512), (512, 128), made=(256, 128)),
    "Einsum that transposes": einsum("bij->bji", (8, 192, 256), made=(8, 256, 192)),
    "Einsum that sums up": einsum("bij->bi", (8, 192, 256), made=(8, 192)),
    "Einsum of vectors": einsum("i,j->ij", (640,), (384,), made=(640, 384)),
    "Einsum, row by row": einsum("bhi,bhi->bh", (8, 64, 256), (8, 64, 256), made=(8, 64)),
    "Einsum of any batch": einsum("...ij,...jk->...ik", (4, 96, 64), (4, 64, 160), made=(4, 96, 160)),
    "MultiHeadAttention": multi_head(),
    "MultiHeadAttention on more keys": multi_head(keys=160),
    "MultiHeadAttention, causal": multi_head(unidirectional=1),
    "MultiHeadAttention with bias": multi_head(("bias",)),
    "MultiHeadAttention with lengths": multi_head(("", "lengths")),
    "MultiHeadAttention with scores": multi_head(("", "", "scores")),
    "GroupQueryAttention": grouped(64, 128),
    "GroupQueryAttention, one token": grouped(1, 511),
    "GroupQueryAttention, rotated": grouped(64, 128, do_rotary=1),
    "Attention that projects": projecting(),
    "Attention that projects, masked": projecting("mask"),
    "Attention that projects a mebibyte of scores": projecting(heads=8, tokens=128, size=32),
    "Attention by head": standard(),
    "Attention by token, causal": standard(is_causal=1, q_num_heads=HEADS, kv_num_heads=HEADS),
    "Attention by token, causal, a mebibyte of scores": standard(256, 128, is_causal=1, q_num_heads=8, kv_num_heads=8),
    "QLinearMatMul": quantized_product("QLinearMatMul", "", ("q", "s", "z", "w", "s", "wz", "s", "z"), (4, 96, 384)),
    "QGemm": quantized_product("QGemm", CONTRIB, ("q", "s", "z", "w", "s", "wz", "", "s", "z")),
    "QLinearAveragePool": quantized(
        helper.make_node(
            "QLinearAveragePool", [*"qszsz"], ["out"], domain=CONTRIB, kernel_shape=[2, 2], strides=[2, 2]
        ),
        (1, 96, 28, 28), (1, 96, 14, 14), {},
    ),
    "QLinearSigmoid": quantized(
        helper.make_node("QLinearSigmoid", [*"qszsz"], ["out"], domain=CONTRIB), (96, 160), (96, 160), {}
    ),
    "MatMul between quantizers": between_quantizers(),
    "MatMulInteger behind a quantizer": quantizing(1),
    "two of one quantizer": quantizing(2),
    "DynamicQuantizeMatMul": between(
        helper.make_node("DynamicQuantizeMatMul", ["a", "w", "s", "z"], ["out"], domain=CONTRIB),
        {"a": (256, 384)}, (256, 640),
        {"w": np.ones((384, 640), np.int8), "s": np.array(0.1, np.float32), "z": np.array(0, np.int8)},
    ),
    "MatMulNBits on integers": between(
        helper.make_node(
            "MatMulNBits", ["a", "w", "s"], ["out"], domain=CONTRIB, K=384, N=640, bits=4, block_size=32,
            accuracy_level=4,
        ),
        {"a": (256, 384)}, (256, 640),
        {"w": np.ones((640, 12, 16), np.uint8), "s": np.ones(640 * 12, np.float32)},
    ),
    **{
        f"MatMulNBits of {bits} bits": between(
            helper.make_node(
                "MatMulNBits", ["a", "w", "s"], ["out"], domain=CONTRIB, K=384, N=640, bits=bits, block_size=32
            ),
            {"a": (256, 384)}, (256, 640),
            {"w": np.ones((640, 12, 4 * bits), np.uint8), "s": np.ones(640 * 12, np.float32)},
        )
        for bits in (2, 4, 8)
    },
    "MatMulNBits of given weights": of_given_weights(),
    "MatMulNBits of given weights, on integers": of_given_weights(accuracy_level=4),
    "ConvTranspose": weighted(
        "ConvTranspose", (2, 64, 28, 28), (2, 32, 56, 56), np.zeros((64, 32, 2, 2), np.float32), strides=[2, 2]
    ),
    "ConvTranspose in groups": weighted(
        "ConvTranspose", (1, 64, 28, 28), (1, 64, 30, 30), np.zeros((64, 32, 3, 3), np.float32), group=2
    ),
    "Softmax along the first axis": alike("Softmax", axis=0),
    "Softmax along the last": alike("Softmax", axis=-1),
    "LogSoftmax along the middle": alike("LogSoftmax", axis=1),
    "Hardmax along the middle": alike("Hardmax", axis=1),
    "Max of three": alike("Max", 3),
    "Sum of four": alike("Sum", 4),
    "Mean of five": alike("Mean", 5),
    "MeanVarianceNormalization": alike("MeanVarianceNormalization", shape=(2, 8, 28, 28)),
    "LRN": alike("LRN", shape=(2, 32, 28, 28), size=5),
    "Where": chosen((96, 160), (96, 160), (96, 160), (96, 160)),
    "Where of masked scores": chosen((256, 256), (1,), (8, 256, 256), (8, 256, 256)),
    "Where of a row or a column": chosen((8, 1, 1), (8, 1, 320), (96, 1), (8, 96, 320)),
    **{
        f"Resize {mode} of {len(given)} dimensions by {scales[-2:]}": resized(mode, given, scales)
        for mode, given, scales in (
            ("linear", (2, 8, 256, 256), (1, 1, 0.5, 0.5)),
            ("cubic", (2, 8, 256, 256), (1, 1, 0.5, 0.25)),
            ("linear", (1, 8, 128, 128), (1, 1, 2, 2)),
            ("cubic", (2, 256, 256, 8), (1, 0.5, 0.5, 1)),
            ("linear", (512, 1024), (0.5, 0.5)),
            ("linear", (8, 256, 256), (1, 0.5, 0.5)),
            ("linear", (2, 4, 32, 64, 64), (1, 1, 0.5, 0.5, 0.5)),
        )
    },
    "BatchNormalization in training": trained((4, 64, 64, 64)),
    "BatchNormalization in training, of rows": trained((512, 1024)),
    "FastGelu": activated("FastGelu", bias=False),
    "FastGelu with a bias": activated("FastGelu", bias=True),
    **{
        f"Einsum {equation}": einsum(equation, *shapes, made=made)
        for equation, shapes, made in (
            ("iij->j", [(128, 128, 64)], (64,)),
            ("iji->ij", [(128, 64, 128)], (128, 64)),
            ("bii->bi", [(16, 256, 256)], (16, 256)),
            ("iiij->j", [(24, 24, 24, 64)], (64,)),
            ("iijj->ij", [(32, 32, 32, 32)], (32, 32)),
            ("ij,iij->j", [(128, 64), (128, 128, 64)], (64,)),
        )
    },
    "MoE of equal buffers": mixture(256, 256, 256, 4, activation_type="relu"),
    "MoE of equal buffers, wide": mixture(256, 512, 1024, 4, activation_type="relu"),
    "MoE with gates": mixture(256, 128, 256, 8, gated=True),
    "MoE with gates, of odd sizes": mixture(200, 130, 270, 5, gated=True),
    "MoE": mixture(200, 96, 160, 4, activation_type="relu"),
    "MoE of eight": mixture(256, 160, 96, 8, activation_type="silu"),
    "MoE, wide": mixture(96, 256, 64, 4, activation_type="gelu"),
    "MoE, normalized": mixture(256, 128, 128, 4, activation_type="gelu", normalize_routing_weights=1),
    "QMoE of 4 bits": quantized_mixture(200, 96, 160, 4, 4),
    "QMoE of 8 bits": quantized_mixture(256, 160, 96, 8, 8),
    "BiasGelu": between(
        helper.make_node("BiasGelu", ["a", "b"], ["out"], domain=CONTRIB), {"a": (96, 160)}, (96, 160),
        {"b": np.zeros(160, np.float32)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_scratch_of_a_kernel_is_what_onnx_runtime_takes(name: str, tmp_path: Path) -> None:
    model = CASES[name]
    measured = measured_peak(profiled_nodes(model, feeds_of(model), tmp_path))
    assert predicted_peak(model) == pytest.approx(measured, rel=REACH)


def test_two_formulas_for_one_kernel_are_a_mistake() -> None:
    domain, op_type = next((domain, op_type) for _, domain, op_type in SCRATCH)
    with pytest.raises(ValueError, match="two formulas"):
        scratch(op_type, domain=domain)(lambda _o, _threads: at_once(1))


def test_every_family_fills_the_table() -> None:
    assert all(any(row.__module__ == family.__name__ for row in SCRATCH.values()) for family in FAMILIES)
