"""Types of the kernels that are priced, and of those in ONNX Runtime's profile."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import onnx
import onnxruntime

import hetpart
from hetpart.cost_model.fusion import Fusions, find_fusions
from hetpart.cost_model.session.kernel_types import kernel_type
from hetpart.cost_model.session.kernels import session_kernels
from hetpart.cost_model.session.reuse import Kernel
from hetpart.graph.ir import Graph
from hetpart.partitioned import PartitionedModel
from hetpart.plan.cut_models import cut_models
from hetpart.runtime.random_feeds import random_feeds
from hetpart.runtime.sessions import SessionSettings, session_options
from tests.cost_model.this_processor import own_lane

VIEWS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""What only gives a value another shape."""
_KERNEL_TIME = "_kernel_time"


def run_types(model: onnx.ModelProto, plan: hetpart.Plan, folder: Path) -> Counter[str]:
    """Types of the nodes that ONNX Runtime runs of ``model``, as its profile names them."""
    options = session_options(SessionSettings(threads=1), Path(plan.model.folder) if plan.model.folder else None)
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    session.run(None, random_feeds(plan.inputs, 0))
    events = json.loads(Path(session.end_profiling()).read_bytes())
    return Counter(event["args"]["op_name"] for event in events if event["name"].endswith(_KERNEL_TIME))


def session_of(graph: Graph) -> tuple[tuple[Kernel, ...], Fusions]:
    fusions = find_fusions(graph)
    every, ends = range(len(graph.ops)), frozenset(graph.outputs)
    return session_kernels(graph, every, fusions, own_lane(), ends), fusions


def priced_types(graph: Graph) -> Counter[str]:
    """Types of the kernels that the cost model prices, the views around them included."""
    kernels, fusions = session_of(graph)
    found: Counter[str] = Counter()
    for kernel in kernels:
        kind = kernel_type(kernel, graph, fusions)
        found[kind] += 1
        found["Squeeze" if kind == "Split" else "Reshape"] += kernel.views
    return +found


def assert_same(priced: Counter[str], run: Counter[str], name: str) -> None:
    missing, extra = run - priced, priced - run
    assert priced == run, (
        f"{name}: ONNX Runtime runs {sum(run.values())} kernels, {sum(priced.values())} are priced; "
        f"it runs but we do not price {dict(missing)}; we price but it does not run {dict(extra)}"
    )


def without_views(types: Counter[str]) -> Counter[str]:
    return Counter({kind: count for kind, count in types.items() if kind not in VIEWS})


def partitioned(source: Path | onnx.ModelProto) -> PartitionedModel:
    return hetpart.partition(source, hardware="emulated+generic-2core", placement="all-cpu")


def assert_kernels_run(source: Path | onnx.ModelProto, name: str, folder: Path) -> None:
    """The kernels that are priced for ``source`` are those that run, views left out."""
    model = partitioned(source)
    (own,) = cut_models(model.imported.proto, model.plan)
    priced, run = priced_types(model.costs.graph), run_types(own, model.plan, folder)
    assert_same(without_views(priced), without_views(run), name)
