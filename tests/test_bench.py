# pyright: reportPrivateUsage=false
"""``hetpart bench`` measures the plans that it says, and keeps the fastest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import hetpart
from hetpart.cli import main
from hetpart.errors import DeviceUnavailableError, MismatchError
from hetpart.plan.bench import BenchReport
from hetpart.report.bench_text import bench_parts
from hetpart.report.layout import plain
from hetpart.runtime import demands, native
from hetpart.runtime.random_feeds import random_feeds
from hetpart.whatif import bench as benching
from hetpart.whatif.bench import How, bench, native_ways
from tests.runtime.models import model

OPTIONS = {"hardware": "emulated", "shape": "batch=2"}


@pytest.fixture
def path(zoo_model: Callable[[str], Path]) -> Path:
    return zoo_model("control-flow-tiny")


def _names(report: BenchReport) -> set[str]:
    return {contender.name for contender in report.contenders}


def test_contenders_are_measured_fastest_first(path: Path) -> None:
    report = bench(path, emulate=True, rounds=4, **OPTIONS)
    assert _names(report) == {"hetpart", "all-cpu", "all-accelerator", "one annotated session"}
    assert report.rounds == 4
    medians = [contender.median_seconds for contender in report.contenders]
    assert medians == sorted(medians)
    for contender in report.contenders:
        assert 0 < contender.least_seconds <= contender.median_seconds <= contender.p95_seconds
    ours = next(one for one in report.contenders if one.name == "hetpart")
    plan = hetpart.partition(path, hardware="emulated", shape="batch=2").plan
    assert ours.partitions == len(plan.partitions)
    assert ours.peak_bytes == {use.device: use.peak_bytes for use in plan.devices}


def test_memory_is_counted_on_every_device(path: Path) -> None:
    report = bench(path, emulate=True, rounds=1, placement="random:1", **OPTIONS)
    for contender in report.contenders:
        if contender.name == "one annotated session":
            assert not contender.measured_peak_bytes
            continue
        plan = hetpart.partition(path, hardware="emulated", shape="batch=2").plan
        assert set(contender.measured_peak_bytes) <= {use.device for use in plan.devices}
        for device, held in contender.held.items():
            assert contender.measured_peak_bytes[device] == held.peak
            assert held.peak > 0 or not contender.peak_bytes[device]
    shown = plain(bench_parts(report), 120)
    assert "Memory" in shown
    assert "counted" in shown


def test_what_does_not_fit_is_left_out_with_the_reason(path: Path) -> None:
    report = bench(path, emulate=True, rounds=2, budget=0, **OPTIONS)
    assert "all-accelerator" not in _names(report)
    assert "budget" in report.left_out["all-accelerator"]
    shown = plain(bench_parts(report), 120)
    assert "Left out: all-accelerator" in shown
    assert all(name in shown for name in _names(report))


def test_autotune_keeps_the_fastest(path: Path, tmp_path: Path) -> None:
    report = bench(path, emulate=True, rounds=3, autotune=3, output=tmp_path / "best.hetpart", **OPTIONS)
    assert 1 <= len(report.contenders) <= 3
    assert report.kept == report.contenders[0].name
    kept = hetpart.load_plan(tmp_path / "best.hetpart")
    assert len(kept.partitions) == report.contenders[0].partitions


def test_autotune_considers_one_device_alone(path: Path) -> None:
    report = bench(path, emulate=True, rounds=1, autotune=99, **OPTIONS)
    ours = hetpart.partition(path, **OPTIONS).plan
    for rule in ("all-cpu", "all-accelerator"):
        alone = hetpart.partition(path, placement=rule, **OPTIONS).plan
        assert (rule in _names(report)) != (benching._work(alone) == benching._work(ours))


def test_onnxruntime_fills_the_budget_by_its_own_rule_where_there_is_a_cuda_device(path: Path) -> None:
    plan = hetpart.partition(path, hardware="l4", shape="batch=2", budget="3MB").plan
    left_out: dict[str, str] = {}
    ways = dict(native_ways(plan, How(emulate=False, native=True, say=print), left_out))
    assert ways == {"one annotated session": "native", "ONNX Runtime's own budget": "own-budget"}
    assert not left_out
    assert list(dict(native_ways(plan, How(emulate=True, native=True, say=print), left_out))) == [
        "one annotated session"
    ]
    assert "CUDA" in left_out["ONNX Runtime's own budget"]


def test_its_budget_is_of_the_accelerator_also_where_the_plan_uses_none(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = hetpart.partition(path, hardware="l4", shape="batch=2", placement="all-cpu").bundle()
    used: list[str] = []
    real = native.annotated_session

    def spied(one: Any, use: Any, settings: Any, entries: dict[str, str]) -> Any:
        used.append(use.device)
        return real(one, use, settings, entries)

    monkeypatch.setattr(native, "annotated_session", spied)
    hetpart.Session(bundle, emulate=True, mode="own-budget").close()
    assert used == ["cuda:0"]
    monkeypatch.setattr(demands, "cuda_answers", lambda _: False)
    with pytest.raises(DeviceUnavailableError, match="CUDA"):
        hetpart.Session(bundle, mode="own-budget")


@pytest.mark.parametrize(("budget", "setting"), [("3MB", "2929,"), ("4096000", "4000,")])
def test_its_budget_is_the_plans_in_kilobytes(
    path: Path, monkeypatch: pytest.MonkeyPatch, budget: str, setting: str
) -> None:
    """What ONNX Runtime is told, and that it takes it: the CPU provider runs the model all the same."""
    told: dict[str, str] = {}
    real = native.annotated_session

    def spied(one: Any, use: Any, settings: Any, entries: dict[str, str]) -> Any:
        told.update(entries)
        return real(one, use, settings, entries)

    monkeypatch.setattr(native, "annotated_session", spied)
    model = hetpart.partition(path, budget=budget, **OPTIONS)
    feeds = random_feeds(model.plan.inputs, 0)
    with hetpart.Session(model.bundle(), emulate=True, mode="own-budget") as own, model.session(emulate=True) as ours:
        assert told["session.resource_cuda_partitioning_settings"] == setting
        assert "session.layer_assignment_settings" not in told
        for mine, theirs in zip(own.run(None, feeds), ours.run(None, feeds), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_other_results_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, seeds = benching.all_feeds, iter(range(100))
    monkeypatch.setattr(benching, "all_feeds", lambda plan, given, _: real(plan, given, next(seeds)))
    with pytest.raises(MismatchError, match="gives other results"):
        bench(path, emulate=True, rounds=1, **OPTIONS)


def test_the_command_prints_json(path: Path) -> None:
    arguments = [
        "bench",
        str(path),
        "--hardware",
        "emulated",
        "--shape",
        "batch=2",
        "--emulate",
        "--repeat",
        "2",
        "--json",
    ]
    ran = CliRunner().invoke(main, arguments)
    assert ran.exit_code == 0, ran.output
    document = json.loads(ran.stdout)
    assert document["schema"] == "hetpart.bench"
    assert {one["name"] for one in document["contenders"]} >= {"hetpart", "all-cpu"}


STEP = model("""step (float[4] x, float[4] past_a, float[1,T] past_b)
    => (float[4] y, float[4] present_a, float[1,U] present_b)
