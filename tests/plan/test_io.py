from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetpart.errors import InvalidBundleError
from hetpart.plan.figures import Prediction
from hetpart.plan.io import load_plan, read_plan, write_plan
from hetpart.plan.model import Plan
from tests.plans import wide_and_deep_plan

PLAN = wide_and_deep_plan()
DATA = write_plan(PLAN)


def changed(**content: Any) -> bytes:
    return json.dumps({**json.loads(DATA), **content}).encode()


def test_a_plan_reads_back_as_written() -> None:
    assert read_plan(DATA, "plan.json") == PLAN
    assert write_plan(read_plan(DATA, "plan.json")) == DATA


def test_the_file_is_laid_out_as_the_stdlib_does_with_sorted_keys() -> None:
    stdlib = json.dumps(json.loads(DATA, parse_float=lambda _: 0), indent=2, sort_keys=True, ensure_ascii=False)
    assert re.sub(r": -?[0-9.]+e?-?[0-9]*(?=,?$)", ": 0", DATA.decode(), flags=re.MULTILINE) == re.sub(
        r": [0-9]+(?=,?$)", ": 0", stdlib + "\n", flags=re.MULTILINE
    )
    assert set(json.loads(DATA)) == {field.name for field in fields(Plan)}


def test_bytes_are_integers_and_seconds_are_floats() -> None:
    content = json.loads(DATA)
    assert [type(row["nbytes"]) for row in content["transfers"]] == [int] * 3
    assert [type(row["seconds"]) for row in content["transfers"]] == [float] * 3


@given(name=st.text(), seconds=st.floats(allow_nan=False, allow_infinity=False), nbytes=st.integers(0, 2**63 - 1))
@settings(deadline=None)
def test_names_and_numbers_survive(name: str, seconds: float, nbytes: int) -> None:
    prediction = Prediction(seconds, seconds, -0.0, 1e-300)
    model = replace(PLAN.model, dimensions={name: nbytes})
    plan = replace(PLAN, notes=(name,), model=model, prediction=prediction, footprint_bytes=nbytes)
    assert read_plan(write_plan(plan), "plan.json") == plan


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_a_number_that_json_lacks_is_never_written(number: float) -> None:
    with pytest.raises((AssertionError, ValueError)):
        write_plan(replace(PLAN, prediction=Prediction(number, 0.0, 0.0, 0.0)))
    with pytest.raises(AssertionError):
        write_plan(replace(PLAN, baselines=(replace(PLAN.baselines[0], seconds=number),)))


def test_fields_of_a_newer_revision_are_passed_over() -> None:
    content = json.loads(DATA)
    content["partitions"][0]["colour"] = "blue"
    plan = read_plan(json.dumps({**content, "revision": 99, "colours": [1, 2]}).encode(), "plan.json")
    assert plan == replace(PLAN, revision=99)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "damaged"),
        (DATA[: len(DATA) // 2], "damaged"),
        (b"\xff\xfe\x00", "damaged"),
        (b'{"schema": "\xff"}', "damaged"),
        (b'{"a":' * 100_000, "damaged"),
        (b"[]", "not a plan"),
        (b"null", "not a plan"),
        (b"{}", "not a plan: its schema is ''"),
        (changed(schema="hetpart.lint"), "its schema is 'hetpart.lint'"),
        (changed(schema=7), "not a plan"),
        (changed(version=2), "version 2; this hetpart reads version 1"),
        (changed(version=0), "version 0"),
        (changed(partitions=None), r"partitions"),
        (changed(devices=[{}]), r"\$\.devices\[0\]"),
    ],
)
def test_what_is_no_plan_is_a_clear_error(data: bytes, said: str) -> None:
    with pytest.raises(InvalidBundleError, match=said) as caught:
        read_plan(data, "x/plan.json")
    assert "x/plan.json" in caught.value.message
    assert caught.value.hint


def test_a_newer_version_asks_for_a_newer_hetpart() -> None:
    with pytest.raises(InvalidBundleError) as caught:
        read_plan(changed(version=2), "plan.json")
    assert caught.value.hint == "upgrade hetpart"


@given(position=st.integers(0, len(DATA) - 1), byte=st.integers(0, 255))
@settings(deadline=None)
def test_a_changed_byte_never_ends_in_another_error(position: int, byte: int) -> None:
    data = bytearray(DATA)
    data[position] = byte
    with suppress(InvalidBundleError):
        assert isinstance(read_plan(bytes(data), "plan.json"), Plan)


def test_a_plan_is_loaded_from_a_bundle_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes(DATA)
    assert load_plan(tmp_path) == load_plan(tmp_path / "plan.json") == PLAN


def test_a_folder_without_a_plan_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(InvalidBundleError, match=r"not a bundle: it has no plan\.json"):
        load_plan(tmp_path)
    with pytest.raises(InvalidBundleError, match="does not exist"):
        load_plan(tmp_path / "none.hetpart")
