from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hetpart.plan.io import write_plan
from hetpart.plan.schema import published_schema
from tests.plans import wide_and_deep_plan

PUBLISHED = Path(__file__).parents[2] / "docs" / "plan.schema.json"
CONTENT = json.loads(write_plan(wide_and_deep_plan()))


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(PUBLISHED.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_published_schema_is_current() -> None:
    assert PUBLISHED.read_text() == published_schema(), "python -m hetpart.plan.schema > docs/plan.schema.json"


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
