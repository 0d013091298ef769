"""The kernels that are foretold of a session are those in ONNX Runtime's own profile of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

import hetpart
from benchmarks import zoo
from benchmarks.paired_kernels import (
    Node,
    Pairing,
    begin_to_begin,
    kinds_correlation,
    paired,
    profile_into,
    profiled_nodes,
    profiled_runs,
    rank_correlation,
    typical_ticks,
)
from hetpart.cost_model.fusion import find_fusions
from hetpart.cost_model.session.kernels import session_kernels
from hetpart.plan.cut_models import cut_models
from hetpart.runtime.random_feeds import random_feeds
from hetpart.runtime.sessions import SessionSettings, session_options
from tests.cost_model.this_processor import own_lane

TRANSFORMERS = ("bert-tiny", "gpt2-tiny", "vit-tiny", "whisper-tiny")
RECOMMENDERS = ("dlrm-tiny", "wide-and-deep-tiny")
EXPERTS = ("moe-tiny", "moe-dense-tiny", "control-flow-tiny")
CONVOLUTIONS = ("resnet50", "shufflenet", "densenet121", "inception-v1", "inception-v2")
CONSTANT = "Cast"
"""A node on a constant alone, which hetpart takes for a weight; where ONNX Runtime does not fold it, it has no name."""


_THIRDS = """a = Gather <axis = 1> (x, i0) y = Exp (a) d = Gather <axis = 1> (x, i1) z = Exp (d)
    c = Gather <axis = 1> (x, i2) q = Exp (c)"""
REWRITTEN = {
    "scalar Gathers of all rows are a Split": f"(float[2,3] x) => (float[2] y, float[2] z, float[2] q) {{ {_THIRDS} }}",
    "Gathers of some rows stay": """(float[2,4] x) => (float[2] y, float[2] z)
        { a = Gather <axis = 1> (x, i0) y = Exp (a) d = Gather <axis = 1> (x, i1) z = Exp (d) }""",
    "two Transposes are one, which goes into a product if it swaps the last axes": """
        (float[2,4,3,8] x, float[2,4,3,8] z) => (float[2,3,4,4] y) {
        p = Transpose <perm = [0, 2, 1, 3]> (x) q = Transpose <perm = [0, 2, 1, 3]> (z)
        r = Transpose <perm = [0, 1, 3, 2]> (q) y = MatMul (p, r) }""",
    "a Transpose into a product": """(float[2,4,8] x, float[2,5,8] z) => (float[2,4,5] y)
        { p = Transpose <perm = [0, 2, 1]> (z) y = MatMul (x, p) }""",
    "a Transpose that changes nothing stays": """(float[2,3] x) => (float[2,3] y)
        { a = Exp (x) t = Transpose <perm = [0, 1]> (a) y = Relu (t) }""",
    "a Not before a Where goes": """(bool[2,6] c, float[2,6] x, float[2,6] z) => (float[2,6] y, float[2,6] q)
        { n = Not (c) y = Where (n, x, z) q = Where (n, z, x) }""",
    "a Not that others read stays": """(bool[2,6] c, float[2,6] x, float[2,6] z) => (float[2,6] y, bool[2,6] q)
        { n = Not (c) y = Where (n, x, z) q = And (n, c) }""",
    "an Identity at the end goes": "(float[2,3] x) => (float[2,3] y) { t = Relu (x) y = Identity (t) }",
    "an Identity of what others read stays": """(float[2,3] x) => (float[2,3] y, float[2,3] z)
        { t = Relu (x) y = Identity (t) z = Exp (t) }""",
    "a Dropout whose mask nobody reads goes": "(float[2,6] x) => (float[2,6] y) { a, m = Dropout (x) y = Exp (a) }",
    "a product of rows takes its activation": """(float[4,8] x) => (float[4,6] y)
        { m = MatMul (x, w) a = Add (m, b) y = Relu (a) }""",
    "a product of batches has Reshapes around it": """(float[2,4,8] x) => (float[2,4,6] y)
        { m = MatMul (x, w) a = Add (m, b) y = Relu (a) }""",
    "a convolution on plain values adds nothing": """(float[1,24,8,8] x, float[1,24,8,8] z) => (float[1,24,8,8] y)
        { c = Conv <group = 3> (x, grouped) a = Sum (c, z) y = Relu (a) }""",
    "a convolution in blocks adds what is in blocks": """(float[1,16,8,8] x) => (float[1,16,8,8] y)
        { c = Conv (x, whole) d = Conv (c, whole) a = Add (c, d) y = Relu (a) }""",
    "a convolution in blocks adds nothing plain": """(float[1,16,8,8] x, float[1,16,8,8] z) => (float[1,16,8,8] y)
        { q = Exp (z) c = Conv (x, whole) a = Add (c, q) y = Relu (a) }""",
    "nothing is reordered for a pool of a whole image": """(float[1,16,8,8] x) => (float[1,16,1,1] y)
        { q = Exp (x) y = GlobalAveragePool (q) }""",
    "an image is reordered for other pools": """(float[1,16,8,8] x) => (float[1,16,4,4] y)
        { q = Exp (x) y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (q) }""",
}  # fmt: skip
"""What ONNX Runtime's optimiser does, and what it leaves; models without the name before their inputs."""
WEIGHTS = {
    "w": np.ones((8, 6), np.float32), "b": np.ones(6, np.float32), "grouped": np.ones((24, 8, 1, 1), np.float32),
    "whole": np.ones((16, 16, 1, 1), np.float32), **{f"i{number}": np.array(number) for number in range(3)},
}  # fmt: skip


