"""An accelerator's calibration, played by the CPU provider behind a memory of its own, and on CUDA where it is."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf

import pytest

from hetpart.calibration import accelerator, families, measure, probes
from hetpart.calibration.accelerator import COPY_BYTES, Place, measure_accelerator
from hetpart.calibration.families import CONVOLUTIONS, FAMILIES
from hetpart.cost_model import calibrated, machines
from hetpart.cost_model.calibrated import SCHEMA, VERSION, AcceleratorCalibration, Calibration, CopyRate
from hetpart.cost_model.detect import DriverGpu, this_processor
from hetpart.cost_model.kernel_calls import GROUPED, LONE
from hetpart.devices import Provider
from hetpart.errors import DeviceUnavailableError, HetpartError
from hetpart.runtime.sessions import plain_session
from hetpart.runtime.transport import HostMemory

GPU = DriverGpu("NVIDIA Nothing 1", 10**10, 9 * 10**9)
MISSING = "erf"


@pytest.fixture(scope="module")
def models():
    """Two sizes of every family's axes, the largest product kept, and one family that does not run there."""
    thin = {
        name: replace(family, axes=tuple(axis[:2] for axis in family.axes))
        for name, family in {**FAMILIES, **CONVOLUTIONS}.items()
    }
    with pytest.MonkeyPatch.context() as patch:
        for name in ("FAMILIES", "CONVOLUTIONS"):
            few = {family: thin[family] for family in getattr(families, name)}
            for module in ("families", "readings", "accelerator"):
                patch.setattr(f"hetpart.calibration.{module}.{name}", few, raising=False)
        for module in ("families", "probes", "readings"):
            patch.setattr(f"hetpart.calibration.{module}.CHECKS", {"add": ((4096,),)})
        patch.setattr("hetpart.calibration.accelerator.TABLE_BYTES", 2**20)
        found = dict(probes.probe_models())
        broken = {key: b"no model" for key in found if key[0] == MISSING}
        yield found | broken


@pytest.fixture(scope="module")
def measured(models):
    return measure_accelerator(Place(GPU.name, "cuda:0", HostMemory(), Provider.CPU), models)


def test_every_family_is_measured_but_what_has_no_kernel(measured):
    derived = {*GROUPED, *LONE, "reorder", "gemm_streamed", "gather_far", "relu_overwriting"}
    expected = {*FAMILIES, *CONVOLUTIONS, *derived} - {MISSING}
    assert set(measured.rates.tables) == expected
    assert all(seconds > 0 for found in measured.rates.tables.values() for seconds in found.seconds)
    assert {"float32", "float64", "int8"} <= set(measured.rates.peak_flops)


@pytest.mark.parametrize(("end", "timed"), [(0.0, 1), (inf, accelerator.RUNS)])
def test_when_its_time_is_up_a_kernel_is_timed_once(models, monkeypatch, end, timed):
    sessions = []

    class Counted:
        def __init__(self, content, *place):
            self.session, self.runs = plain_session(content, *place), 0
            sessions.append(self)

        def run_with_iobinding(self, binding):
            self.runs += 1
            self.session.run_with_iobinding(binding)

        def __getattr__(self, name):
            return getattr(self.session, name)

    monkeypatch.setattr(accelerator, "plain_session", Counted)
    measure_accelerator(Place(GPU.name, "cuda:0", HostMemory(), Provider.CPU), models, end)
    assert {session.runs for session in sessions} == {accelerator.WARMING + timed}


def test_copies_are_measured_both_ways_from_both_kinds_of_memory(measured):
    for inwards in (True, False):
        for pinned in (True, False):
            seconds = measured.copy_seconds(inwards=inwards, pinned=pinned)
            assert tuple(seconds) == COPY_BYTES
            assert seconds[COPY_BYTES[-1]] > seconds[COPY_BYTES[0]]
            assert measured.bandwidth(inwards=inwards, pinned=pinned) > 1e8
    assert 0 < measured.latency < 1e-3


def test_a_device_on_which_nothing_runs_is_named(models):
    broken = dict.fromkeys(models, b"no model")
    with pytest.raises(DeviceUnavailableError, match=GPU.name):
        measure_accelerator(Place(GPU.name, "cuda:0", HostMemory(), Provider.CPU), broken)


def test_plans_use_it_where_the_driver_names_that_gpu(measured, tmp_path, monkeypatch):
    monkeypatch.setenv(calibrated.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(machines, "driver_gpus", lambda: (GPU,))
    processor = this_processor()
    own = Calibration(
        SCHEMA, VERSION, processor.kind, processor.cores, calibrated.runtime_version(), {}, 1e10, 1e-6, measured
    )
    calibrated.save(own)
    assert calibrated.load() == own
    machine = machines.load_machine()
    (gpu,) = machine.accelerators
    assert gpu.rates == measured.rates
    assert gpu.memory_bytes == GPU.memory_bytes
    assert "calibrated" in machine.origin
    link = machine.link("cpu", gpu.name)
    assert link.bandwidth == measured.bandwidth(inwards=True, pinned=True)
    assert link.copy_bandwidth == min(link.bandwidth, measured.bandwidth(inwards=True, pinned=False))
    monkeypatch.setattr(machines, "driver_gpus", lambda: (replace(GPU, name="NVIDIA Nothing 2"),))
    assert machines.load_machine().accelerators[0].rates is None


def test_the_rate_of_copies_is_of_what_large_ones_take_beyond_small_ones(measured):
    rows = tuple(CopyRate(True, True, nbytes, 1e-5 + nbytes / 2e10) for nbytes in (64, 2**26))
    found = AcceleratorCalibration(GPU.name, measured.rates, rows)
    assert found.bandwidth(inwards=True, pinned=True) == pytest.approx(2e10)


@pytest.mark.cuda
def test_cuda_is_measured_where_it_is(models):
    place = measure._cuda_place()
    assert place is not None
    found = measure_accelerator(place, models)
    assert {"gemm", "add", "convolution"} <= set(found.rates.tables)
    assert found.bandwidth(inwards=True, pinned=True) > found.bandwidth(inwards=True, pinned=False)


def test_a_calibration_of_another_version_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv(calibrated.FOLDER_VARIABLE, str(tmp_path))
    processor = this_processor()
    own = Calibration(SCHEMA, VERSION, processor.kind, processor.cores, calibrated.runtime_version(), {}, 1e10, 1e-6)
    path = calibrated.save(own)
    path.write_text(json.dumps({"schema": SCHEMA, "version": VERSION - 1, "peaks": {}}), encoding="utf-8")
    with pytest.raises(
        HetpartError, match=f"version {VERSION - 1}; this hetpart reads .* of version {VERSION}"
    ) as caught:
        machines.load_machine()
    assert "hetpart calibrate" in caught.value.hint
