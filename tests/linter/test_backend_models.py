"""The models that ONNX tests backends with: lint reads each, and calls none broken.

``benchmarks/lint_seeded.py --backend`` lints all of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import hetpart
from hetpart.plan.findings import Severity
from tests.conformance.collected import collected_models
from tests.linter.models import L4

STEP = 12
"""One model of so many is linted here."""


@pytest.mark.filterwarnings("ignore")  # NumPy warns inside the reference evaluator that makes ONNX's test data
def test_no_model_of_onnx_is_called_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNX_HOME", str(tmp_path))
    models = collected_models(STEP)
    assert len(models) > 100
    found = {name: hetpart.lint(model, **L4) for name, model in models.items()}
    errors = {name: [one for one in own if one.severity is Severity.ERROR] for name, own in found.items()}
    assert {name: own for name, own in errors.items() if own} == {}
