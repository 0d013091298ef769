"""What a convolution has in blocks beside a buffer is what its session of ONNX Runtime takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from onnx.numpy_helper import from_array

from hetpart.graph.from_onnx import import_onnx
from hetpart.partitioner.scores.certificate import check
from hetpart.partitioner.scores.cut import cut, dependencies
from hetpart.partitioner.scores.liveness import usage
from tests.cost_model.arenas import measured_peak, profiled_nodes
from tests.partitioner.test_overlaid import formulated
from tests.runtime.models import model

if TYPE_CHECKING:
    from pathlib import Path

    import onnx

SIZE = 28


def convolution(channels: int, makes: int, *, behind: str) -> onnx.ModelProto:
    """Of an image, and what is ``behind`` it in the same session."""
    form = f"float[1,{{}},{SIZE},{SIZE}]"
    proto = model(
        f"g ({form.format(channels)} x) => ({form.format(makes)} y) {{ "
        f"[c] c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w) [b] y = {behind} (c) }}"
    )
    weights = np.random.default_rng(0).standard_normal((makes, channels, 3, 3)).astype(np.float32)
    proto.graph.initializer.append(from_array(weights, "w"))
    return proto


@pytest.mark.parametrize(("behind", "least"), [("Relu", 0.95), ("Identity", 0.95), ("Sin", 0.5)])
@pytest.mark.parametrize(("channels", "makes"), [(3, 32), (16, 32), (64, 16), (48, 48)])
def test_what_is_inside_is_what_a_session_takes(
    channels: int, makes: int, behind: str, least: float, tmp_path: Path
) -> None:
    """Where all is computed in blocks; what is brought out of them for a kernel of the same session is not told."""
    proto = convolution(channels, makes, behind=behind)
    found, _ = formulated(import_onnx(proto).graph, "emulated+generic-2core", 10**15)
    problem = found.problem
    placement = np.ones(problem.ops, np.int8)
    parts = cut(problem, placement, dependencies(problem))
    (alive,) = usage(problem, placement, parts).inside_partition.tolist()
    feeds = {"x": np.ones((1, channels, SIZE, SIZE), np.float32)}
    taken = measured_peak(profiled_nodes(proto, feeds, tmp_path, thrifty=True))
    assert alive <= taken
    assert alive >= least * taken
    assert check(problem, placement, parts).peaks[1] == usage(problem, placement, parts).peak[1]


def test_kernels_of_cuda_have_no_blocks() -> None:
    found, _ = formulated(import_onnx(convolution(16, 32, behind="Relu")).graph, "l4+generic-2core", 10**15)
    assert found.problem.reorders is None
