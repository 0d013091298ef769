"""Findings as people and CI systems read them, hostile names included."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hetpart.plan.findings import Finding, Severity, SourceLine
from hetpart.report.findings import FORMATS

HOSTILE = "a\n::error::owned\r\x1b[31m%0A|<script>`x`,b:c##[error]@you www.x.y"
FOUND = (
    Finding("HPM002", "value-larger-than-budget", Severity.ERROR, "m.onnx", f"{HOSTILE} is large", "split it", "scope"),
    Finding(
        "HPG003", "dead-node", Severity.WARNING, HOSTILE, "a node", "remove it", HOSTILE, op=HOSTILE,
        source=SourceLine("model.py", 7),
    ),
    Finding("HPS005", "dynamic-shape-blocks-plan", Severity.NOTE, "m.onnx", "a size", "bound it", ""),
)  # fmt: skip
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


@pytest.mark.parametrize("form", FORMATS)
def test_no_control_character_of_a_name_reaches_a_terminal(form: str) -> None:
    text = FORMATS[form](FOUND)
    assert text.endswith("\n")
    assert not CONTROL.search(text)


@pytest.mark.parametrize("form", FORMATS)
def test_no_findings_are_a_text_too(form: str) -> None:
    text = FORMATS[form](())
    assert form == "github" or text.endswith("\n")


def test_a_name_begins_no_workflow_command() -> None:
    lines = FORMATS["github"](FOUND).splitlines()
    assert len(lines) == len(FOUND)
    assert [line.split(" ")[0] for line in lines] == ["::error", "::warning", "::notice"]
    properties = lines[1].split(" ", 1)[1].split("::")[0]
    assert properties == "title=hetpart HPG003 dead-node,file=model.py,line=7"
    assert "file=m.onnx::" in lines[0]


def test_json_reads_back() -> None:
    tree = json.loads(FORMATS["json"](FOUND))
    assert tree["schema"] == "hetpart.lint"
    assert [row["code"] for row in tree["findings"]] == [found.code for found in FOUND]
    assert tree["findings"][1]["source"] == {"file": "model.py", "line": 7}
    assert tree["findings"][1]["op"] == HOSTILE


def test_sarif_has_what_code_scanning_requires() -> None:
    tree = json.loads(FORMATS["sarif"](FOUND))
    assert tree["version"] == "2.1.0"
    (run,) = tree["runs"]
    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    for rule in rules.values():
        assert {"shortDescription", "fullDescription", "help"} <= set(rule)
        assert all(len(rule[part]["text"]) <= 1024 for part in ("shortDescription", "fullDescription"))
    for result in run["results"]:
        assert result["ruleId"] in rules
        assert result["level"] in ("error", "warning", "note")
        physical = result["locations"][0]["physicalLocation"]
        assert set(physical["region"]) == {"startLine", "startColumn", "endLine", "endColumn"}
        assert re.fullmatch(r"[A-Za-z0-9._~/%-]+", physical["artifactLocation"]["uri"])
        assert re.fullmatch(r"[0-9a-f]{64}:1", result["partialFingerprints"]["primaryLocationLineHash"])
    assert run["results"][1]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "model.py"


def test_a_fingerprint_is_of_the_anchor_and_not_of_numbers() -> None:
    def fingerprint(found: Finding) -> str:
        result = json.loads(FORMATS["sarif"]((found,)))["runs"][0]["results"][0]
        return result["partialFingerprints"]["primaryLocationLineHash"]

    first, _, _ = FOUND
    later = Finding(
        *(getattr(first, name) for name in ("code", "rule", "severity", "path")), "4 GB", "", "scope", "op_2"
    )
    other = Finding(*(getattr(first, name) for name in ("code", "rule", "severity", "path")), "4 GB", "", "elsewhere")
    assert fingerprint(first) == fingerprint(later) != fingerprint(other)


def test_findings_of_one_anchor_are_told_apart() -> None:
    (run,) = json.loads(FORMATS["sarif"]((FOUND[0], FOUND[0])))["runs"]
    first, second = (result["partialFingerprints"]["primaryLocationLineHash"] for result in run["results"])
    assert first.removesuffix(":1") == second.removesuffix(":2")


def test_a_model_below_this_folder_is_named_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def of(path: str) -> list[str]:
        found = Finding("HPG003", "dead-node", Severity.WARNING, path, "a node", "remove it", "scope")
        (result,) = json.loads(FORMATS["sarif"]((found,)))["runs"][0]["results"]
        place = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        return [place, *result["partialFingerprints"].values(), FORMATS["github"]((found,)).split("::")[1]]

    assert of("models/m.onnx") == of(str(tmp_path / "models" / "m.onnx")) == of("./models/../models/m.onnx")
    assert of("models/m.onnx")[0] == "models/m.onnx"
    assert of("/elsewhere/m.onnx")[0] == "/elsewhere/m.onnx"


@pytest.mark.parametrize("form", FORMATS)
def test_a_runner_finds_no_command_of_a_name(form: str) -> None:
    """As GitHub's runner reads a log: ``::name::`` at the start of a line, ``##[name]`` anywhere in one."""
    paths = ("::error::owned.onnx", "  ::set-output name=a::b", "##[add-mask]a", "m.onnx")
    found = [
        Finding("HPG003", "dead-node", Severity.WARNING, path, f"{HOSTILE} {path}", HOSTILE, path, op=path)
        for path in paths
    ]
    for line in FORMATS[form](found).splitlines():
        is_new, is_old = line.lstrip().startswith("::"), "##[" in line
        assert not is_old or form == "github"
        assert not is_new or (form == "github" and line.startswith("::warning title=hetpart HPG003 dead-node,file="))


