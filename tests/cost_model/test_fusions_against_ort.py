"""The kernels that are priced are those that ONNX Runtime runs: their types, counted, beside those in its profile."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

import hetpart
from hetpart.cost_model.fusion import Fusions, find_fusions
from hetpart.cost_model.session.kernel_types import kernel_type
from hetpart.cost_model.session.reuse import Kernel
from hetpart.graph.ir import Graph
from hetpart.plan.cut_models import cut_models
from tests.cost_model.exported import EXPORTED, export
from tests.cost_model.fusion_models import TEXTS, fusion_model
from tests.cost_model.kernels_run import (
    assert_kernels_run,
    assert_same,
    partitioned,
    priced_types,
    run_types,
    session_of,
)


@pytest.mark.parametrize("name", TEXTS)
def test_kernels_of_small_models_are_those_that_run(name: str, tmp_path: Path) -> None:
    model = partitioned(fusion_model(name))
    (own,) = cut_models(model.imported.proto, model.plan)
    assert_same(priced_types(model.costs.graph), run_types(own, model.plan, tmp_path), name)


def test_small_models_are_fused_and_left_alone() -> None:
    """Neither can pass for want of the other."""
    sizes = [len(session_of(hetpart.load(fusion_model(name)))[0]) < _nodes(name) for name in TEXTS]
    assert sum(sizes) > 100
    assert len(sizes) - sum(sizes) > 50


def _nodes(name: str) -> int:
    return len(fusion_model(name).graph.node)


@pytest.mark.parametrize("name", EXPORTED)
def test_kernels_of_exported_models_are_those_that_run(name: str, tmp_path: Path) -> None:
    """Views are left out: how many Reshapes in a row ONNX Runtime makes one depends on how often it looks."""
    assert_kernels_run(export(name, tmp_path / "model.onnx"), name, tmp_path)


@pytest.mark.parametrize("name", TEXTS)
def test_what_runs_as_one_kernel_is_one_group(name: str) -> None:
    graph = hetpart.load(fusion_model(name))
    kernels, fusions = session_of(graph)
    for kernel in kernels:
        members = _of_a_group(kernel, graph, fusions)
        assert len({fusions.groups[op] for op in members}) <= 1, [graph.ops[op].op_type for op in members]


def _of_a_group(kernel: Kernel, graph: Graph, fusions: Fusions) -> Iterable[int]:
    """The ops of ``kernel`` but what joins it by what else a session holds: parts of a Split, residuals, Casts."""
    kind = kernel_type(kernel, graph, fusions)
    joined = kind == "Split" or (len(kernel.reads) > 1 and kind in ("Conv", "FusedConv"))
    return () if joined else [op for op in kernel.ops if graph.ops[op].op_type != "Cast"]


@pytest.mark.parametrize("name", TEXTS)
def test_no_cut_goes_through_a_group(name: str) -> None:
    """Not even where a placement ignores costs."""
    model = hetpart.partition(fusion_model(name), hardware="emulated+generic-2core", placement="random:3")
    graph = model.costs.graph
    place = {op: partition.id for partition in model.plan.partitions for op in partition.ops}
    for kernel in session_of(graph)[0]:
        members = _of_a_group(kernel, graph, find_fusions(graph))
        assert len({place[graph.ops[op].name] for op in members}) <= 1
