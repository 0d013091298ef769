from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hetpart.plan import schema
from hetpart.plan.io import write_plan
from tests.plans import wide_and_deep_plan

DOCS = Path(__file__).parents[2] / "docs"
CONTENT = json.loads(write_plan(wide_and_deep_plan()))


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads((DOCS / "plan.schema.json").read_text()))


@pytest.mark.parametrize("file", sorted(schema.PUBLISHED))
def test_published_schemas_are_current(file: str, tmp_path: Path) -> None:
    schema.main(str(tmp_path))
    assert (DOCS / file).read_text() == (tmp_path / file).read_text(), "python -m hetpart.plan.schema docs"
    jsonschema.Draft202012Validator.check_schema(json.loads((DOCS / file).read_text()))


def test_plans_obey_the_schema(validator: jsonschema.Draft202012Validator) -> None:
    validator.validate(CONTENT)
    validator.validate(json.loads(write_plan(replace(wide_and_deep_plan(), baselines=(), notes=()))))
    validator.validate({**CONTENT, "of_a_newer_revision": 1})


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"schema": "hetpart.lint"},
        {"footprint_bytes": 1.5},
        {"partitions": [{}]},
        {"notes": "one"},
        {"devices": None},
    ],
)
def test_what_is_no_plan_does_not(validator: jsonschema.Draft202012Validator, change: dict[str, Any]) -> None:
    assert not validator.is_valid({**CONTENT, **change})


@pytest.mark.parametrize("missing", ["schema", "version", "model", "partitions", "certificate"])
def test_nothing_a_reader_needs_may_be_missing(validator: jsonschema.Draft202012Validator, missing: str) -> None:
    assert not validator.is_valid({key: value for key, value in CONTENT.items() if key != missing})
