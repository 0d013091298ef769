"""Plans cut for overlap: real models, checked by what shares no code with the search, and run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hetpart
import hetpart.compiler
from hetpart.partitioner.assembly.assemble import Assembly
from hetpart.partitioner.scores.certificate import check
from hetpart.runtime.check import run
from tests import golden_plans
from tests.partitioner.simulate import simulated_peaks
from tests.partitioner.timeline.test_timeline import assert_safe, assert_told
from tests.runtime.graphs import feeds, models
from tests.runtime.models import assert_same, model, plain

Find = Callable[[str], Path]
MODELS = ["dlrm-tiny", "moe-dense-tiny", "whisper-tiny"]


def plans(path: Path, name: str, share: int = 50) -> tuple[hetpart.PartitionedModel, hetpart.PartitionedModel]:
    """Cut for one after another, and for overlap."""
    return golden_plans.partitioned(name, path, share), golden_plans.partitioned(name, path, share, overlap=True)


@pytest.fixture
def however_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small models gain little; here that is enough."""
    monkeypatch.setattr("hetpart.plan.timeline.LEAST_GAIN", 0.0)


@pytest.mark.usefixtures("however_little")
@pytest.mark.parametrize("name", MODELS)
def test_it_is_faster_within_the_same_budget(name: str, zoo_model: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Assembly] = []
    write = hetpart.compiler.write_plan
    monkeypatch.setattr(
        "hetpart.compiler.write_plan", lambda found, *rest: (written.append(found), write(found, *rest))[1]
    )
    serial, overlapped = plans(zoo_model(name), name)
    assert overlapped.timeline.seconds < serial.timeline.seconds
    assert [d.device for d in overlapped.plan.decisions] == [d.device for d in serial.plan.decisions]
    # Each plan comes behind one whose footprint its budget is a share of.
    for made, found in zip((serial, overlapped), written[1::2], strict=True):
        assert_told(made)
        assert_safe(made)
        verdict = check(found.formulation.problem, found.solution.placement, found.solution.cut)
        assert verdict.violations == ()
        assert verdict.total_seconds == pytest.approx(made.plan.prediction.seconds)
        for device, peak in simulated_peaks(made).items():
            assert peak <= made.plan.device(device).peak_bytes
        assert all(headroom is None or headroom >= 0 for headroom in (use.headroom_bytes for use in made.plan.devices))


def test_what_would_not_overlap_all_the_same_is_left_alone(zoo_model: Find) -> None:
    serial, overlapped = plans(zoo_model("dlrm-tiny"), "dlrm-tiny")
    assert not overlapped.timeline.pays
    assert overlapped.plan.partitions == serial.plan.partitions
    assert overlapped.plan.buffers == serial.plan.buffers


@pytest.mark.usefixtures("however_little")
def test_fused_ops_stay_together(zoo_model: Find) -> None:
    overlapped = golden_plans.partitioned("whisper-tiny", zoo_model("whisper-tiny"), 50, overlap=True)
    partition = {op: p.id for p in overlapped.plan.partitions for op in p.ops}
    groups: dict[int, set[int]] = {}
    for op, group in zip(overlapped.graph.ops, overlapped.costs.groups, strict=True):
        groups.setdefault(group, set()).add(partition[op.name])
    assert {len(partitions) for partitions in groups.values()} == {1}


BRANCHES = model("""g (float[300,300] x) => (float[300,300] z) {
    [a] a = Gemm(x, x) [b] b = MatMul(x, x) [c] c = MatMul(b, b) [d] d = Neg(a) [e] z = Add(c, d)
}""")
PINS = ("node:a=cpu", "node:b=cuda", "node:c=cuda", "node:d=cpu", "node:e=cpu")


def test_what_is_cut_for_overlap_computes_the_same() -> None:
    x = np.random.default_rng(1).standard_normal((300, 300)).astype(np.float32)
    results: list[np.ndarray] = []
    for overlap in (False, True):
        made = hetpart.partition(BRANCHES, hardware="emulated", pin=PINS, overlap=overlap)
        with made.session(emulate=True, threads=1) as session:
            results += session.run(None, {"x": x})
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(proto=models(), seed=st.integers(0, 5))
def test_any_model_cut_for_overlap_computes_what_the_uncut_one_does(proto: onnx.ModelProto, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hetpart.plan.timeline.LEAST_GAIN", 0.0)
        made = hetpart.partition(proto, hardware="emulated", placement=f"random:{seed}", overlap=True)
    with hetpart.Session(made.bundle(), emulate=True, optimize=False, threads=1, overlap=True) as session:
        for feed in (feeds(proto, 1), feeds(proto, 2)):
            assert_same(session.run(None, feed), plain(proto).run(None, feed))


@pytest.mark.parametrize("limit", [{"max_partitions": 2}, {"min_gain": "90%"}, {"min_gain": "1s"}])
def test_limits_are_kept(limit: dict[str, object]) -> None:
    free = hetpart.partition(BRANCHES, hardware="emulated", pin=PINS, overlap=True)
    held = hetpart.partition(BRANCHES, hardware="emulated", pin=PINS, overlap=True, **limit)
    assert len(free.plan.partitions) == 3
    assert len(held.plan.partitions) == 2


def test_a_budget_without_room_for_more_keeps_the_memory_of_one_after_another() -> None:
    """Where the budget is what the serial plan takes, no byte more is taken; lanes wait instead."""
    free = hetpart.partition(BRANCHES, hardware="emulated", pin=PINS)
    least = free.plan.device("cuda:0").peak_bytes
    tight = hetpart.partition(BRANCHES, hardware="emulated", pin=PINS, overlap=True, budget=least)
    assert tight.plan.device("cuda:0").peak_bytes <= least
    assert_safe(tight)


def test_equal_inputs_give_equal_plans() -> None:
    first, second = (hetpart.partition(BRANCHES, hardware="emulated", pin=PINS, overlap=True).plan for _ in range(2))
    assert first == second
    assert first.options["overlap"] == "true"


@pytest.mark.parametrize("overlap", [False, True])
def test_what_is_measured_stands_beside_the_latency_of_its_kind(tmp_path: Path, *, overlap: bool) -> None:
    made = hetpart.partition(BRANCHES, hardware="emulated", pin=PINS, overlap=True)
    bundle = made.save(tmp_path / "b.hetpart")
    report = run(bundle, random_seed=1, emulate=True, overlap=overlap)
    assert report.predicted_seconds == (made.timeline.seconds if overlap else made.plan.prediction.seconds)
