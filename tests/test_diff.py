"""``hetpart diff`` as people ask for it: plans, models, formats and exit codes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import onnx
import pytest
from click.testing import CliRunner, Result
from markdown_it import MarkdownIt

import hetpart
from hetpart.cli import main
from hetpart.errors import InvalidOptionError
from hetpart.plan.io import write_plan
from hetpart.plan.model import Plan, Residency, ResidencyState
from hetpart.report.difference.formats import FORMATS
from tests.plans import wide_and_deep_plan
from tests.runtime.models import model

ROOT = Path(__file__).parent.parent
PLAN = wide_and_deep_plan()
HOSTILE = "</td><script>|`@team` [x](http://x) ![i](http://i) \x1b[2J *b* 日本"
SMALL = model("""small (float[64,64] x, float[64,64] w) => (float[64,64] z) {
    [first] a = MatMul (x, w) [relu] b = Relu (a) [second] z = MatMul (b, w)
}""")
LARGE = model("""small (float[64,64] x, float[64,64] w) => (float[64,64] z) {
    [first] a = MatMul (x, w) [relu] b = Relu (a) [third] c = MatMul (b, b) [fourth] d = MatMul (c, c)
    [second] z = MatMul (d, w)
}""")


def moved(plan: Plan, name: str = "gather") -> Plan:
    """``plan`` with its first op elsewhere and under another name, and a weight more."""
    first, *rest = plan.decisions
    weight = Residency(name, "cuda:0", ResidencyState.RESIDENT, 4_000)
    there = next(partition for partition in plan.partitions if partition.device == "cuda:0")
    decisions = (replace(first, op=name, device="cuda:0", partition=there.id, reason=name), *rest)
    partitions = tuple(
        replace(one, ops=(*(op for op in one.ops if op != first.op), *([name] if one is there else [])))
        for one in plan.partitions
    )
    return replace(plan, decisions=decisions, partitions=partitions, residencies=(*plan.residencies, weight))


def renamed(plan: Plan, name: str) -> Plan:
    """``plan`` with its first op under another name."""
    first, *rest = plan.decisions
    partitions = tuple(
        replace(one, ops=tuple(name if op == first.op else op for op in one.ops)) for one in plan.partitions
    )
    return replace(plan, decisions=(replace(first, op=name), *rest), partitions=partitions)


def doubled(plan: Plan) -> Plan:
    host, accelerator = plan.devices
    peak = accelerator.peak_bytes
    more = replace(accelerator, peak_bytes=2 * peak, activation_bytes=accelerator.activation_bytes + peak)
    return replace(plan, devices=(host, more))


def written(folder: Path, name: str, plan: Plan) -> Path:
    path = folder / name
    path.write_bytes(write_plan(plan))
    return path


def invoke(*args: str | Path) -> Result:
    return CliRunner(env={"COLUMNS": "120"}).invoke(main, ["diff", *(str(arg) for arg in args)])


@pytest.fixture
def plans(tmp_path: Path) -> tuple[Path, Path]:
    return written(tmp_path, "a.json", PLAN), written(tmp_path, "b.json", moved(doubled(PLAN)))


def test_the_text_says_what_changed(plans: tuple[Path, Path]) -> None:
    result = invoke(*plans)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "As fast as before: 602 µs → 602 µs" in lines
    assert "peak of cuda:0 83.6 MB 167 MB +100 %" in lines
    assert "1 op moved predicted where each is" in lines
    assert any(line.startswith("280 µs 11.0 µs cpu → cuda:0 Gather gather") for line in lines)
    assert "+ 4.00 kB cuda:0 resident gather" in lines


def test_the_gate_closes_above_the_limit_and_not_below(plans: tuple[Path, Path]) -> None:
    assert invoke(*plans, "--max-regression", "100%").exit_code == 0
    result = invoke(*plans, "--max-regression", "5%")
    assert result.exit_code == 1
    assert "More than 5.0 % worse: peak of cuda:0 (+100 %)" in result.stdout
    assert invoke(*reversed(plans), "--max-regression", "0%").exit_code == 0


@pytest.mark.parametrize("limit", ["5", "many", "-5%", "5%%"])
def test_what_is_no_share_is_bad_input(plans: tuple[Path, Path], limit: str) -> None:
    result = invoke(*plans, "--max-regression", limit)
    assert result.exit_code == 2
    assert "is not a share" in result.stderr


def test_json_obeys_its_published_schema(plans: tuple[Path, Path]) -> None:
    schema = json.loads((ROOT / "docs" / "diff.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    for args in ((), ("--max-regression", "5%")):
        result = invoke(*plans, "--format", "json", *args)
        assert result.stdout == invoke(*plans, "--json", *args).stdout
        content = json.loads(result.stdout)
        validator.validate(content)
        assert (content["schema"], content["version"]) == ("hetpart.diff", 1)
    assert content["regressions"][0]["what"] == "peak of cuda:0"
    assert not validator.is_valid({**content, "seconds": None})
    assert not validator.is_valid({key: value for key, value in content.items() if key != "version"})


def html(markdown: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)


def test_markdown_is_tables_and_names_are_no_markup(tmp_path: Path) -> None:
    hostile = renamed(PLAN, HOSTILE)
    paths = written(tmp_path, "a.json", hostile), written(tmp_path, "b.json", moved(doubled(PLAN), HOSTILE))
    result = invoke(*paths, "--format", "markdown", "--max-regression", "5%")
    shown = html(result.stdout)
    assert shown.count("<table>") == 3
    assert "<td>+100 % ❌</td>" in shown
    assert "&lt;/td&gt;&lt;script&gt;|`@<!-- -->team` [x](http" in shown
    assert not [mark for mark in ("<script", "<a ", "<img", "<em>", "\x1b") if mark in shown]


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_hostile_names_reach_no_terminal(tmp_path: Path, form: str) -> None:
    paths = written(tmp_path, "a.json", PLAN), written(tmp_path, "b.json", moved(PLAN, HOSTILE))
    assert "\x1b" not in invoke(*paths, "--format", form).stdout


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_it_can_be_written_to_a_file(plans: tuple[Path, Path], tmp_path: Path, form: str) -> None:
    file = tmp_path / "diff"
    result = invoke(*plans, "--format", form, "--output", file)
    assert result.stdout == f"As fast as before: 602 µs → 602 µs. Written to {file}\n"
    assert "cuda" in file.read_text()


def test_many_moved_ops_share_rows_and_json_holds_all() -> None:
    decisions = tuple(
        replace(PLAN.decisions[0], op=f"op{number}", op_type=f"Type{number % 30}") for number in range(600)
    )
    there = tuple(replace(decision, device="cuda:0") for decision in decisions)
    diff = hetpart.diff(replace(PLAN, decisions=decisions), replace(PLAN, decisions=there))
    text = FORMATS["text"](diff)
    assert "600 ops moved" in text
    assert text.count("and 19 alike") == 20
    assert "… and 10 more kinds of moved ops" in text
    assert len(json.loads(FORMATS["json"](diff))["moved"]) == 600


def test_two_models_are_partitioned_with_the_same_options(tmp_path: Path) -> None:
    paths = tmp_path / "small.onnx", tmp_path / "large.onnx"
    for proto, path in zip((SMALL, LARGE), paths, strict=True):
        onnx.save(proto, path)
    result = invoke(*paths, "--hardware", "emulated", "--budget", "10MB", "--max-regression", "5%", "--json")
    content: dict[str, Any] = json.loads(result.stdout)
    assert result.exit_code == 1
    assert [op["op"] for op in content["ops_appeared"]] == ["third", "fourth"]
    assert content["before"]["budgets"] == content["after"]["budgets"] == {"cuda:0": 10_000_000}
    expected = [hetpart.partition(path, hardware="emulated", budget="10MB").plan.prediction.seconds for path in paths]
    assert [content["serial_seconds"]["before"], content["serial_seconds"]["after"]] == expected


def test_a_re_export_that_renumbers_everything_changes_nothing() -> None:
    def exported(first: int) -> onnx.ModelProto:
        """As PyTorch exports: nodes numbered, the module in the metadata."""
        proto = onnx.ModelProto()
        proto.CopyFrom(LARGE)
        for number, node in enumerate(proto.graph.node, first):
            node.name = f"node_{node.op_type}_{number}"
            module = f"block.{(number - first) // 2}"
            node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=f"['', '{module}', 'op_{number}']")
        return proto

    diff = hetpart.diff(exported(0), exported(7), hardware="emulated", max_regression=0.0)
    assert (diff.moved, diff.ops_appeared, diff.ops_vanished, diff.regressions) == ((), (), (), ())
    before, after = (hetpart.partition(exported(first), hardware="emulated", placement=rule)
                     for first, rule in ((0, "all-cpu"), (7, "all-accelerator")))  # fmt: skip
    found = hetpart.diff(before, after).moved
    assert len(found) == 5
    assert {(op.op_before, op.op) for op in found} >= {("node_Relu_1", "node_Relu_8")}


def test_a_bundle_beside_a_model_of_the_same_options(tmp_path: Path) -> None:
    onnx.save(SMALL, tmp_path / "m.onnx")
    hetpart.partition(tmp_path / "m.onnx", hardware="emulated").save(tmp_path / "m.hetpart")
    args = (tmp_path / "m.hetpart", tmp_path / "m.onnx", "--hardware", "emulated", "--max-regression", "0%")
    assert invoke(*args).exit_code == 0


def test_options_beside_two_plans_are_refused(plans: tuple[Path, Path]) -> None:
    result = invoke(*plans, "--budget", "1GB", "--min-gain", "5%")
    assert result.exit_code == 2
    assert "both are plans already: budget, min-gain would change nothing" in result.stderr
    with pytest.raises(InvalidOptionError, match="both are plans already"):
        hetpart.diff(PLAN, PLAN, hardware="l4")


def test_settings_of_a_project_hold_for_models_and_not_for_plans(
    plans: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hetpart.toml").write_text('hardware = "emulated"\nbudget = "5MB"\n')
    monkeypatch.chdir(tmp_path)
    assert invoke(*plans).exit_code == 0
    assert invoke(*plans, "--budget", "1GB").exit_code == 2
    onnx.save(SMALL, tmp_path / "m.onnx")
    result = invoke("m.onnx", "m.onnx", "--json")
    assert json.loads(result.stdout)["after"]["budgets"] == {"cuda:0": 5_000_000}


@pytest.mark.parametrize("name", ["missing.json", "missing.onnx", "missing"])
def test_what_is_not_there_is_bad_input(plans: tuple[Path, Path], tmp_path: Path, name: str) -> None:
    result = invoke(plans[0], tmp_path / name, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["exit_code"] == 2


def test_what_does_not_fit_is_an_error_with_exit_code_1(tmp_path: Path) -> None:
    onnx.save(SMALL, tmp_path / "m.onnx")
    args = ("--hardware", "emulated", "--host-budget", "1kB", "--budget", "1kB")
    assert invoke(tmp_path / "m.onnx", tmp_path / "m.onnx", *args).exit_code == 1
