"""A model beside what ONNX Runtime makes of it: its kernels, and the most that its arena holds."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import hetpart
from hetpart.cost_model.session.kernel_types import kernel_type
from tests.cost_model.arenas import measured_peak, predicted_peak, profiled_nodes
from tests.cost_model.float_models import feeds_of
from tests.cost_model.kernels_run import VIEWS, assert_kernels_run, session_of

REACH = 0.05
RUNS = 3
"""Of a model that is profiled."""


def assert_as_onnx_runtime(model: onnx.ModelProto, name: str, folder: Path) -> None:
    """Its priced kernels are those that run, and its predicted peak is the measured one."""
    assert_kernels_run(model, name, folder)
    measured = measured_peak(profiled_nodes(model, feeds_of(model), folder))
    assert predicted_peak(model) == pytest.approx(measured, rel=REACH)


def assert_in_order(model: onnx.ModelProto, folder: Path) -> None:
    """Its priced kernels, views left out, run in the order they are priced in."""
    graph = hetpart.load(model)
    kernels, fusions = session_of(graph)
    priced = [kernel_type(kernel, graph, fusions) for kernel in kernels]
    nodes = profiled_nodes(model, feeds_of(model), folder)
    once = nodes[: len(nodes) // RUNS]
    run = [node["args"]["op_name"] for node in once]
    assert [kind for kind in priced if kind not in VIEWS] == [kind for kind in run if kind not in VIEWS]
