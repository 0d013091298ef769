"""From a model, however it is given, to a plan that says what was asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest

import hetpart
from hetpart.errors import HetpartError, InfeasibleError, InvalidBundleError, InvalidOptionError, UnboundDimensionsError
from tests.plan.stored import FEED, expected, write_model
from tests.runtime.models import model

CHAIN = model("""chain (float[batch,8] x) => (float[batch,8] z) {
    [layer_0_neg] a = Neg(x) [layer_0_abs] b = Abs(a) [layer_1_neg] c = Neg(b) [layer_1_exp] z = Exp(c)
}""")


def partition(given: Any = CHAIN, **options: Any) -> hetpart.PartitionedModel:
    return hetpart.partition(given, **{"hardware": "emulated", "shape": {"batch": 4}} | options)


def devices(partitioned: hetpart.PartitionedModel) -> dict[str, str]:
    return {decision.op: decision.device for decision in partitioned.plan.decisions}


def result(partitioned: hetpart.PartitionedModel, feed: dict[str, np.ndarray]) -> np.ndarray:
    with partitioned.session(emulate=True) as session:
        return session.run(None, feed)[0]


def test_a_path_a_text_and_models_in_memory_give_one_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "chain.onnx"
    onnx.save(CHAIN, path)
    monkeypatch.chdir(tmp_path)
    before = CHAIN.SerializeToString(deterministic=True)
    plans = [partition(given).plan for given in (path, str(path), "chain.onnx", CHAIN, onnx_ir.load(path))]
    assert CHAIN.SerializeToString(deterministic=True) == before
    assert all(plan.decisions == plans[0].decisions for plan in plans)
    assert all(plan.prediction == plans[0].prediction for plan in plans)
    assert [plan.model.path for plan in plans] == [str(path)] * 3 + [""] * 2
    assert {plan.model.name for plan in plans} == {"chain"}


def test_models_in_memory_run_and_are_saved(tmp_path: Path) -> None:
    x = np.linspace(-2, 2, 32, dtype=np.float32).reshape(4, 8)
    for number, given in enumerate((CHAIN, onnx_ir.from_proto(CHAIN))):
        partitioned = partition(given, pin="layer_1_*=cuda")
        np.testing.assert_allclose(result(partitioned, {"x": x}), np.exp(-np.abs(x)), rtol=1e-6)
        for self_contained in (False, True):
            bundle = partitioned.save(tmp_path / f"{number}{self_contained}.hetpart", self_contained=self_contained)
            with hetpart.Session(bundle, emulate=True) as session:
                np.testing.assert_allclose(session.run(["z"], {"x": x})[0], np.exp(-np.abs(x)), rtol=1e-6)


def test_an_ir_model_with_weights_in_files_runs_from_them(tmp_path: Path) -> None:
    path = write_model(tmp_path / "there")
    partitioned = partition(onnx_ir.load(path), placement="random:1", shape=None)
    np.testing.assert_array_equal(result(partitioned, FEED), expected(path))
    bundle = partitioned.save(tmp_path / "b.hetpart")
    with hetpart.Session(bundle, emulate=True) as session:
        np.testing.assert_array_equal(session.run(None, FEED)[0], expected(path))


STRANGE = [
    "with space.onnx", "日本語 'quoted' \"twice\".onnx", "a=b;c$d&.onnx", "per%cent#.onnx", "-o.onnx", "new\nline.onnx",
    ".onnx", "no suffix", "x" * 200 + ".onnx",
]  # fmt: skip


@pytest.mark.parametrize("name", STRANGE)
def test_paths_may_be_strange(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / name.removesuffix(".onnx").replace("/", "")[:50] / "deep er"
    path = write_model(folder, name)
    monkeypatch.chdir(folder)
    for given in (path, name):
        partitioned = partition(given, placement="random:1", shape=None)
        np.testing.assert_array_equal(result(partitioned, FEED), expected(path))
        bundle = partitioned.save(folder.parent / f"{name[:50]}.hetpart")
        with hetpart.Session(bundle, emulate=True) as session:
            np.testing.assert_array_equal(session.run(None, FEED)[0], expected(path))
        assert partitioned.plan.model.path == str(path)
        assert partitioned.report()


def test_a_model_is_run_and_saved_from_another_folder_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_model(tmp_path / "there")
    monkeypatch.chdir(path.parent)
    partitioned = partition(path.name, placement="random:1", shape=None)
    monkeypatch.chdir(tmp_path)
    np.testing.assert_array_equal(result(partitioned, FEED), expected(path))
    with hetpart.Session(partitioned.save("m.hetpart"), emulate=True) as session:
        np.testing.assert_array_equal(session.run(None, FEED)[0], expected(path))


def test_weights_that_changed_since_are_refused(tmp_path: Path) -> None:
    path = write_model(tmp_path)
    partitioned = partition(path, placement="random:1", shape=None)
    (tmp_path / "first.bin").write_bytes(b"\x3f" * 30_000)
    with pytest.raises(InvalidBundleError, match=r"first\.bin.* changed"):
        partitioned.session(emulate=True)


def test_options_are_recorded_as_they_were_given() -> None:
    plan = partition(
        shape=["batch=4"], budget=["cuda:0=1GB", "cpu=8GB"], pin=["layer_0_neg=cpu", "op:Exp=cuda"], threads=2,
        placement="random:7",
    ).plan  # fmt: skip
    assert plan.options == {
        "budget": "cuda:0=1GB cpu=8GB", "hardware": "emulated", "pin": "layer_0_neg=cpu op:Exp=cuda",
        "placement": "random:7", "shape": "batch=4", "threads": "2", "access": "", "trip_count": "",
    }  # fmt: skip
    assert plan.model.dimensions == {"batch": 4}
    assert partition(budget=0).plan.options["budget"] == "0"
    assert partition().plan.options | {"hardware": "", "shape": ""} == {
        "budget": "auto", "hardware": "", "pin": "", "placement": "optimal", "shape": "", "threads": "0",
        "access": "", "trip_count": "",
    }  # fmt: skip


@pytest.mark.parametrize("shape", [{"batch": 3}, "batch=3", ["batch=3"], "batch = 3,"])
def test_dimensions_are_bound(shape: Any) -> None:
    plan = partition(shape=shape).plan
    assert (plan.inputs[0].shape, plan.model.dimensions) == ((3, 8), {"batch": 3})


def test_an_open_dimension_is_named_with_its_flag() -> None:
    with pytest.raises(UnboundDimensionsError, match="batch") as refused:
        partition(shape=None)
    assert "--shape" in refused.value.hint


@pytest.mark.parametrize(
    "placement", ["optimal", "all-cpu", "all-accelerator", "fill-in-order", *(f"random:{i}" for i in range(8))]
)
def test_pins_hold_under_every_rule(placement: str) -> None:
    pins = ["layer_0_neg=cpu", "layer_0_abs=cuda", "op:Exp=cpu"]
    found = devices(partition(placement=placement, pin=pins))
    assert (found["layer_0_neg"], found["layer_0_abs"], found["layer_1_exp"]) == ("cpu", "cuda:0", "cpu")
    if placement == "all-cpu":
        assert found["layer_1_neg"] == "cpu"
    if placement == "all-accelerator":
        assert found["layer_1_neg"] == "cuda:0"


def test_everything_on_the_accelerator_says_what_it_lacks() -> None:
    needed = partition(placement="all-accelerator").plan.device("cuda:0").peak_bytes
    with pytest.raises(InfeasibleError, match=f"{needed:,} bytes") as refused:
        partition(placement="all-accelerator", budget=needed - 1)
    assert (refused.value.required_bytes, refused.value.exit_code) == (needed, 1)
    assert set(devices(partition(placement="all-accelerator", budget=needed)).values()) == {"cuda:0"}


def test_budgets_are_of_the_device_they_name() -> None:
    plan = partition(budget=["cuda=1MB", "cpu=8GB"]).plan
    assert [use.budget_bytes for use in plan.devices] == [8_000_000_000, 1_000_000]
    assert [use.budget_bytes for use in partition(budget="50%").plan.devices] == [None, 8_000_000_000]
    assert set(devices(partition(budget=0)).values()) == {"cpu"}
    assert partition(budget=123_456).plan.device("cuda:0").budget_bytes == 123_456


BAD: dict[str, dict[str, Any]] = {
    "budget": {"budget": "much"},
    "negative budget": {"budget": -1},
    "budget of nobody": {"budget": "cuda:9=1GB"},
    "pin": {"pin": "nothing=cpu"},
    "pin of nobody": {"pin": "op:Exp=tpu"},
    "hardware": {"hardware": "abacus"},
    "placement": {"placement": "best"},
    "shape": {"shape": "batch"},
    "a shape twice": {"shape": ["batch=1", "batch=2"]},
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options_are_refused_with_a_hint(case: str) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        partition(**BAD[case])
    assert refused.value.hint


def test_stages_are_told_as_they_begin() -> None:
    told: list[str] = []
    partition(progress=told.append)
    assert told == ["reading the model", "pricing its operators", "placing them", "fingerprinting the weights"]


def test_a_full_check_is_recorded(tmp_path: Path) -> None:
    path = write_model(tmp_path)
    assert all(file.full_digest for file in partition(path, verify="full", shape=None).plan.model.files)
    assert not any(file.full_digest for file in partition(path, shape=None).plan.model.files)


def test_what_cannot_be_planned_changes_nothing(tmp_path: Path) -> None:
    path = write_model(tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    for options in BAD.values():
        with pytest.raises(HetpartError):
            partition(path, **{"shape": None} | options)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_load_and_annotate_speak_of_the_same_ops(zoo_model: Callable[[str], Path]) -> None:
    path = zoo_model("wide-and-deep-tiny")
    graph = hetpart.load(path, shape={"batch": 4})
    costs = hetpart.annotate(path, hardware="l4+generic-2core", shape={"batch": 4})
    assert len(costs.ops) == len(graph.ops)
    assert set(graph.to_networkx().nodes) == {op.name for op in graph.ops}
    assert all(len(cost.seconds) == len(costs.machine.devices) and cost.reason for cost in costs.ops)


def test_budgets_and_pins_may_be_mappings_and_numbers(zoo_model: Callable[[str], Path]) -> None:
    path = zoo_model("wide-and-deep-tiny")
    text = hetpart.partition(path, shape="batch=4", budget="cuda:0=26000000", pin="op:Gather=cpu", hardware="l4")
    given = hetpart.partition(
        path, shape={"batch": 4}, budget={"cuda:0": 26e6}, pin={"op:Gather": "cpu"}, hardware="l4"
    )
    assert given.plan.devices == text.plan.devices
    assert given.plan.decisions == text.plan.decisions
