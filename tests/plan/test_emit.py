"""What is emitted is the same model: ONNX Runtime alone makes the same of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import hetpart
from hetpart.cli import main
from hetpart.errors import InvalidOptionError
from hetpart.plan.emit import emit_annotated, emit_stages, whole_model
from hetpart.plan.streamed import streamed_weights
from hetpart.runtime.random_feeds import random_feeds
from tests.runtime.graphs import feeds, models
from tests.runtime.models import assert_same, cut, model, placed, plain
from tests.runtime.test_streaming import layers, planned

TINY = ["gpt2-tiny", "dlrm-tiny", "control-flow-tiny", "vit-tiny"]


def _planned(path: Path, name: str) -> hetpart.PartitionedModel:
    from benchmarks import zoo

    return hetpart.partition(path, hardware="emulated", placement="random:3", shape=dict(zoo.ZOO[name].shape))


@pytest.mark.parametrize("name", TINY)
def test_a_native_session_gives_what_partitions_give(zoo_model: Callable[[str], Path], name: str) -> None:
    partitioned = _planned(zoo_model(name), name)
    assert len(partitioned.plan.partitions) > 1
    bundle = partitioned.bundle()
    fed = random_feeds(partitioned.plan.inputs, 1)
    with (
        hetpart.Session(bundle, emulate=True, optimize=False, threads=1) as ours,
        hetpart.Session(bundle, emulate=True, optimize=False, threads=1, mode="native") as native,
    ):
        assert [arg.name for arg in native.get_inputs()] == [arg.name for arg in ours.get_inputs()]
        assert_same(native.run(None, fed), ours.run(None, fed))


@pytest.mark.parametrize("name", ["vit-tiny", "dlrm-tiny"])
@pytest.mark.parametrize("self_contained", [False, True])
def test_an_annotated_model_runs_in_onnxruntime_alone(
    zoo_model: Callable[[str], Path], name: str, tmp_path: Path, self_contained: bool
) -> None:
    partitioned = _planned(zoo_model(name), name)
    written = emit_annotated(partitioned.bundle(), tmp_path / "out.onnx", self_contained=self_contained)
    described = json.loads((tmp_path / "out.onnx.options.json").read_text())
    assert sorted(written) == sorted(tmp_path.iterdir())
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for key, value in described["session_config"].items():
        options.add_session_config_entry(key, value)
    session = onnxruntime.InferenceSession(tmp_path / "out.onnx", options, providers=["CPUExecutionProvider"])
    fed = random_feeds(partitioned.plan.inputs, 1)
    with partitioned.session(emulate=True, threads=1) as ours:
        for mine, theirs in zip(ours.run(None, fed), session.run(None, fed), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    nodes = onnx.load(tmp_path / "out.onnx", load_external_data=False).graph.node
    layers = {node.name: {p.key: p.value for p in node.metadata_props}["layer_ann"] for node in nodes}
    layer = {"cpu": "hetpart_host", "cuda:0": "hetpart_accelerator"}
    expected = {decision.op: layer[decision.device] for decision in partitioned.plan.decisions}
    assert set(expected.values()) == set(layer.values())
    assert {op: layers[op] for op in expected} == expected


@pytest.mark.parametrize("option", [{"overlap": True}, {"emulate_link": "1GB/s"}])
def test_lanes_and_links_are_refused_where_one_session_runs_the_plan(option: dict[str, Any]) -> None:
    proto = model("two (float[4] x) => (float[4] y) { [neg] n = Neg(x) [abs] y = Abs(n) }")
    with pytest.raises(InvalidOptionError, match=f"{next(iter(option))} is asked for.*one session"):
        cut(proto, ("abs",), mode="native", **option)
    cut(proto, ("abs",), mode="native", overlap=False).close()


def test_annotations_are_what_onnxruntime_places_by(tmp_path: Path) -> None:
    """Rules that name a provider which is here are obeyed: those of the host alone are tried, on the CPU provider."""
    proto = model("two (float[4] x) => (float[4] y) { [neg] n = Neg(x) [abs] y = Abs(n) }")
    with cut(proto, ("abs",), mode="native") as session:
        inner: Any = session._sessions[0]  # pyright: ignore[reportPrivateUsage]
        settings = inner.get_session_options().get_session_config_entry("session.layer_assignment_settings")
        assert settings == "cuda(=hetpart_accelerator); cpu(=hetpart_host)"
        assert session.run(None, {"x": np.array([1, -2, 3, 0], np.float32)})[0].tolist() == [1, 2, 3, 0]
    assert list(tmp_path.iterdir()) == []


def test_outputs_that_are_left_out_are_no_values(tmp_path: Path) -> None:
    proto = model("""two (float[1,4,8] x, float[1,24,8] w, float[1,24,8] r) => (float[1,4,8] y) {
        [one] p = GRU <hidden_size = 8> (x, w, r)
        [mid] q = Relu(p)
        [two] y = GRU <hidden_size = 8> (q, w, r)
    }""")
    for node in (proto.graph.node[0], proto.graph.node[2]):
        node.output.insert(0, "")  # of every step, where only the last is wanted
    rng = np.random.default_rng(0)
    fed = {name: rng.standard_normal(shape, np.float32) for name, shape in
           (("x", (1, 4, 8)), ("w", (1, 24, 8)), ("r", (1, 24, 8)))}  # fmt: skip
    emit_annotated(placed(proto, ("mid",)).bundle(), tmp_path / "out.onnx", self_contained=True)
    emitted = onnx.load(tmp_path / "out.onnx")
    onnx.checker.check_model(emitted)
    assert_same(plain(emitted).run(None, fed), plain(proto).run(None, fed))


@settings(max_examples=25, deadline=None)
@given(models(), st.integers(0, 2**31))
def test_random_models_are_whole_again(proto: onnx.ModelProto, seed: int) -> None:
    names = [node.name for node in proto.graph.node]
    rng = np.random.default_rng(seed)
    partitioned = placed(proto, {name for name in names if rng.random() < 0.5})
    whole = whole_model(partitioned.bundle())
    onnx.checker.check_model(whole)
    fed = feeds(proto, seed)
    assert_same(plain(whole).run(None, fed), plain(proto).run(None, fed))


def test_stages_run_one_after_another(zoo_model: Callable[[str], Path], tmp_path: Path) -> None:
    partitioned = _planned(zoo_model("dlrm-tiny"), "dlrm-tiny")
    written = emit_stages(partitioned.bundle(), tmp_path / "stages")
    assert sorted(written) == sorted((tmp_path / "stages").iterdir())
    manifest = json.loads((tmp_path / "stages" / "manifest.json").read_text())
    fed = random_feeds(partitioned.plan.inputs, 1)
    values: dict[str, Any] = dict(fed)
    for stage in manifest["stages"]:
        one = onnxruntime.InferenceSession(tmp_path / "stages" / stage["file"], providers=["CPUExecutionProvider"])
        made = one.run(stage["outputs"], {name: values[name] for name in stage["inputs"]})
        values |= dict(zip(stage["outputs"], made, strict=True))
    with partitioned.session(emulate=True, threads=1) as ours:
        for name, mine in zip(manifest["outputs"], ours.run(None, fed), strict=True):
            np.testing.assert_allclose(mine, values[name], rtol=1e-4, atol=1e-5)


def test_the_command_emits_and_refuses_what_is_there(zoo_model: Callable[[str], Path], tmp_path: Path) -> None:
    bundle = _planned(zoo_model("vit-tiny"), "vit-tiny").save(tmp_path / "b.hetpart")
    for form in ("ort-annotated", "stages"):
        arguments = ["emit", str(bundle), "--format", form, "-o", str(tmp_path / form), "--json"]
        first = CliRunner().invoke(main, arguments)
        assert first.exit_code == 0, first.output
        document = json.loads(first.stdout)
        assert document["schema"] == "hetpart.emit"
        assert all(Path(file).exists() for file in document["files"])
        again = CliRunner().invoke(main, arguments)
        assert again.exit_code == 2
        assert "exists" in again.output
    ran = CliRunner().invoke(main, ["run", str(bundle), "--random", "--emulate", "--native", "--check"])
    assert ran.exit_code == 0, ran.output
    assert "equal" in ran.output


def test_streamed_weights_are_weights_again(tmp_path: Path) -> None:
    partitioned = planned(layers(8))
    assert streamed_weights(partitioned.plan)
    bundle = partitioned.bundle()
    fed = random_feeds(partitioned.plan.inputs, 1)
    emit_stages(bundle, tmp_path / "stages")
    assert json.loads((tmp_path / "stages" / "manifest.json").read_text())["streamed"]["file"] == "streamed.onnx"
    assert (tmp_path / "stages" / "streamed.onnx").exists()
    with (
        hetpart.Session(bundle, emulate=True, optimize=False, threads=1, record=True) as ours,
        hetpart.Session(bundle, emulate=True, optimize=False, threads=1, mode="native") as native,
    ):
        # Kernels pack weights that are constant, and add up in another order then.
        np.testing.assert_allclose(native.run(None, fed)[0], ours.run(None, fed)[0], rtol=1e-4, atol=1e-5)
        ours.write_trace(tmp_path / "trace.json")
        events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        copies = [event for event in events if event.get("cat") == "copy" and event["pid"] == 1]
        assert len(copies) == len(ours.last_copies())
