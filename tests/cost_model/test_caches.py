from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import hetpart
from hetpart.cost_model.caches import kept_share

MIB = 2**20


def product(path: Path, width: int) -> Path:
    """A batch of one through a square weight."""
    weight = numpy_helper.from_array(np.ones((width, width), np.float32), "w")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, width)) for name in "xy"]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [weight])
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString())
    return path


def seconds(path: Path, width: int, cpu: str) -> float:
    (cost,) = hetpart.annotate(product(path, width), hardware=f"l4+{cpu}", threads=2).ops
    return cost.seconds[0]


def test_weights_that_a_last_cache_holds_are_read_faster(tmp_path: Path) -> None:
    small, large = (seconds(tmp_path / "m.onnx", width, "epyc-turin") / width**2 for width in (1024, 8192))
    assert small < 0.75 * large
    without = [seconds(tmp_path / "m.onnx", width, "generic-avx512") / width**2 for width in (1024, 8192)]
    assert without[0] == pytest.approx(without[1], rel=0.05)


@pytest.mark.parametrize(("nbytes", "kept"), [(MIB, 1.0), (16 * MIB, 1.0), (64 * MIB, 0.02)])
def test_what_a_cache_keeps(nbytes: int, kept: float) -> None:
    assert kept_share(nbytes, 16 * MIB) == pytest.approx(kept, abs=0.01)
