"""What kernels of halves and of bytes take beside inputs and outputs is what ONNX Runtime's arena says of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.cost_model.arenas import measured_peak, predicted_peak, profiled_nodes
from tests.cost_model.float_models import CONTRIB, Sizes, Weights, feeds_of, model_of


def between(
    node: onnx.NodeProto, dtypes: Mapping[str, int], inputs: dict[str, Sizes], made: Sizes, weights: Weights
) -> Any:
    """``node`` on what other ops make of floats, to the one dtype or the other, read by another op."""
    before = [
        maker
        for name in inputs
        for maker in (
            helper.make_node("Erf", [f"{name}_in"], [f"{name}_out"]),
            helper.make_node("Cast", [f"{name}_out"], [name], to=dtypes[name]),
        )
    ]
    behind = [
        helper.make_node("Cast", ["out"], ["floats"], to=TensorProto.FLOAT), helper.make_node("Erf", ["floats"], ["y"])
    ]  # fmt: skip
    given = {f"{name}_in": shape for name, shape in inputs.items()}
    return model_of([*before, node, *behind], given, {"y": made}, weights, 23)


def halves(node: onnx.NodeProto, inputs: dict[str, Sizes], made: Sizes, weights: Weights) -> Any:
    return between(node, dict.fromkeys(inputs, TensorProto.FLOAT16), inputs, made, weights)


def skipping(op_type: str, shape: Sizes, batches: int | None = None) -> Any:
    node = helper.make_node(op_type, ["a", "b", "w"], ["out"], domain=CONTRIB)
    inputs = {"a": shape, "b": (batches or shape[0], *shape[1:])}
    return halves(node, inputs, shape, {"w": np.ones(shape[-1], np.float16)})


def attention(shape: Sizes, keys: int | None = None, **options: Any) -> Any:
    other = (*shape[:2], keys or shape[2], shape[3])
    node = helper.make_node("Attention", ["q", "k", "v"], ["out"], **options)
    return halves(node, {"q": shape, "k": other, "v": other}, shape, {})


def grouped(tokens: int, kept: int, **options: Any) -> Any:
    """Four queries to a key, ``kept`` tokens from before."""
    heads, size, total = 8, 32, tokens + kept
    weights: dict[str, Any] = {name: np.zeros((1, 2, kept, size), np.float16) for name in ("past_k", "past_v")}
    weights |= {"last": np.array([total - 1], np.int32), "total": np.array(total, np.int32)}
    weights |= {name: np.zeros((2048, size // 2), np.float16) for name in ("cos", "sin")}
    names = ["q", "k", "v", *list(weights)[: 6 if options.get("do_rotary") else 4]]
    node = helper.make_node(
        "GroupQueryAttention", names, ["out", "pk", "pv"], domain=CONTRIB, num_heads=heads, kv_num_heads=2, **options
    )
    inputs = {"q": (1, tokens, heads * size), "k": (1, tokens, 2 * size), "v": (1, tokens, 2 * size)}
    model = halves(node, inputs, inputs["q"], {name: weights[name] for name in names[3:]})
    cache = (1, 2, total, size)
    model.graph.output.extend(helper.make_tensor_value_info(n, TensorProto.FLOAT16, cache) for n in ("pk", "pv"))
    return model


def chosen(shape: Sizes, branch: Sizes) -> Any:
    weights = {"s": np.array(0.1, np.float32), "z": np.array(3, np.uint8)}
    node = helper.make_node("QLinearWhere", [*"casz", *"bszsz"], ["out"], domain=CONTRIB)
    dtypes = {"c": TensorProto.BOOL, "a": TensorProto.UINT8, "b": TensorProto.UINT8}
    return between(node, dtypes, {"c": shape, "a": branch, "b": shape}, shape, weights)


def unpacked(inner: int, columns: int) -> Any:
    packed = {"w": np.ones(inner * columns // 2, np.uint8), "m": np.ones(inner * columns // 64, np.float32)}
    node = helper.make_node(
        "MatMulBnb4", ["a", *packed], ["out"], domain=CONTRIB, K=inner, N=columns, block_size=64, quant_type=1
    )
    return between(node, {"a": TensorProto.FLOAT}, {"a": (16, inner)}, (16, columns), packed)


CASES = {
    "SkipLayerNormalization": skipping("SkipLayerNormalization", (2, 256, 768)),
    "SkipLayerNormalization, smaller": skipping("SkipLayerNormalization", (1, 96, 160)),
    "SkipLayerNormalization of what is repeated": skipping("SkipLayerNormalization", (4, 128, 256), 1),
    "SkipSimplifiedLayerNormalization": skipping("SkipSimplifiedLayerNormalization", (8, 64, 512)),
    "Attention": attention((1, 12, 256, 64)),
    "Attention of sequences": attention((2, 6, 96, 64)),
    "Attention of other tokens": attention((1, 4, 64, 64), 512),
    "Attention, causal": attention((1, 4, 256, 64), is_causal=1),
    "GroupQueryAttention": grouped(256, 0),
    "GroupQueryAttention, earlier tokens": grouped(64, 960),
    "GroupQueryAttention, one token": grouped(1, 1023),
    "GroupQueryAttention, rotated": grouped(256, 256, do_rotary=1),
    "GroupQueryAttention, softened": grouped(256, 0, softcap=10.0),
    "QLinearWhere": chosen((1000, 1000), (1000, 1000)),
    "QLinearWhere of a number": chosen((512, 512), (1,)),
    "MatMulBnb4": unpacked(1024, 1024),
}
REACH = 0.001


@pytest.mark.parametrize("name", CASES)
def test_the_scratch_of_a_kernel_is_what_onnx_runtime_takes(name: str, tmp_path: Path) -> None:
    model = CASES[name]
    measured = measured_peak(profiled_nodes(model, feeds_of(model), tmp_path))
    assert predicted_peak(model) == pytest.approx(measured, rel=REACH)
