"""Every rule fires on a model that breaks it, and is silent on one that does not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import hetpart
from hetpart.cost_model import calibrated
from hetpart.linter import check
from hetpart.linter.rule import FAMILIES, Rule, all_rules
from hetpart.linter.subject import Subject
from hetpart.whatif import lint as whatif
from tests.linter.models import PAIRS, Pair
from tests.linter.plan_models import PLAN_PAIRS

EVERY: Mapping[str, Pair] = {**PAIRS, **PLAN_PAIRS}
RULES = [rule for rule in all_rules() if rule.is_own]


def fired(model: Any, rule: str, **options: Any) -> list[hetpart.Finding]:
    found = hetpart.lint(model, select=rule, **options)
    assert {finding.rule for finding in found} <= {rule}
    return found


@pytest.fixture(autouse=True)
def subjects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Subject]:
    """What rules were asked about; calibrations lie in a folder of their own."""
    seen: list[Subject] = []

    def noting(subject: Subject, rules: Any) -> list[hetpart.Finding]:
        seen.append(subject)
        return check.findings(subject, rules)

    monkeypatch.setattr(whatif, "findings", noting)
    monkeypatch.setenv(calibrated.FOLDER_VARIABLE, str(tmp_path))
    return seen


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_fires_where_it_is_broken(rule: Rule, tmp_path: Path) -> None:
    model, options = EVERY[rule.name].asked_of_bad(tmp_path)
    found = fired(model, rule.name, **options)
    assert found
    assert all(finding.message and finding.hint for finding in found)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_is_silent_where_it_is_kept(rule: Rule, tmp_path: Path, subjects: list[Subject]) -> None:
    """And was asked: all that it looks at could be made."""
    model, options = EVERY[rule.name].asked_of_good(tmp_path)
    assert fired(model, rule.name, **options) == []
    assert subjects[-1].stage >= max(rule.stage, rule.tries)


def test_no_pair_is_of_a_rule_that_is_not() -> None:
    assert set(EVERY) == {rule.name for rule in RULES}
    assert not set(PAIRS) & set(PLAN_PAIRS)


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_every_rule_is_documented(rule: Any) -> None:
    assert rule.code[:3] in FAMILIES
    assert rule.summary.endswith(".")
    parts = [line for line in rule.documentation.splitlines() if line.startswith("#")]
    assert parts == ["## What it does", "## Why is this bad", "## Example", "## Use instead"]
    assert rule.hint
    assert not rule.hint.endswith(".")


def test_dead_nodes_are_counted_and_named() -> None:
    (found,) = fired(PAIRS["dead-node"].bad(Path()), "dead-node")
    assert found.op == "c"
    assert "2 nodes in all" in found.message
