"""What convolutions in groups and attention with shared keys take is to the byte what ONNX Runtime's arena says.

A ``Conv`` divides its image among threads before any of them runs, so what several take is no matter of chance.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.cost_model.arenas import measured_peak, predicted_peak, profiled_nodes
from tests.cost_model.float_models import CONTRIB, FLOAT, Sizes, Weights, feeds_of, model_of


def convolution(given: Sizes, filters: Sizes, made: Sizes, pads: int = 0, **options: Any) -> onnx.ModelProto:
    """``pads`` at the beginning and end of every axis."""
    nodes = [
        helper.make_node("Erf", ["x"], ["a"]),
        helper.make_node("Conv", ["a", "w"], ["b"], pads=[pads] * 2 * len(filters[2:]), **options),
        helper.make_node("Erf", ["b"], ["y"]),
    ]
    return model_of(nodes, {"x": given}, {"y": made}, {"w": np.zeros(filters, np.float32)})


CONVOLUTIONS: dict[str, onnx.ModelProto] = {
    "a line by channel": convolution((1, 128, 16), (128, 1, 4), (1, 128, 19), 3, group=128),
    "a line by channel, longer": convolution((1, 1024, 64), (1024, 1, 4), (1, 1024, 67), 3, group=1024),
    "lines by channel": convolution((2, 128, 16), (128, 1, 4), (2, 128, 19), 3, group=128),
    "images by channel": convolution((1, 90, 7, 7), (90, 1, 7, 7), (1, 90, 7, 7), 3, group=90),
    "volumes in groups": convolution((1, 64, 6, 6, 6), (128, 8, 3, 3, 3), (1, 128, 4, 4, 4), group=8),
    "a group of more filters than pixels": convolution(
        (1, 64, 6, 6, 6), (1024, 8, 3, 3, 3), (1, 1024, 4, 4, 4), group=8
    ),
    "more filters than pixels": convolution((1, 128, 16), (128, 128, 4), (1, 128, 19), 3),
    "few products": convolution((1, 4, 64), (4, 4, 3), (1, 4, 62)),
    "many products": convolution((1, 8, 16, 16, 16), (64, 8, 3, 3, 3), (1, 64, 16, 16, 16), 1),
    "two of few products": convolution((2, 4, 64), (4, 4, 3), (2, 4, 62)),
    "pixel by pixel": convolution((1, 4, 64), (8, 2, 1), (1, 8, 64), group=2),
    "pixel by pixel, in strides": convolution((1, 4, 64), (8, 2, 1), (1, 8, 32), group=2, strides=[2]),
    "pixel by pixel, padded": convolution((1, 4, 64), (8, 2, 1), (1, 8, 66), 1, group=2),
    "whole rows": convolution((1, 3, 16, 5), (3, 1, 3, 5), (1, 3, 14, 1), group=3),
    "whole columns": convolution((1, 3, 16, 5), (3, 1, 16, 1), (1, 3, 1, 5), group=3),
    "whole columns, with gaps": convolution((1, 3, 15, 5), (3, 1, 8, 1), (1, 3, 1, 5), group=3, dilations=[2, 1]),
}


HEADS, KEY_HEADS, SIZE = 8, 2, 64


def attended(tokens: int, kept: int = 0, *extras: str, packed: bool = False, **options: Any) -> onnx.ModelProto:
    """Four queries to a key, on ``kept`` tokens from before. ``extras`` are optional inputs, or scores returned."""
    total, width, cached = tokens + kept, HEADS * SIZE, (1, KEY_HEADS, tokens + kept, SIZE)
    given = {"q": width + 2 * KEY_HEADS * SIZE} if packed else {"q": width, **dict.fromkeys("kv", KEY_HEADS * SIZE)}
    weights: Weights = {"last": np.array([total - 1], np.int32), "total": np.array(total, np.int32)}
    before = ("past_k", "past_v") if kept else ("", "")
    weights |= {name: np.zeros((1, KEY_HEADS, kept, SIZE), np.float32) for name in before if name}
    angles = ("cos", "sin") if options.get("do_rotary") else ("", "")
    weights |= {name: np.zeros((4096, SIZE // 2), np.float32) for name in angles if name}
    rest = {"bias": np.zeros((1, 1, tokens, total), np.float32), "sink": np.zeros(HEADS, np.float32)}
    weights |= {name: rest[name] for name in rest if name in extras}
    names = [*("q" if packed else "qkv"), *(["", ""] if packed else []), *before, "last", "total", *angles, ""]
    names += [name if name in extras else "" for name in rest]
    ends: dict[str, Sizes] = {"keys": cached, "values": cached}
    ends |= {"scores": (1, HEADS, tokens, total)} if "scores" in extras else {}
    nodes = [
        *(helper.make_node("Erf", [f"{name}_in"], [name]) for name in given),
        helper.make_node(
            "GroupQueryAttention", names, ["out", *ends], domain=CONTRIB, num_heads=HEADS, kv_num_heads=KEY_HEADS,
            **options,
        ),
        helper.make_node("Erf", ["out"], ["y"]),
    ]  # fmt: skip
    inputs = {f"{name}_in": (1, tokens, size) for name, size in given.items()}
    model = model_of(nodes, inputs, {"y": (1, tokens, width)}, weights)
    model.graph.output.extend(helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in ends.items())
    return model


ATTENTION: dict[str, onnx.ModelProto] = {
    "plain": attended(256),
    "with a bias": attended(256, 0, "bias"),
    "with a sink": attended(256, 0, "sink"),
    "whose scores are returned": attended(256, 0, "scores", qk_output=1),
    "rotated": attended(256, do_rotary=1),
    "rotated, on earlier tokens": attended(256, 256, do_rotary=1),
    "rotated, of one tensor": attended(256, packed=True, do_rotary=1),
    "rotated, one token": attended(1, 2100, do_rotary=1),
    "of capped scores": attended(256, softcap=5.0),
    "of capped scores, rotated": attended(256, 256, softcap=5.0, do_rotary=1),
    "of capped scores, one token": attended(1, 511, softcap=5.0),
    "of a smooth softmax": attended(256, smooth_softmax=1),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", [*CONVOLUTIONS, *ATTENTION])
def test_a_group_takes_what_onnx_runtime_does(name: str, threads: int, tmp_path: Path) -> None:
    """Images are laid out a group at a time; of queries that share keys what is rotated is copied."""
    model = {**CONVOLUTIONS, **ATTENTION}[name]
    measured = measured_peak(profiled_nodes(model, feeds_of(model), tmp_path, threads=threads))
    assert predicted_peak(model, threads=threads) == measured


def test_threads_that_outnumber_heads_share_the_keys_of_one_token(tmp_path: Path) -> None:
    model, threads = attended(1, 4000), HEADS + 1
    measured = measured_peak(profiled_nodes(model, feeds_of(model), tmp_path, threads=threads))
    assert predicted_peak(model, threads=threads) == measured
