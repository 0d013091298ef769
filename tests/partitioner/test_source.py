"""A placement may come from a rule, a mapping, a plan or a bundle; what it names must exist."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hetpart
from hetpart.errors import InvalidOptionError
from tests.runtime.models import model

CHAIN = model(
    "g (float[9] x) => (float[9] z, int64[1,N] at) { [a] a = Neg(x) [b] b = Abs(a) [c] z = Neg(b) [d] at = NonZero(b) }"
)
MIXED = {"a": "cpu", "b": "cuda:0", "c": "cpu", "d": "cuda:0"}


def devices(partitioned: hetpart.PartitionedModel) -> dict[str, str]:
    return {decision.op: decision.device for decision in partitioned.plan.decisions}


def placed_by(source: str | Path, **options: Any) -> hetpart.PartitionedModel:
    return hetpart.partition(CHAIN, placement=source, **{"hardware": "emulated"} | options)


def test_a_mapping_places_every_op(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(json.dumps(MIXED))
    for source in (tmp_path / "p.json", str(tmp_path / "p.json")):
        partitioned = placed_by(source)
        assert devices(partitioned) == MIXED
        assert partitioned.plan.options["placement"] == str(source)
        assert all("placed here by the placement file" in d.reason for d in partitioned.plan.decisions if d.op == "a")


def test_a_plan_and_a_bundle_place_as_they_were_placed(tmp_path: Path) -> None:
    for seed in range(5):
        first = placed_by(f"random:{seed}")
        bundle = first.save(tmp_path / f"{seed}.hetpart")
        assert devices(placed_by(bundle)) == devices(first)
        assert devices(placed_by(bundle / "plan.json")) == devices(first)
        assert placed_by(bundle).plan.prediction == first.plan.prediction


def test_a_file_in_the_current_folder_is_no_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("all-cpu").write_text(json.dumps(MIXED))
    assert set(devices(placed_by("all-cpu")).values()) == {"cpu"}
    assert devices(placed_by("./all-cpu")) == devices(placed_by(Path("all-cpu").absolute())) == MIXED


BAD: dict[str, tuple[str | bytes, str]] = {
    "not JSON": ("a = cpu", "is not JSON"),
    "empty": ("", "is not JSON"),
    "not text": (b"\xff\xfe\x00\x01", "is not JSON"),
    "too deep": ("[" * 100_000, "is not JSON"),
    "a list": ("[1, 2]", "holds no mapping"),
    "a number": ("1", "holds no mapping"),
    "an op left out": (json.dumps({"a": "cpu", "b": "cpu", "c": "cpu"}), "places no device for 'd'"),
    "all left out": ("{}", "places no device for 'a', 'b', 'c' and 1 more"),
    "no such device": (json.dumps(MIXED | {"a": "cuda:7"}), "'cuda:7'"),
    "no device at all": (json.dumps(MIXED | {"a": None, "b": 3, "c": ["cpu"]}), r"3, None, \['cpu'\]"),
    "a plan of nothing": (json.dumps({"decisions": [1, {"device": "cpu"}]}), "places no device for"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_file_that_is_no_placement_is_a_clear_error(tmp_path: Path, case: str) -> None:
    content, message = BAD[case]
    path = tmp_path / "p.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidOptionError, match=message) as refused:
        placed_by(path)
    assert str(path) in str(refused.value)
    assert refused.value.hint


NOTHING: dict[str, Callable[[Path], Any]] = {
    "nothing": Path.exists,
    "a folder without a plan": Path.mkdir,
    "a folder whose plan is a folder": lambda path: (path / "plan.json").mkdir(parents=True),
}


@pytest.mark.parametrize("case", NOTHING)
def test_what_is_neither_a_rule_nor_a_file_is_a_clear_error(tmp_path: Path, case: str) -> None:
    NOTHING[case](tmp_path / "best")
    with pytest.raises(InvalidOptionError, match="neither a placement rule nor a file") as refused:
        placed_by(tmp_path / "best")
    for rule in ("optimal", "random:SEED", "all-cpu", "all-accelerator", "fill-in-order"):
        assert rule in refused.value.hint


@pytest.mark.parametrize("rule", ["random:", "random:x", "random:-1", "random:1.5"])
def test_a_seed_is_a_number(rule: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"random"):
        placed_by(rule)


def test_an_op_without_a_kernel_there_is_named(tmp_path: Path) -> None:
    text = model("g (float[4] x) => (string[4] z) { [a] a = Neg(x) [text] z = Cast<to=8>(a) }")
    (tmp_path / "p.json").write_text(json.dumps({"a": "cuda:0", "text": "cuda:0"}))
    with pytest.raises(InvalidOptionError, match=r"cannot run: 'text' \(Cast\) on cuda:0"):
        hetpart.partition(text, hardware="l4", placement=tmp_path / "p.json")


def test_a_pin_that_the_file_contradicts_is_named(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(json.dumps(MIXED))
    assert devices(placed_by(tmp_path / "p.json", pin="node:b=cuda")) == MIXED
    with pytest.raises(InvalidOptionError, match=r"'b' \(Abs\) on cuda:0") as refused:
        placed_by(tmp_path / "p.json", pin="node:b=cpu")
    assert "a pin" in refused.value.hint
