"""The examples do what they tell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from examples import wide_and_deep


def test_wide_and_deep_tells_every_step_and_checks_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wide_and_deep.demonstrate(tmp_path, vocabulary=200_000, budget="50MB")
    told = capsys.readouterr().out
    assert [line[0] for line in told.splitlines() if line[:2] in {"1.", "2.", "3.", "4."}] == list("1234")
    assert "largest difference of 20 runs" in told
    assert str(tmp_path / "wide_and_deep.hetpart") in told
    assert (tmp_path / "wide_and_deep.hetpart" / "plan.json").exists()


def test_a_result_that_differs_is_not_passed_over() -> None:
    expected = np.zeros((2, 1), np.float32)
    with pytest.raises(AssertionError, match=r"results differ by 0\.5"):
        wide_and_deep.check_results([expected + np.float32(0.5)], expected, tolerance=1e-5)
