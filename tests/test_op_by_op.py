"""The deep decoder of the benchmarks, small: what it computes token by token is what it computes at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray

from benchmarks.models import op_by_op

SMALL = {"layers": 2, "hidden": 32, "heads": 4, "vocabulary": 50, "positions": 16}
TOKENS = 6
Feeds = dict[str, NDArray[np.generic]]


def run(path: Path, feeds: Feeds) -> dict[str, NDArray[np.float32]]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds), strict=True))


def test_tokens_one_by_one_are_the_prompt_at_once(tmp_path: Path) -> None:
    whole = op_by_op.build(tmp_path / "whole.onnx", **SMALL)
    cached = op_by_op.build(tmp_path / "cached.onnx", cache=True, **SMALL)
    ids, places = np.random.default_rng(0).integers(0, SMALL["vocabulary"], (1, TOKENS)), np.arange(TOKENS)[None]
    expected = run(whole, {"input_ids": ids, "positions": places})["logits"]
    empty = np.zeros((1, SMALL["heads"], 0, SMALL["hidden"] // SMALL["heads"]), np.float32)
    past: Feeds = {f"past.{part}.h.{i}/attn": empty for i in range(SMALL["layers"]) for part in ("key", "value")}
    for token in range(TOKENS):
        one = slice(token, token + 1)
        found = run(cached, {"input_ids": ids[:, one], "positions": places[:, one], **past})
        past = {name.replace("present", "past"): rows for name, rows in found.items() if name != "logits"}
        assert found["logits"][:, 0] == pytest.approx(expected[:, token], abs=1e-4)


def test_its_layers_have_the_nodes_that_exporters_write(tmp_path: Path) -> None:
    few, many = (
        len(onnx.load(op_by_op.build(tmp_path / "model.onnx", **{**SMALL, "layers": layers})).graph.node)
        for layers in (1, 3)
    )
    assert (many - few) // 2 == 106
