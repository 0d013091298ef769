"""The processor of a plan at another number of threads than it has cores."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetpart.cost_model import calibrated, detect, processors
from hetpart.cost_model.detect import this_processor
from hetpart.cost_model.machines import load_machine
from tests.calibration.test_from_profile import made_up_calibration


@pytest.fixture
def calibration(tmp_path, monkeypatch):
    monkeypatch.setenv(calibrated.FOLDER_VARIABLE, str(tmp_path))
    calibrated.save(made_up_calibration())


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A function from what ``/proc/cpuinfo`` says to the processor that it tells of."""

    def told(text):
        (tmp_path / "cpuinfo").write_text(text)
        monkeypatch.setattr(detect, "CPUINFO", tmp_path / "cpuinfo")
        return this_processor.__wrapped__()

    return told


@pytest.mark.usefixtures("calibration")
def test_a_calibrated_processor_has_as_many_cores_as_it_is_given_threads():
    """What every core does a part of takes as much longer with fewer."""
    assert load_machine("l4", threads=1).devices[0].cores == 1
    assert load_machine("l4", threads=1).devices[0].rates == made_up_calibration().threads["1"]
    assert load_machine("l4").devices[0].cores == this_processor().cores


@pytest.mark.usefixtures("calibration")
def test_a_number_of_threads_that_was_not_calibrated_is_said():
    machine = load_machine("l4", threads=3)
    assert machine.devices[0].rates is None
    assert "calibrated for 1 and 2 threads, not for 3" in machine.origin


@pytest.mark.usefixtures("calibration")
def test_a_calibration_is_of_one_kind_of_processor(monkeypatch):
    """Virtual machines on processors of two generations have one name: ``AMD EPYC``."""
    assert calibrated.load() is not None
    other = replace(this_processor(), family="AuthenticAMD family 25 model 17 of another")
    monkeypatch.setattr(calibrated, "this_processor", lambda: other)
    assert calibrated.load() is None


@pytest.mark.parametrize(
    ("lines", "family"),
    [
        ("vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n", "AuthenticAMD family 25 model 17"),
        ("CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n", ""),
    ],
)
def test_a_processors_family_is_its_makers_numbers(written, lines, family):
    found = written(f"processor\t: 0\n{lines}model name\t: AMD EPYC\n")
    assert (found.name, found.family) == ("AMD EPYC", family)
    assert found.kind == f"AMD EPYC {family}".strip()


@pytest.mark.parametrize(
    ("line", "block"),
    [("flags\t\t: sse2 avx2 avx512f\n", 16), ("flags\t\t: sse2 avx2\n", 8), ("Features\t: fp asimd sve\n", 16)],
)
def test_images_have_blocks_of_as_many_channels_as_the_processors_vectors_hold(written, monkeypatch, line, block):
    processor = written(f"processor\t: 0\n{line}")
    assert processor.channel_block == block
    monkeypatch.setattr(processors, "this_processor", lambda: processor)
    machine = load_machine("emulated")
    assert [device.channel_block for device in machine.devices] == [block, block]
    assert machine.host.sources["channel_block"] == "flags of /proc/cpuinfo"
    assert load_machine("l4+epyc").host.channel_block == 16


@pytest.mark.parametrize(
    ("flags", "profile"),
    [
        ("sse2 avx2 avx512f amx_tile", "xeon-emr"),
        ("sse2 avx2 avx512f", "generic-avx512"),
        ("sse2 avx2", "generic-2core"),
    ],
)
def test_a_processor_that_no_profile_names_is_priced_by_its_flags(written, monkeypatch, flags, profile):
    found = written(f"vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 255\nflags\t\t: {flags}\n")
    monkeypatch.setattr(processors, "this_processor", lambda: found)
    assert f"priced as {profile})" in load_machine("l4+host").origin
