"""The zoo is placed as it was, to the byte, whatever the hash seed and the number of threads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import golden_plans

ROOT = Path(__file__).parent.parent
Find = Callable[[str], Path]
SURROUNDINGS = [
    {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    {"PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "4", "OPENBLAS_NUM_THREADS": "4"},
]


@pytest.mark.parametrize("name", golden_plans.MODELS)
def test_a_plan_is_as_it_was(name: str, zoo_model: Find, request: pytest.FixtureRequest) -> None:
    file = golden_plans.FOLDER / f"{name}.json"
    found = golden_plans.golden_text(name, zoo_model(name))
    if request.config.getoption("--update-golden"):
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["wide-and-deep-tiny", "dlrm-tiny"])
def test_equal_inputs_give_equal_bytes(name: str, zoo_model: Find) -> None:
    path = zoo_model(name)
    command = [sys.executable, "-m", "tests.golden_plans", name, str(path), "50"]
    digests = {
        subprocess.run(
            command, cwd=ROOT, env={**os.environ, **around}, capture_output=True, text=True, check=True
        ).stdout
        for around in SURROUNDINGS
    }
    assert len(digests) == 1
    assert digests == {golden_plans.digest(name, path, 50) + "\n"}
