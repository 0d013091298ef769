"""Plans of models whose files have branches side by side, which ONNX Runtime runs one behind the other."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import hetpart
from hetpart.errors import InfeasibleError
from hetpart.partitioner.run_order import IN_BOTH_ORDERS
from hetpart.plan.model import Plan

ROWS, WIDTH, INNER = 256, 64, 1024
NAMES = ("a0", "b0", "a1", "b1")


@pytest.fixture(scope="module")
def branches() -> onnx.ModelProto:
    """Two branches that are wide in the middle, the first ops of both before the second ones."""
    shapes = {"w0": (WIDTH, INNER), "w1": (WIDTH, INNER), "w2": (INNER, WIDTH), "w3": (INNER, WIDTH)}
    ends = (("x", "w0", "a"), ("x", "w1", "b"), ("a", "w2", "y"), ("b", "w3", "z"))
    nodes = [
        helper.make_node("MatMul", [one, weight], [made], name=name)
        for name, (one, weight, made) in zip(NAMES, ends, strict=True)
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [ROWS, WIDTH]) for name in ("x", "y", "z")]
    weights = [
        numpy_helper.from_array(np.full(shape, number, np.float32), name)
        for number, (name, shape) in enumerate(shapes.items())
    ]
    graph = helper.make_graph(nodes, "branches", values[:1], values[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def planned(model: onnx.ModelProto, budget: int, placement: str | dict[str, str] = "optimal") -> Plan:
    return hetpart.partition(model, hardware="l4+generic-2core", budget=budget, stream=False, placement=placement).plan


def peak(plan: Plan) -> int:
    return max(use.peak_bytes for use in plan.devices if use.device != "cpu")


def test_onnx_runtime_ends_one_branch_before_it_begins_the_other(branches: onnx.ModelProto, tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "p")
    session = onnxruntime.InferenceSession(branches.SerializeToString(), options, providers=["CPUExecutionProvider"])
    session.run(None, {"x": np.ones((ROWS, WIDTH), np.float32)})
    events = json.loads(Path(session.end_profiling()).read_bytes())
    ran = [event["name"].removesuffix("_kernel_time") for event in events if event["name"].endswith("_kernel_time")]
    assert ran in (["b0", "b1", "a0", "a1"], ["a0", "a1", "b0", "b1"])


@pytest.mark.parametrize("share", [0.5, 0.75, 0.98, 1.0, 1.1, 1.3])
def test_no_placement_that_fits_is_better_than_the_plan(branches: onnx.ModelProto, share: float) -> None:
    """Every placement is judged by what its sessions hold when ONNX Runtime runs them."""
    whole = hetpart.partition(branches, hardware="l4+generic-2core", placement="all-accelerator").plan
    budget = round(share * peak(whole))
    best = planned(branches, budget)
    assert peak(best) <= budget
    others = [found for sides in product(("cpu", "cuda:0"), repeat=4) if (found := given(branches, budget, sides))]
    assert best.prediction.seconds <= min(other.prediction.seconds for other in others) * (1 + 1e-9)
    assert best.certificate.lower_bound <= min(other.certificate.cost for other in others) * (1 + 1e-9)
    assert IN_BOTH_ORDERS in best.certificate.speaks_of


def given(model: onnx.ModelProto, budget: int, sides: tuple[str, ...]) -> Plan | None:
    try:
        return planned(model, budget, dict(zip(NAMES, sides, strict=True)))
    except InfeasibleError:
        return None


@pytest.mark.parametrize("spare", [0, 1000])
def test_two_budgets_that_a_placement_just_fills_do(branches: onnx.ModelProto, spare: int) -> None:
    """Whatever is counted on the way: the file that says where every op runs is accepted under them."""
    half = dict(zip(NAMES, ("cpu", "cuda:0", "cpu", "cuda:0"), strict=True))
    file = hetpart.partition(branches, hardware="l4+generic-2core", placement=half, stream=False).plan
    host, accelerator = (use.peak_bytes + spare for use in file.devices)
    options = {"hardware": "l4+generic-2core", "host_budget": host, "budget": accelerator, "stream": False}
    given = hetpart.partition(branches, placement=half, **options).plan
    found = hetpart.partition(branches, **options).plan
    assert all(use.peak_bytes <= most for use, most in zip(found.devices, (host, accelerator), strict=True))
    assert found.prediction.seconds <= given.prediction.seconds