def test_json_keeps_the_name_of_an_old_command() -> None:
    tree = json.loads(FORMATS["json"](FOUND))
    assert tree["findings"][1]["path"] == HOSTILE


def test_a_summary_is_of_a_size_that_github_shows() -> None:
    many = [Finding("HPG003", "dead-node", Severity.WARNING, "m.onnx", "x" * 9000, "y" * 900, "")] * 2000
    text = FORMATS["markdown"](many)
    assert len(text.encode()) < 2**20
    rows = text.count("| warning |")
    assert 100 < rows < 2000
    assert f"{2000 - rows:,} findings more." in text


def test_a_name_in_markdown_calls_nobody_and_links_nowhere() -> None:
    text = FORMATS["markdown"](FOUND)
    assert "@you" not in text
    assert "www." not in text


def test_junit_counts_what_fails() -> None:
    root = ElementTree.fromstring(FORMATS["junit"](FOUND))
    suites = {suite.get("name"): suite for suite in root}
    assert suites["m.onnx"].get("tests") == "2"
    assert suites["m.onnx"].get("failures") == "1"
    assert len(root.findall(".//failure")) == 2


def test_junit_has_a_test_that_passes_where_nothing_is_found() -> None:
    (suite,) = ElementTree.fromstring(FORMATS["junit"](()))
    assert (suite.get("tests"), suite.get("failures"), len(suite.findall("testcase"))) == ("1", "0", 1)
    assert not list(suite.iter("failure"))


def test_markdown_has_a_row_for_each_and_no_markup_of_names() -> None:
    lines = FORMATS["markdown"](FOUND).splitlines()
    rows = [line for line in lines if line.startswith("| ") and "severity" not in line]
    assert len(rows) == len(FOUND)
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 6 for row in rows)
    assert "<script>" not in "".join(rows)


def test_the_text_ends_with_how_many_there_are() -> None:
    text = FORMATS["text"](FOUND)
    assert text.splitlines()[-1] == "1 error, 1 warning, 1 note."
    assert "    at: model.py:7\n" in text
    assert "    hint: split it\n" in text
