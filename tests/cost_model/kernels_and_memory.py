"""A model beside what ONNX Runtime makes of it: its kernels, and the most that its arena holds."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.cost_model.arenas import measured_peak, predicted_peak, profiled_nodes
from tests.cost_model.float_models import feeds_of
from tests.cost_model.kernels_run import assert_kernels_run

REACH = 0.05


def assert_as_onnx_runtime(model: onnx.ModelProto, name: str, folder: Path) -> None:
    """Its priced kernels are those that run, and its predicted peak is the measured one."""
    assert_kernels_run(model, name, folder)
    measured = measured_peak(profiled_nodes(model, feeds_of(model), folder))
    assert predicted_peak(model) == pytest.approx(measured, rel=REACH)
