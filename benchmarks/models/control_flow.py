"""A model with a Loop and an If whose bodies hold weights and use values of the graph around them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

_TEXT = """
<ir_version: 10, opset_import: ["": 20]>
control_flow (float[batch, N] x, int64 steps) => (float[batch, N] y, float[rounds, batch, N] history)
<float one = {1.0}, bool go = {1}>
{
  [embed] outer = MatMul (x, embed_weight)
  [loop] last, history = Loop (steps, go, outer) <body = turn (int64 i, bool go_in, float[batch, N] state)
    => (bool go_out, float[batch, N] next, float[batch, N] seen) {
      [body_matmul] turned = MatMul (state, body_weight)
      [body_add] mixed = Add (turned, outer)
      [body_tanh] next = Tanh (mixed)
      [body_size] size = ReduceMean <keepdims = 0> (next)
      [body_less] small = Less (size, one)
      [body_if] seen = If (small) <
        then_branch = keep () => (float[batch, N] kept) { [keep_add] kept = Add (next, x) },
        else_branch = turn_again () => (float[batch, N] again) { [again_matmul] again = MatMul (next, nested_weight) }
      >
      [body_go] go_out = Identity (go_in)
    }>
  [mean] mean = ReduceMean <keepdims = 0> (last)
  [positive] positive = Greater (mean, bias)
  [if] chosen = If (positive) <
    then_branch = large () => (float[batch, N] large_out) { [large_matmul] large_out = MatMul (last, then_weight) },
    else_branch = small_one () => (float[batch, N] small_out) { [small_matmul] small_out = MatMul (last, else_weight) }
  >
  [head] y = MatMul (chosen, head_weight)
}
"""
"""Body weights are added below: the text form has no room for random numbers."""


def build(path: Path, *, hidden: int = 256, seed: int = 0) -> Path:
    """Writes the model: ``x`` [batch, hidden] and the number of ``steps`` → ``y`` and the loop's ``history``."""
    model = parser.parse_model(_TEXT.replace("N]", f"{hidden}]"))
    rng = np.random.default_rng(seed)
    _add_weights(model.graph, rng, hidden)
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((), np.float32), "bias"))
    path.write_bytes(model.SerializeToString())
    onnx.checker.check_model(str(path), full_check=True)
    return path


def _add_weights(graph: onnx.GraphProto, rng: np.random.Generator, hidden: int) -> None:
    """Gives every ``*_weight`` to the graph whose own node names it first, bodies before the graph around them."""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _add_weights(attribute.g, rng, hidden)
        for name in node.input:
            if name.endswith("_weight"):
                values = rng.standard_normal((hidden, hidden), dtype=np.float32) / np.float32(hidden**0.5)
                graph.initializer.append(numpy_helper.from_array(values, name))
