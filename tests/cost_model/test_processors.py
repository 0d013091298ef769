"""The processor of a plan at another number of threads than it has cores."""

from __future__ import annotations

import pytest

from hetpart.cost_model import calibrated
from hetpart.cost_model.detect import this_processor
from hetpart.cost_model.machines import load_machine
from tests.calibration.test_from_profile import made_up_calibration


@pytest.fixture
def calibration(tmp_path, monkeypatch):
    monkeypatch.setenv(calibrated.FOLDER_VARIABLE, str(tmp_path))
    calibrated.save(made_up_calibration())


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
