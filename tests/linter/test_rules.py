"""Every rule fires on the model that breaks it, and on none that does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hetpart
from hetpart.linter.rule import FAMILIES, all_rules
from tests.linter.models import PAIRS

PLANNED = {
    "cpu-island", "ping-pong-copy", "host-read-in-accelerator-region", "duplicate-initializer", "peak-from-one-value",
    "thin-headroom", "table-on-accelerator", "copy-bound-partition", "tiny-partition", "stale-plan", "profile-mismatch",
    "stale-calibration", "gap-above-limit", "plan-regressed", "baseline-better",
}  # fmt: skip
"""Rules of plans: ``test_seeded`` breaks each, ``test_lint`` and a clean zoo keep them."""


def fired(model: Any, rule: str, **options: Any) -> list[hetpart.Finding]:
    found = hetpart.lint(model, select=rule, **options)
    assert {finding.rule for finding in found} <= {rule}
    return found


@pytest.mark.parametrize("rule", PAIRS)
def test_a_rule_fires_where_it_is_broken(rule: str, tmp_path: Path) -> None:
    pair = PAIRS[rule]
    found = fired(pair.bad(tmp_path), rule, **pair.options)
    assert found
    assert all(finding.message and finding.hint for finding in found)


@pytest.mark.parametrize("rule", PAIRS)
def test_a_rule_is_silent_where_it_is_kept(rule: str, tmp_path: Path) -> None:
    pair = PAIRS[rule]
    options = pair.options if pair.good_options is None else pair.good_options
    assert fired(pair.good(tmp_path), rule, **options) == []


def test_every_rule_has_a_model_that_breaks_it_and_one_that_does_not() -> None:
    assert {rule.name for rule in all_rules()} == set(PAIRS) | PLANNED


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
