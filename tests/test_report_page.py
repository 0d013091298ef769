"""``--html`` of both commands, on a model that is really placed, run and swept."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from onnx import numpy_helper, parser

from hetpart.cli import main
from hetpart.plan.io import load_plan
from hetpart.whatif.evidence import evidence_of_bundle
from tests.report.page.test_page import Reader, read

HARDWARE = "l4+generic-2core"
MODEL = """
<ir_version: 10, opset_import: ["": 20]>
small (float[64, 256] x) => (float[64, 256] y)
{
    [up] a = MatMul (x, w)
    [act] b = Relu (a)
    [down] y = MatMul (b, w)
}
"""


@dataclass(frozen=True, slots=True)
class Made:
    """What the commands wrote."""

    folder: Path

    def __getitem__(self, name: str) -> Path:
        return self.folder / name


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def done(*arguments: str | Path) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    made = Made(tmp_path_factory.mktemp("small"))
    model = parser.parse_model(MODEL)
    arrays = {"w": np.ones((256, 256), np.float32), "dead": np.ones(8, np.float32)}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    made["m.onnx"].write_bytes(model.SerializeToString())
    placed = ("--hardware", HARDWARE, "--budget", "1GB", "--placement", "random:1")
    done("partition", made["m.onnx"], *placed, "-o", made["m.hetpart"], "--html", made["placed.html"], "-q")
    done("run", made["m.hetpart"], "--random", "--emulate", "--trace", made["trace.json"])
    made["sweep.json"].write_text(
        done("sweep", made["m.onnx"], "--hardware", HARDWARE, "--points", "3", "--time-limit", "1", "--json")
    )
    return made


def page(path: Path) -> Reader:
    return read(path.read_text())


def test_partition_writes_a_page_with_what_lint_finds(made: Made) -> None:
    words = page(made["placed.html"]).words("findings")
    assert "HPG004 unused-initializer" in words
    assert "Not asked" not in words


def test_report_finds_the_model_and_shows_the_run_and_the_curve(made: Made) -> None:
    said = done(
        *("report", made["m.hetpart"], "--html", made["all.html"], "--trace", made["trace.json"]),
        *("--curve", made["sweep.json"]),
    )
    assert said.endswith(f"\nWritten to {made['all.html']}\n")
    reader = page(made["all.html"])
    assert "HPG004 unused-initializer" in reader.words("findings")
    assert "accelerators emulated on the CPU. Predicted" in reader.words("timeline")
    assert "The curve as a table" in reader.words("budget")
    assert "no roofs are drawn" not in reader.words("roofline")


def test_equal_commands_write_equal_pages(made: Made) -> None:
    for name in ("one.html", "two.html"):
        done("report", made["m.hetpart"], "--html", made[name], "--json")
    assert made["one.html"].read_bytes() == made["two.html"].read_bytes()


def test_json_stays_alone_on_standard_output(made: Made) -> None:
    printed: dict[str, Any] = json.loads(done("report", made["m.hetpart"], "--html", made["json.html"], "--json"))
    assert printed["schema"] == "hetpart.report"


def test_a_model_that_is_gone_leaves_lint_out_and_says_so(made: Made, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    moved = json.loads((made["m.hetpart"] / "plan.json").read_text())
    moved["model"] |= {"path": str(tmp_path / "gone.onnx"), "folder": ""}
    plan.write_text(json.dumps(moved))
    done("report", plan, "--html", tmp_path / "gone.html")
    assert "gone.onnx is not there" in page(tmp_path / "gone.html").words("findings")
    done("report", made["m.hetpart"], "--html", tmp_path / "unasked.html", "--no-lint")
    assert "--no-lint was given" in page(tmp_path / "unasked.html").words("findings")


def test_a_machine_whose_figures_changed_has_no_roofs(made: Made) -> None:
    plan = load_plan(made["m.hetpart"])
    changed = replace(plan, machine=replace(plan.machine, digest="0" * 64))
    assert evidence_of_bundle(made["m.hetpart"], plan, rules=None).machine is not None
    assert evidence_of_bundle(made["m.hetpart"], changed, rules=None).machine is None


def test_the_project_chooses_the_rules(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hetpart.toml").write_text('[lint]\nignore = ["HPG004"]\n')
    monkeypatch.chdir(tmp_path)
    done("report", made["m.hetpart"], "--html", tmp_path / "chosen.html")
    assert "HPG004" not in page(tmp_path / "chosen.html").words("findings")


@pytest.mark.parametrize("option", ["--trace", "--curve"])
@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b"\xff", b'{"traceEvents": [{"ph": 1}]}', b'{"traceEvents": []}', b'{"schema": "x"}']
)
def test_what_is_no_trace_or_sweep_is_refused(made: Made, tmp_path: Path, option: str, content: bytes) -> None:
    (tmp_path / "bad.json").write_bytes(content)
    result = invoke(
        "report", made["m.hetpart"], "--html", tmp_path / "r.html", option, tmp_path / "bad.json", "--no-lint"
    )
    assert result.exit_code == 2
    assert "internal error" not in result.output
    assert "hint: write one with `hetpart" in result.output
    assert not (tmp_path / "r.html").exists()


def test_a_trace_or_a_sweep_of_another_plan_is_refused(made: Made, tmp_path: Path) -> None:
    other = json.loads(made["trace.json"].read_text())
    for event in other["traceEvents"]:
        event["name"] = event["name"].replace("partition 0", "partition 9")
    (tmp_path / "trace.json").write_text(json.dumps(other))
    swept = json.loads(made["sweep.json"].read_text()) | {"ops": 99}
    (tmp_path / "sweep.json").write_text(json.dumps(swept))
    for option, file in (("--trace", "trace.json"), ("--curve", "sweep.json")):
        result = invoke(
            "report", made["m.hetpart"], "--html", tmp_path / "r.html", option, tmp_path / file, "--no-lint"
        )
        assert result.exit_code == 2
        assert "is of another" in result.output


@pytest.mark.parametrize("name", ["m.onnx", "page", "page.txt", "no/folder/page.html"])
def test_nothing_but_a_page_is_written_over(made: Made, name: str) -> None:
    before = made["m.onnx"].read_bytes()
    for command in ("report", "partition"):
        result = invoke(command, made["m.hetpart"], "--html", made[name])
        assert result.exit_code == 2
    assert made["m.onnx"].read_bytes() == before


def test_a_trace_needs_a_page_to_be_shown_on(made: Made) -> None:
    result = invoke("report", made["m.hetpart"], "--trace", made["trace.json"])
    assert result.exit_code == 2
    assert "add --html FILE" in result.output
