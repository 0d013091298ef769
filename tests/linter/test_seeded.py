"""Defects planted into models of the zoo are found by their rules, and clean models are clean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import hetpart
from benchmarks import zoo
from benchmarks.lint_seeded import seeded
from benchmarks.plan_defects import HARDWARE
from hetpart.linter.rule import all_rules

TINY = [name for name in zoo.ZOO if name.endswith("-tiny")]


def test_every_defect_is_found(zoo_model: Callable[[str], Path]) -> None:
    """``benchmarks/lint_seeded.py`` plants them into the whole zoo."""
    rows = list(seeded("wide-and-deep-tiny", zoo_model("wide-and-deep-tiny")))
    assert sorted(row["rule"] for row in rows) == sorted(rule.name for rule in all_rules() if rule.is_own)
    assert [row["rule"] for row in rows if not row["found"]] == []


@pytest.mark.parametrize("name", TINY)
def test_a_clean_model_has_no_findings(name: str, zoo_model: Callable[[str], Path]) -> None:
    assert hetpart.lint(zoo_model(name), hardware=HARDWARE, shape=zoo.ZOO[name].shape) == []
