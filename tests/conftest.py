"""Fixtures every test may use."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from benchmarks import zoo
from hetpart.cost_model import calibrated, processors

# A gate gives the same answer twice, on a slow machine too. `pytest --hypothesis-profile drawn` looks for new examples.
settings.register_profile("drawn")
settings.register_profile("same", derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("same")


@pytest.fixture(scope="session")
def zoo_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function from a name in the zoo to the model's path; a model is built once in a test run."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own  # above the workers' own folders
    return lambda name: zoo.prepare(name, shared / "zoo")


@pytest.fixture(autouse=True, scope="session")
def ctrl_c() -> Generator[None]:
    """SIGINT raises KeyboardInterrupt, also in the background of a shell, which ignores it there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@cache
def _cuda_answers() -> bool:
    command = shutil.which("nvidia-smi")
    return command is not None and subprocess.run([command, "-L"], check=False, capture_output=True).returncode == 0


def pytest_configure(config: pytest.Config) -> None:
    """Plans come out alike on every machine, also those that test files make while they are imported.

    No calibration of this machine is seen, neither here nor by commands that tests start, and "this machine" has a
    processor whose name tells nothing. Cycles are sought rarely: to look for them among all that tests and PyTorch
    make takes a tenth of the time.
    """
    gc.set_threshold(50_000, 20, 100)
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    folder = tempfile.TemporaryDirectory(prefix="hetpart-no-calibration-")
    config.add_cleanup(folder.cleanup)
    patch.setenv(calibrated.FOLDER_VARIABLE, folder.name)
    nameless = replace(processors.this_processor(), name="", family="", avx512=True, amx=False)
    patch.setattr(processors, "this_processor", lambda: nameless)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--update-golden`` stores what is planned now as what should be."""
    parser.addoption("--update-golden", action="store_true", help="store the zoo's plans as they are now")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves tests marked ``cuda`` out, as deselected, where no NVIDIA driver answers."""
    cuda = [item for item in items if item.get_closest_marker("cuda")]
    if cuda and not _cuda_answers():
        config.hook.pytest_deselected(items=cuda)
        items[:] = [item for item in items if item not in cuda]
