"""What Python callers may give: text or paths, names or mappings, and what is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hetpart
from tests.runtime.models import model

RELU = "g (float[4] x) => (float[4] z) { [a] y = Relu(x) [b] z = Neg(y) }"


@pytest.mark.parametrize("options", [{"verify": "x"}, {"threads": -1}, {"time_limit": -1}, {"hardware": 3}])
def test_an_option_that_means_nothing_is_refused_by_its_name(options: dict[str, Any]) -> None:
    with pytest.raises(hetpart.InvalidOptionError, match=next(iter(options))) as refused:
        hetpart.partition(model(RELU), **options)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("access", 3), ("budget", [None]), ("colocate", [3]), ("headroom", True), ("host_budget", [1]), ("io", 3),
        ("max_partitions", True), ("max_partitions", 1.5), ("min_gain", 5), ("overlap", "no"), ("pin", {"a": 3}),
        ("pin", True), ("placement", 3), ("shape", {"N": 1.5}), ("state", True), ("stream", "yes"), ("threads", "two"),
        ("threads", True), ("time_limit", "long"), ("time_limit", True), ("trip_count", {"a": True}),
    ],
)  # fmt: skip
def test_an_option_of_the_wrong_kind_is_refused_by_its_name(name: str, wrong: Any) -> None:
    asked: dict[str, Any] = {"hardware": "emulated", name: wrong}
    with pytest.raises(hetpart.InvalidOptionError, match=f"^{name} cannot be ") as refused:
        hetpart.partition(model(RELU), **asked)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("name", "wrong"), [("threads", -1), ("threads", 1.5), ("hardware", 5), ("shape", 3), ("access", 3)]
)
def test_annotate_refuses_it_too(name: str, wrong: Any) -> None:
    asked: dict[str, Any] = {"hardware": "emulated", name: wrong}
    with pytest.raises(hetpart.InvalidOptionError, match=f"^{name} cannot be "):
        hetpart.annotate(model(RELU), **asked)


def test_a_depth_is_a_whole_number() -> None:
    half: Any = 1.5
    with pytest.raises(hetpart.InvalidOptionError, match=r"at depth 1\.5"):
        hetpart.annotate(model(RELU), hardware="emulated").rows("scope", half)


def test_numbers_of_numpy_are_numbers() -> None:
    asked: dict[str, Any] = {"threads": np.int64(1), "time_limit": np.float32(2), "max_partitions": np.int32(3)}
    asked |= {"hardware": "emulated", "budget": np.int64(2**20)}
    assert hetpart.partition(model(RELU), **asked).plan.partitions


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("cuda_graph", "no"), ("emulate", "yes"), ("threads", 1.5), ("optimize", "no"), ("optimize", None),
        ("overlap", 1), ("emulate_link", [1]), ("progress", 3), ("provider", 3), ("provider", [3]), ("record", "yes"),
        ("state", 3), ("state", ["a"]),
    ],
)  # fmt: skip
def test_a_session_refuses_an_option_of_the_wrong_kind(name: str, wrong: Any) -> None:
    made = hetpart.partition(model(RELU), hardware="emulated")
    asked: dict[str, Any] = {"emulate": True, name: wrong}
    with pytest.raises(hetpart.InvalidOptionError, match=f"^{name} cannot be "):
        hetpart.Session(made.bundle(), **asked)


def test_providers_are_refused_where_onnxruntime_takes_them() -> None:
    bundle, names = hetpart.partition(model(RELU), hardware="emulated").bundle(), ["CPUExecutionProvider"]
    wrong: list[tuple[Any, ...]] = [(None, names), (None, None, [{}]), (None, names, [{}])]
    for arguments in wrong:
        with pytest.raises(hetpart.InvalidOptionError, match=r"^provider.* was given, and the plan says"):
            hetpart.Session(bundle, *arguments, emulate=True)


def test_a_placement_may_be_a_mapping() -> None:
    asked: dict[str, Any] = {"hardware": "emulated", "placement": {"a": "cuda:0", "b": "cpu"}}
    placed = hetpart.partition(model(RELU), **asked)
    assert {d.op: d.device for d in placed.plan.decisions} == asked["placement"]
    with pytest.raises(hetpart.InvalidOptionError, match="the placement places no device for 'b'"):
        hetpart.partition(model(RELU), hardware="emulated", placement={"a": "cpu"})


def test_a_loaded_graph_is_annotated_as_the_model_is() -> None:
    text = "g (float[N] x) => (float[N] z) { [a] y = Relu(x) [b] z = Neg(y) }"
    graph = hetpart.load(model(text), shape={"N": 4})
    priced = hetpart.annotate(graph, hardware="l4+generic-2core")
    direct = hetpart.annotate(model(text), hardware="l4+generic-2core", shape={"N": 4})
    assert [op.seconds for op in priced.ops] == [op.seconds for op in direct.ops]
    with pytest.raises(hetpart.InvalidOptionError, match="bound already"):
        hetpart.annotate(graph, shape={"N": 4})


def test_a_plan_is_loaded_from_a_path_as_text(tmp_path: Path) -> None:
    made = hetpart.partition(model(RELU), hardware="emulated")
    bundle = made.save(tmp_path / "m.hetpart")
    assert hetpart.load_plan(str(bundle)) == hetpart.load_plan(bundle)


@pytest.mark.parametrize("placement", ["all-cpu", {"a": "cpu", "b": "cuda:0"}])
def test_a_feed_that_is_no_mapping_is_refused(placement: Any) -> None:
    made = hetpart.partition(model(RELU), hardware="emulated", placement=placement)
    nothing: Any = None
    with made.session(emulate=True) as session, pytest.raises(hetpart.InvalidFeedError, match="not arrays by name"):
        session.run(None, nothing)


def test_a_model_that_returns_nothing_is_refused() -> None:
    proto = model(RELU)
    del proto.graph.output[:]
    with pytest.raises(hetpart.InvalidModelError, match="has no outputs") as refused:
        hetpart.partition(proto, hardware="emulated")
    assert refused.value.hint
