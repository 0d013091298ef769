"""A short calibration with few sizes, against what ONNX Runtime really does on this machine."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from subprocess import run

import msgspec
import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from hetpart.calibration import measure, samples
from hetpart.calibration.families import CONVOLUTIONS, FAMILIES
from hetpart.cli import main
from hetpart.cost_model import calibrated
from hetpart.cost_model.kernel_calls import GROUPED, LONE
from hetpart.cost_model.machines import load_machine
from hetpart.errors import HetpartError
from tests.calibration import short


@pytest.fixture(scope="module")
def short_sample(tmp_path_factory):
    """Two sizes an axis and little time: enough to see that every part works."""
    file = tmp_path_factory.mktemp("short") / "sampled.json"
    run([sys.executable, "-m", "tests.calibration.short", str(file)], check=True, cwd=Path(__file__).parents[2])
    return msgspec.json.decode(file.read_bytes(), type=samples.Sampled)


@pytest.fixture(scope="module")
def short_calibration(short_sample):
    with short.few_sizes():
        yield short_sample.calibration()


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(calibrated.FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


def test_every_probe_is_a_legal_model():
    for family in (*FAMILIES.values(), *CONVOLUTIONS.values()):
        sizes = next(iter(family.points()))
        onnx.checker.check_model(onnx.load_from_string(family.build(*sizes)))


def test_measures_every_family_at_one_thread_and_at_all(short_calibration):
    assert "1" in short_calibration.threads
    for rates in short_calibration.threads.values():
        families = {*FAMILIES, *CONVOLUTIONS, *GROUPED, *LONE, "reorder", "relu_overwriting"}
        assert set(rates.warm_tables) == families
        assert set(rates.tables) == {*families, "gemm_streamed", "gather_far"}
        assert all(seconds > 0 for found in rates.tables.values() for seconds in found.seconds)
        assert 0 < rates.quiet_share <= 1


def test_what_a_session_left_alone_takes_longer_is_no_part_of_streaming_weights(short_sample):
    def later(one, seconds):
        """Where chance made a run faster from main memory than from caches, it counts as no slower."""
        products = {
            key: replace(taken, streamed=max(taken.streamed, taken.cool) + seconds)
            for key, taken in one.probes.items()
            if key.startswith("gemm ")
        }
        return replace(one, probes={**one.probes, **products})

    def streamed(seconds):
        threads = tuple(later(one, seconds) for one in short_sample.threads)
        (single, *_) = replace(short_sample, threads=threads).calibration().threads.values()
        return single.tables["gemm_streamed"].seconds

    with short.few_sizes():
        assert np.abs(np.subtract(streamed(5e-6), streamed(0.0))).max() < 1e-8


def test_larger_products_take_longer(short_calibration):
    gemm = short_calibration.threads["1"].tables["gemm"]
    assert gemm.at((256, 768, 768)) > gemm.at((16, 768, 768)) > gemm.at((16, 64, 64))


def test_is_kept_and_used_from_then_on(short_calibration, own_folder):
    before = load_machine("emulated", threads=1)
    path = calibrated.save(short_calibration)
    assert path.is_relative_to(own_folder)
    assert calibrated.load() == short_calibration
    after = load_machine("emulated", threads=1)
    assert before.host.rates is None
    assert after.link("cpu", "cuda:0").copy_bandwidth == short_calibration.link_bandwidth
    assert after.host.rates == short_calibration.threads["1"]
    assert "calibrated with" in after.origin
    assert "hetpart calibrate" in after.host.sources["bandwidth"]


@pytest.mark.usefixtures("own_folder")
def test_a_calibration_that_cannot_be_read_is_named(short_calibration):
    path = calibrated.save(short_calibration)
    path.write_text("{")
    with pytest.raises(HetpartError, match=path.name):
        load_machine("emulated")


@pytest.mark.usefixtures("own_folder")
def test_prices_the_kernels_that_run(short_calibration, zoo_model):
    import hetpart

    calibrated.save(short_calibration)
    path, rates = zoo_model("wide-and-deep-tiny"), short_calibration.rates(0)
    few, many = (
        hetpart.partition(path, shape=f"batch={batch}", hardware="emulated", placement="all-cpu") for batch in (8, 4096)
    )
    gemms = [op.id for op in few.graph.ops if op.op_type == "Gemm"]
    assert sum(many.costs.ops[op].seconds[0] for op in gemms) > 10 * sum(few.costs.ops[op].seconds[0] for op in gemms)
    total = sum(cost.seconds[0] for cost in few.costs.ops)
    assert few.plan.prediction.seconds == pytest.approx(total + rates.session_seconds)


@pytest.mark.usefixtures("own_folder")
def test_the_command_prints_one_json_object(monkeypatch, short_sample, short_calibration):
    monkeypatch.setattr(measure, "sample", lambda _progress: short_sample)
    shown = CliRunner().invoke(main, ["calibrate", "--json"])
    content = json.loads(shown.stdout)
    assert shown.exit_code == 0
    assert content["schema"] == "hetpart.calibrate"
    assert set(content["threads"]) == set(short_calibration.threads)
    assert "error" in CliRunner().invoke(main, ["calibrate"]).stdout


def _slower(sampled, factor):
    """The same machine, with other work on it but for one kernel."""

    def slow(key, taken):
        by = 1.0 if key == "gemm 16 64 64" else factor
        return replace(taken, streamed=taken.streamed * by, cool=taken.cool * by, warm=taken.warm * by)

    threads = [
        replace(one, probes={key: slow(key, taken) for key, taken in one.probes.items()}) for one in sampled.threads
    ]
    return replace(sampled, threads=tuple(threads))


@pytest.mark.usefixtures("own_folder")
def test_refining_keeps_the_least_of_both(monkeypatch, short_sample, short_calibration):
    slow, fast = _slower(short_sample, 3.0), _slower(short_sample, 1.0)
    for found in (slow, fast, slow):
        monkeypatch.setattr(measure, "sample", lambda _progress, found=found: found)
        shown = CliRunner().invoke(main, ["calibrate", *(["--refine"] if samples.load_samples() else [])])
        assert shown.exit_code == 0, shown.output
    assert calibrated.load() == short_calibration


@pytest.mark.usefixtures("own_folder")
def test_refining_nothing_is_calibrating(monkeypatch, short_sample, short_calibration):
    monkeypatch.setattr(measure, "sample", lambda _progress: short_sample)
    assert CliRunner().invoke(main, ["calibrate", "--refine"]).exit_code == 0
    assert calibrated.load() == short_calibration


@pytest.mark.usefixtures("own_folder")
def test_samples_of_other_probes_do_not_refine(monkeypatch, short_sample):
    other = replace(short_sample.threads[0], threads=77)
    samples.save_samples(replace(short_sample, threads=(other,)))
    monkeypatch.setattr(measure, "sample", lambda _progress: short_sample)
    shown = CliRunner().invoke(main, ["calibrate", "--refine"])
    assert shown.exit_code != 0
    assert "calibrate without --refine" in shown.output
    assert calibrated.load() is None


def test_numbers_hold_no_denormals():
    from hetpart.calibration.models import numbers

    assert np.abs(numbers(10_000)).min() > np.finfo(np.float32).tiny
