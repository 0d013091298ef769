"""Whatever a model file holds, ``hetpart.partition`` ends in a plan or in one of hetpart's errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import campaign, seeds

MUTANTS = 1000
"""`python benchmarks/fuzz.py --count 100000` tries more."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeds")
    seeds.plant(folder)
    return folder


def test_a_damaged_model_is_planned_or_refused(folder: Path) -> None:
    tried = campaign.run(folder, 0, MUTANTS)
    assert not tried.findings, "\n\n".join(tried.findings)
    assert tried.endings.total() == MUTANTS
    assert tried.endings["plan"] > MUTANTS / 5  # else the damage is of one kind, and little is reached
    assert tried.endings["InvalidModelError"] > MUTANTS / 5
