# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""Operators that ONNX Runtime's optimiser writes into ``ai.onnx``, which has no schema of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper, parser

import hetpart
from hetpart.errors import InvalidModelError

WRITTEN_OUT = """<ir_version: 8, opset_import: ["": 17]> g (float[2, 16, 64] x) => (float[2, 16, 64] y) {
    squared = Pow (x, two) mean = ReduceMean <axes = [-1]> (squared) moved = Add (mean, epsilon)
    root = Sqrt (moved) normal = Div (x, root) scaled = Mul (normal, scale) y = Relu (scaled) }"""


@pytest.fixture
def optimised(tmp_path: Path) -> Path:
    """A model as ONNX Runtime writes it down once it has fused its formula."""
    model = parser.parse_model(WRITTEN_OUT)
    numbers = {"two": np.float32(2), "epsilon": np.float32(1e-5), "scale": np.linspace(0.5, 2, 64, dtype=np.float32)}
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(array), name) for name, array in numbers.items())
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.log_severity_level = 4
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return Path(options.optimized_model_filepath)


def test_they_are_priced_placed_and_run(optimised: Path) -> None:
    types = [(node.domain, node.op_type) for node in onnx.load(optimised).graph.node]
    assert ("", "SimplifiedLayerNormalization") in types
    (row, _) = hetpart.annotate(optimised, hardware="l4+generic-2core").rows()
    assert (row.op_type, row.flops, row.bytes_written) == ("SimplifiedLayerNormalization", 5 * 2048, 4 * 2048)
    assert "no cost formula" not in row.reason
    feed = {"x": np.random.default_rng(0).standard_normal((2, 16, 64)).astype(np.float32)}
    plain = onnxruntime.InferenceSession(optimised, providers=["CPUExecutionProvider"]).run(None, feed)
    for placement in ("all-accelerator", "random:1"):
        with hetpart.partition(optimised, hardware="emulated", placement=placement).session(emulate=True) as session:
            np.testing.assert_array_equal(session.run(None, feed)[0], plain[0])


def test_others_are_not_there() -> None:
    text = (
        '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = SimplerLayerNormalization (x) }'
    )
    model = parser.parse_model(text)
    with pytest.raises(InvalidModelError, match="operators do not exist: 'SimplerLayerNormalization'"):
        hetpart.annotate(model)
