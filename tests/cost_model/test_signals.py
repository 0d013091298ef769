"""What a Fourier transform pads is what ONNX Runtime's arena says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.cost_model.arenas import measured_peak, predicted_peak, profiled_nodes
from tests.cost_model.float_models import Sizes, Weights, feeds_of
from tests.cost_model.test_scratch import REACH, between


def transformed(given: Sizes, made: Sizes, *, length: int = 0, **options: int) -> Any:
    """Along the middle axis."""
    weights: Weights = {"axis": np.array(1)} | ({"length": np.array(length)} if length else {})
    node = helper.make_node("DFT", ["a", "length" if length else "", "axis"], ["out"], **options)
    return between(node, {"a": given}, made, weights, 20)


def of_old_opset() -> Any:
    node = helper.make_node("DFT", ["a"], ["out"], axis=1)
    return between(node, {"a": (4, 1000, 1)}, (4, 1000, 2), {}, 17)


CASES = {
    "power of two": transformed((4, 1024, 2), (4, 1024, 2)),
    "any length": transformed((1, 4100, 2), (1, 4100, 2)),
    "of real numbers": transformed((8, 1000, 1), (8, 1000, 2)),
    "one side": transformed((4, 1000, 1), (4, 501, 2), onesided=1),
    "back": transformed((4, 1000, 2), (4, 1000, 2), inverse=1),
    "back to real numbers": transformed((4, 501, 2), (4, 1000, 1), inverse=1, onesided=1),
    "cut to a length": transformed((4, 1024, 1), (4, 600, 2), length=600),
    "of an old opset": of_old_opset(),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_fourier_transform_takes_is_what_onnx_runtime_takes(name: str, tmp_path: Path) -> None:
    model = CASES[name]
    measured = measured_peak(profiled_nodes(model, feeds_of(model), tmp_path))
    assert predicted_peak(model) == pytest.approx(measured, rel=REACH)