<float[1,1] one = {1}> {
    [a] present_a = Add(past_a, x) [b] present_b = Concat <axis = 1> (past_b, one) [y] y = Neg(present_a)
}""")


def test_a_step_is_measured_with_its_states_where_they_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but one that grows, which would be longer in every run; in one session of ONNX Runtime's there are none."""
    run, fed = hetpart.Session.run, dict[int, set[str]]()

    def noted(self: hetpart.Session, names: Any, feeds: dict[str, Any], options: Any = None) -> list[Any]:
        kept = len(self.state())
        fed[kept] = fed.get(kept, set(feeds)) & set(feeds)
        return run(self, names, feeds, options)

    monkeypatch.setattr(hetpart.Session, "run", noted)
    (tmp_path / "step.onnx").write_bytes(STEP.SerializeToString())
    bench(tmp_path / "step.onnx", emulate=True, rounds=1, hardware="emulated", shape="T=?", state="auto")
    assert fed == {2: {"x", "past_b"}, 0: {"x", "past_a", "past_b"}}


SHIFTED = model("""shifted (float[4] x, int64[2] year) => (float[2] y)
<int64 first = {2000}> { place = Sub(year, first) [y] y = Gather(x, place) }""")


def test_what_may_not_be_random_is_given(tmp_path: Path) -> None:
    path = tmp_path / "shifted.onnx"
    path.write_bytes(SHIFTED.SerializeToString())
    np.save(tmp_path / "right.npy", np.array([2000, 2003]))
    np.save(tmp_path / "wrong.npy", np.array([2000, 2004]))
    arguments = ["bench", str(path), "--hardware", "emulated", "--emulate", "--repeat", "1"]
    ran = CliRunner().invoke(main, [*arguments, "--input", f"year={tmp_path / 'right.npy'}"])
    assert ran.exit_code == 0, ran.output
    refused = CliRunner().invoke(main, [*arguments, "--input", f"year={tmp_path / 'wrong.npy'}"])
    assert refused.exit_code == 2
    assert "1 of its inputs were made up at random: 'x'" in refused.output
    unknown = CliRunner().invoke(main, [*arguments, "--input", f"month={tmp_path / 'wrong.npy'}"])
    assert "the model has no input 'month'" in unknown.output
    assert "made up" not in unknown.output
