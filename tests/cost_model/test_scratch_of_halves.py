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