def small_model(text: str) -> onnx.ModelProto:
    """A model of that text, with those of the weights that it names."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 20]> g {text}')
    read = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(numpy_helper.from_array(WEIGHTS[name], name) for name in WEIGHTS if name in read)
    return model


def nodes_of(model: hetpart.PartitionedModel, folder: Path) -> tuple[Node, ...]:
    """What runs of the model as a single partition."""
    (own,) = cut_models(model.imported.proto, model.plan)
    weights = Path(model.plan.model.folder) if model.plan.model.folder else None
    options = session_options(SessionSettings(threads=1), weights)
    profile_into(options, folder)
    session = onnxruntime.InferenceSession(own.SerializeToString(), options, providers=["CPUExecutionProvider"])
    session.run(None, random_feeds(model.plan.inputs, 0))
    return profiled_nodes(session, folder)[0][0]


def on_the_host(path: Path | onnx.ModelProto, shape: dict[str, int]) -> hetpart.PartitionedModel:
    return hetpart.partition(path, hardware="emulated+generic-2core", placement="all-cpu", shape=shape)


def pairing_of(path: Path | onnx.ModelProto, folder: Path, shape: dict[str, int]) -> Pairing:
    """What runs of the model as a single partition, beside what is foretold of it."""
    model = on_the_host(path, shape)
    graph = model.costs.graph
    every, ends = range(len(graph.ops)), frozenset(graph.outputs)
    kernels = session_kernels(graph, every, find_fusions(graph), own_lane(), ends)
    return paired(kernels, graph, nodes_of(model, folder))


@pytest.mark.parametrize("name", [*TRANSFORMERS, *RECOMMENDERS, *EXPERTS, *CONVOLUTIONS])
def test_every_kernel_runs_as_one_node_and_every_node_is_foretold(
    name: str, zoo_model: Callable[[str], Path], tmp_path: Path
) -> None:
    pairing = pairing_of(zoo_model(name), tmp_path, dict(zoo.ZOO[name].shape))
    assert pairing.pairs
    odd = [pair for pair in pairing.pairs if len(pair.nodes) != 1 + pair.kernel.views]
    assert odd == []
    assert [node for node in pairing.strangers if not node.name.startswith(f"{CONSTANT}_") or node.op_type] == []


@pytest.mark.parametrize("name", REWRITTEN)
def test_what_the_optimiser_makes_of_a_few_ops(name: str, tmp_path: Path) -> None:
    pairing = pairing_of(small_model(REWRITTEN[name]), tmp_path, {})
    assert [pair for pair in pairing.pairs if len(pair.nodes) != 1 + pair.kernel.views] == []
    assert pairing.strangers == ()


def test_a_node_has_the_same_name_in_the_next_session(zoo_model: Callable[[str], Path], tmp_path: Path) -> None:
    """ONNX Runtime numbers what brings channels out of blocks otherwise in each."""
    model = on_the_host(zoo_model("densenet121"), {})
    first, again = ({node.name: node.outputs for node in nodes_of(model, tmp_path)} for _ in range(2))
    assert sum(name.startswith("ReorderOutput") for name in first) > 50
    assert first == again


def test_kernels_of_several_ops_are_among_them(zoo_model: Callable[[str], Path], tmp_path: Path) -> None:
    pairing = pairing_of(zoo_model("bert-tiny"), tmp_path, dict(zoo.ZOO["bert-tiny"].shape))
    fused = {pair.nodes[-1].op_type for pair in pairing.pairs if len(pair.kernel.ops) > 1}
    assert {"SkipLayerNormalization", "FusedMatMul"} <= fused
    assert any(pair.kernel.views for pair in pairing.pairs)


def test_a_node_that_no_kernel_makes_is_a_stranger_and_lacks_in_the_share() -> None:
    known = hetpart.load(small_model("(float[4] x) => (float[4] y) { y = Exp (x) }"))
    kernels = session_kernels(known, range(1), find_fusions(known), own_lane(), frozenset(known.outputs))
    nodes = (Node("own", "Exp", ("x",), ("y",), 3e-6, 3e-6), Node("other", "Exp", ("u",), ("v",), 1e-6, 1e-6))
    pairing = paired(kernels, known, nodes)
    assert pairing.strangers == nodes[1:]
    assert pairing.paired_share == pytest.approx(0.75)


def test_what_the_profile_adds_is_the_least_that_a_view_takes() -> None:
    known = hetpart.load(small_model("(float[4,1] x) => (float[1,4] y) { s = Flatten <axis = 0> (x) y = Exp (s) }"))
    kernels = session_kernels(known, range(2), find_fusions(known), own_lane(), frozenset(known.outputs))
    nodes = (Node("view", "Flatten", ("x",), ("s",), 5e-6, 5e-6), Node("work", "Exp", ("s",), ("y",), 9e-6, 9e-6))
    pairing = paired(kernels, known, nodes)
    assert pairing.noting == 5e-6
    assert [pairing.net_seconds(pair) for pair in pairing.pairs] == [0.0, pytest.approx(4e-6)]


def test_ranks_are_spearmans_and_equal_ones_share_theirs() -> None:
    assert rank_correlation([1e-6, 2e-6, 3e-6], [10e-6, 20e-6, 50e-6]) == 1.0
    assert rank_correlation([3e-6, 2e-6, 1e-6], [10e-6, 20e-6, 50e-6]) == -1.0
    apart = [1.0e-6, 1.02e-6, 0.98e-6, 9e-6]
    # Ranks 2 3 1 4 against 2 2 2 4: covariance 3 over the root of 5 times 3.
    assert rank_correlation(apart, [1e-6, 1e-6, 1e-6, 8e-6]) == pytest.approx(3 / 15**0.5, abs=1e-4)
    assert rank_correlation([1e-6, 2e-6], [1e-6, 2e-6]) is None
    assert rank_correlation(apart, [1e-6] * len(apart)) is None


def test_kinds_tell_the_order_of_kernels_as_far_as_those_of_a_kind_take_as_long() -> None:
    taken = [1e-6, 2e-6, 5e-6, 6e-6]
    assert kinds_correlation("abcd", taken) == 1.0
    # Ranks 1.5 1.5 3.5 3.5 against 1 2 3 4.
    assert kinds_correlation("aabb", taken) == pytest.approx(4 / 20**0.5, abs=1e-4)
    assert kinds_correlation("aaaa", taken) is None


TRUE = {"short": 0.3, "longer": 0.7, "long": 50.2}


def made_up_events(slowed: Iterable[float], between: float) -> Iterator[dict[str, Any]]:
    """What a profile that cuts off all but whole microseconds says of runs that begin at any time."""
    rng, now = np.random.default_rng(0), 0.0
    for slow in slowed:
        now += rng.uniform(10, 20)
        begun = now
        for name, ticks in TRUE.items():
            yield {"cat": "Node", "name": f"{name}_kernel_time", "ts": int(now), "dur": int(slow * ticks)}
            now += slow * ticks + between
        for name in ("SequentialExecutor::Execute", "model_run"):
            yield {"cat": "Session", "name": name, "ts": int(begun), "dur": int(now) - int(begun)}


@pytest.mark.parametrize("between", [2.0, 12.0])
def test_short_kernels_are_told_apart_by_their_begins_in_quiet_runs(between: float) -> None:
    slowed = np.random.default_rng(1).permutation([1.0] * 400 + [3.0] * 1600)
    events = list(made_up_events(slowed, between))
    runs = list(profiled_runs(events))
    assert {run["short"] for run in runs} == {run["longer"] for run in runs} - {2.0}
    found = typical_ticks(runs, list(begin_to_begin(events)))
    assert found["longer"] - found["short"] == pytest.approx(0.4, abs=0.1)
    assert found["short"] == pytest.approx(between + 0.3, abs=0.1)
    assert found["long"] in (between + 50.0, between + 51.0)


def test_a_node_within_another_is_a_part_of_it() -> None:
    events = [
        {"cat": "Node", "name": "first_kernel_time", "ts": 10, "dur": 3},
        {"cat": "Node", "name": "inner_kernel_time", "ts": 17, "dur": 1},
        {"cat": "Node", "name": "loop_kernel_time", "ts": 15, "dur": 9},
        {"cat": "Session", "name": "SequentialExecutor::Execute", "ts": 9, "dur": 20},
        {"cat": "Session", "name": "model_run", "ts": 8, "dur": 30},
    ]
    assert list(begin_to_begin(events, {"inner"})) == [{"first": 5.0, "loop": 14.0}]


def test_a_measured_order_that_is_another_counts_as_such() -> None:
    rng = np.random.default_rng(0)
    many = [float(seconds) for seconds in rng.uniform(1e-5, 1e-3, 400)]
    other = [float(seconds) for seconds in rng.uniform(1e-5, 1e-3, 400)]
    found = rank_correlation(many, other)
    assert found is not None
    assert abs(found) < 0.2
