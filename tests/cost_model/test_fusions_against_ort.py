"""The kernels that are priced are those that ONNX Runtime runs: their types, counted, beside those in its profile."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import onnx
import onnxruntime
import pytest

import hetpart
from hetpart.compiler import PartitionedModel
from hetpart.cost_model.fusion import Fusions, find_fusions
from hetpart.cost_model.session.kernel_types import kernel_type
from hetpart.cost_model.session.kernels import Lane, session_kernels
from hetpart.cost_model.session.reuse import Kernel
from hetpart.devices import Provider
from hetpart.graph.ir import Graph
from hetpart.plan.cut_models import cut_models
from hetpart.runtime.feeds import random_feeds
from hetpart.runtime.sessions import SessionSettings, session_options
from tests.cost_model.exported import EXPORTED, export
from tests.cost_model.fusion_models import TEXTS, fusion_model

VIEWS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""What only gives a value another shape."""
_KERNEL_TIME = "_kernel_time"


def _run_types(model: onnx.ModelProto, plan: hetpart.Plan, folder: Path) -> Counter[str]:
    """Types of the nodes that ONNX Runtime runs of ``model``, as its profile names them."""
    options = session_options(SessionSettings(threads=1), Path(plan.model.folder) if plan.model.folder else None)
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    session.run(None, random_feeds(plan.inputs, 0))
    events = json.loads(Path(session.end_profiling()).read_bytes())
    return Counter(event["args"]["op_name"] for event in events if event["name"].endswith(_KERNEL_TIME))


def _kernels(graph: Graph) -> tuple[tuple[Kernel, ...], Fusions]:
    fusions = find_fusions(graph)
    every, ends = range(len(graph.ops)), frozenset(graph.outputs)
    return session_kernels(graph, every, fusions, Lane(Provider.CPU, 1), ends), fusions


def _priced_types(graph: Graph) -> Counter[str]:
    """Types of the kernels that the cost model prices, the views around them included."""
    kernels, fusions = _kernels(graph)
    found: Counter[str] = Counter()
    for kernel in kernels:
        kind = kernel_type(kernel, graph, fusions)
        found[kind] += 1
        found["Squeeze" if kind == "Split" else "Reshape"] += kernel.views
    return +found


def _assert_same(priced: Counter[str], run: Counter[str], name: str) -> None:
    missing, extra = run - priced, priced - run
    assert priced == run, (
        f"{name}: ONNX Runtime runs {sum(run.values())} kernels, {sum(priced.values())} are priced; "
        f"it runs but we do not price {dict(missing)}; we price but it does not run {dict(extra)}"
    )


def _without_views(types: Counter[str]) -> Counter[str]:
    return Counter({kind: count for kind, count in types.items() if kind not in VIEWS})


def _partitioned(source: Path | onnx.ModelProto) -> PartitionedModel:
    return hetpart.partition(source, hardware="emulated+generic-2core", placement="all-cpu")


@pytest.mark.parametrize("name", TEXTS)
def test_kernels_of_small_models_are_those_that_run(name: str, tmp_path: Path) -> None:
    model = _partitioned(fusion_model(name))
    (own,) = cut_models(model.imported.proto, model.plan)
    _assert_same(_priced_types(model.costs.graph), _run_types(own, model.plan, tmp_path), name)


def test_small_models_are_fused_and_left_alone() -> None:
    """Neither can pass for want of the other."""
    sizes = [len(_kernels(hetpart.load(fusion_model(name)))[0]) < _nodes(name) for name in TEXTS]
    assert sum(sizes) > 100
    assert len(sizes) - sum(sizes) > 50


def _nodes(name: str) -> int:
    return len(fusion_model(name).graph.node)


@pytest.mark.parametrize("name", EXPORTED)
def test_kernels_of_exported_models_are_those_that_run(name: str, tmp_path: Path) -> None:
    """Views are left out: how many Reshapes in a row ONNX Runtime makes one depends on how often it looks."""
    model = _partitioned(export(name, tmp_path / "model.onnx"))
    (own,) = cut_models(model.imported.proto, model.plan)
    priced, run = _priced_types(model.costs.graph), _run_types(own, model.plan, tmp_path)
    _assert_same(_without_views(priced), _without_views(run), name)


@pytest.mark.parametrize("name", TEXTS)
def test_what_runs_as_one_kernel_is_one_group(name: str) -> None:
    graph = hetpart.load(fusion_model(name))
    kernels, fusions = _kernels(graph)
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
    for kernel in _kernels(graph)[0]:
        members = _of_a_group(kernel, graph, find_fusions(graph))
        assert len({place[graph.ops[op].name] for op in members}) <= 1
