"""Quantization takes its time by how many elements have one scale, and by whether halves are made of it."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import hetpart
from tests.cost_model.kernels_run import partitioned, run_types
from tests.cost_model.one_op import OneOp

FACTOR = 2.3
TOKENS, MATRIX, SMALL = (8, 128, 768), (1024, 768), (512, 512)


def quantize(sizes: tuple[int, ...], scales: tuple[int, ...], dtype: str = "float32", **attributes: int) -> OneOp:
    held = np.full(scales, 0.1, dtype), np.ones(scales, "uint8")
    return OneOp("QuantizeLinear", ((sizes, dtype), *held), attributes=attributes)


def dequantize(sizes: tuple[int, ...], scales: tuple[int, ...], dtype: str = "float32", **attributes: int) -> OneOp:
    held = np.full(scales, 0.1, dtype), np.ones(scales, "uint8")
    return OneOp("DequantizeLinear", ((sizes, "uint8"), *held), attributes=attributes)


MEASURED = {
    "one scale": (quantize(TOKENS, ()), 0.098),
    "a scale an element": (quantize(TOKENS, (768,), axis=2), 15.8),
    "a scale an element, few": (quantize((64, 64, 64), (64,), axis=-1), 5.29),
    "a scale for 16": (quantize((64, 768, 16), (768,), axis=1), 1.00),
    "a scale for 64": (quantize((64, 192, 64), (192,)), 0.291),
    "a scale for 1024": (quantize((768, 1024), (768,), axis=0), 0.105),
    "blocks of rows": (quantize(MATRIX, (32, 768), axis=0, block_size=32), 1.79),
    "blocks of few rows": (quantize(SMALL, (32, 512), axis=0, block_size=16), 0.602),
    "blocks in rows": (quantize(MATRIX, (1024, 6), axis=1, block_size=128), 0.094),
    "halves": (quantize(TOKENS, (), "float16"), 7.02),
    "few halves": (quantize(SMALL, (), "float16"), 2.29),
    "one scale, back": (dequantize(TOKENS, ()), 0.083),
    "a scale an element, back": (dequantize(TOKENS, (768,), axis=2), 1.19),
    "a scale an element, back, few": (dequantize((64, 64, 64), (64,), axis=2), 0.397),
    "a scale for 16, back": (dequantize((64, 768, 16), (768,)), 0.166),
    "blocks in rows, back": (dequantize(MATRIX, (1024, 24), axis=1, block_size=32), 0.819),
    "blocks in few rows, back": (dequantize(SMALL, (512, 4), axis=1, block_size=128), 0.268),
    "blocks of rows, back": (dequantize(MATRIX, (32, 768), axis=0, block_size=32), 0.102),
    "to halves": (dequantize(TOKENS, (), "float16"), 1.32),
    "to few halves": (dequantize(SMALL, (), "float16"), 0.440),
}
"""Milliseconds of ONNX Runtime 1.31 on one core of an EPYC 9004."""


@pytest.mark.parametrize("name", MEASURED)
def test_seconds_are_those_measured(name: str) -> None:
    op, milliseconds = MEASURED[name]
    assert milliseconds / FACTOR < op.milliseconds() < FACTOR * milliseconds


def test_weights_that_a_product_of_integers_takes_are_not_gone_through(tmp_path: Path) -> None:
    """However many scales they have: no kernel makes floats of them."""
    held = {
        "s": np.array(0.1, "float32"), "z": np.array(3, "uint8"),
        "w": np.ones((256, 64), "int8"), "ws": np.full(64, 0.1, "float32"), "wz": np.zeros(64, "int8"),
    }  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["left"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["right"], name="weights", axis=1),
        helper.make_node("MatMul", ["left", "right"], ["product"]),
        helper.make_node("QuantizeLinear", ["product", "s", "z"], ["y"]),
    ]
    given, made = (
        helper.make_tensor_value_info(name, onnx.TensorProto.UINT8, [32, width])
        for name, width in (("x", 256), ("y", 64))
    )
    graph = helper.make_graph(nodes, "g", [given], [made], [numpy_helper.from_array(v, k) for k, v in held.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    assert run_types(model, partitioned(model).plan, tmp_path) == {"QLinearMatMul": 1}
    costs = hetpart.annotate(model, hardware="l4+epyc-genoa", threads=1)
    (weights,) = (cost for cost, op in zip(costs.ops, costs.graph.ops, strict=True) if op.name == "weights")
    assert weights.work.serial_cycles > 0
    assert weights.seconds[0] < 1e-6
