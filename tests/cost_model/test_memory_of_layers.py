"""What modules of PyTorch and alike layers take is what ONNX Runtime's arena says of them, and their kernels run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.cost_model.float_models import Sizes, Weights, model_of
from tests.cost_model.kernels_and_memory import assert_as_onnx_runtime

HEADS: Sizes = (2, 4, 100, 16)


def activated_rows() -> Any:
    """A product of batches, which has a Reshape behind it, and a Relu that may write over what that shows."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "v"], ["y"]),
    ]
    weights: Weights = {name: np.ones(shape, np.float32) for name, shape in (("w", (64, 256)), ("v", (256, 64)))}
    return model_of(nodes, {"x": (4, 100, 64)}, {"y": (4, 100, 64)}, weights | {"b": np.ones(256, np.float32)})


def heads_apart(scale: str | None) -> Any:
    """Attention as ``torch.nn.MultiheadAttention`` writes it: heads lie between tokens and their elements."""
    weights: Weights = {"heads": np.array(HEADS), "flat": np.array((8, 100, 16)), "c": np.array(0.5, np.float32)}
    nodes = [helper.make_node("Erf", [f"{name}_in"], [name]) for name in "qkv"]
    for name in "qkv":
        nodes.append(helper.make_node("Transpose", [name], [f"{name}_turned"], perm=[1, 0, 2]))
        nodes.append(helper.make_node("Reshape", [f"{name}_turned", "heads"], [f"{name}_heads"]))
    nodes.append(helper.make_node("Transpose", ["k_heads"], ["k_last"], perm=[0, 1, 3, 2]))
    if scale:
        nodes.append(helper.make_node(scale, ["q_heads", "c"], ["q_scaled"]))
    nodes += [
        helper.make_node("MatMul", ["q_scaled" if scale else "q_heads", "k_last"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["likely"]),
        helper.make_node("MatMul", ["likely", "v_heads"], ["y"]),
    ]
    return model_of(nodes, {f"{name}_in": (100, 8, 16) for name in "qkv"}, {"y": HEADS}, weights)


def turned_batches(scale: str, *, scaled_first: bool) -> Any:
    turn, by = {"perm": [1, 0, 2]}, ["c"]
    first, second = (scale, "Transpose") if scaled_first else ("Transpose", scale)
    nodes = [
        helper.make_node("Erf", ["x"], ["a"]),
        helper.make_node(first, ["a", *(by if scaled_first else ())], ["b"], **({} if scaled_first else turn)),
        helper.make_node(second, ["b", *(() if scaled_first else by)], ["d"], **(turn if scaled_first else {})),
        helper.make_node("MatMul", ["d", "k"], ["y"]),
    ]
    inputs: dict[str, Sizes] = {"x": (100, 8, 64), "k": (8, 64, 100)}
    return model_of(nodes, inputs, {"y": (8, 100, 100)}, {"c": np.array(0.5, np.float32)})


def masked() -> Any:
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["a"]),
        helper.make_node("Where", ["mask", "c", "a"], ["b"]),
        helper.make_node("Softmax", ["b"], ["y"]),
    ]
    weights: Weights = {"mask": np.eye(256, dtype=np.bool_), "c": np.array(-1e9, np.float32)}
    return model_of(nodes, {"x": (8, 256, 256)}, {"y": (8, 256, 256)}, weights)


def alike_by_two_names(elements: int) -> Any:
    """Sums with weights that are equal but have two names: ONNX Runtime knows it of few elements."""
    nodes = [
        helper.make_node("Erf", ["x"], ["a"]),
        helper.make_node("Add", ["a", "w"], ["b"]),
        helper.make_node("Add", ["a", "v"], ["c"]),
        helper.make_node("Erf", ["b"], ["d"]),
        helper.make_node("Erf", ["c"], ["e"]),
        helper.make_node("Concat", ["d", "e"], ["y"], axis=0),
    ]
    weights: Weights = {name: np.arange(elements, dtype=np.float32) for name in "wv"}
    return model_of(nodes, {"x": (4096 * 12 // elements, elements)}, {"y": (8192 * 12 // elements, elements)}, weights)


CASES: dict[str, Any] = {
    "equal weights of eight elements": alike_by_two_names(8),
    "equal weights of twelve elements": alike_by_two_names(12),
    "a Relu behind batches": activated_rows(),
    "masked scores": masked(),
    "heads": heads_apart(None),
    "scaled heads": heads_apart("Mul"),
    "divided heads": heads_apart("Div"),
    "batches between, then scaled": turned_batches("Mul", scaled_first=False),
    "scaled, then batches between": turned_batches("Div", scaled_first=True),
}


@pytest.mark.parametrize("name", CASES)
def test_layers_take_what_onnx_runtime_takes(name: str, tmp_path: Path) -> None:
    assert_as_onnx_runtime(CASES[name], name, tmp_path)
