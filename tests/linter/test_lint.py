"""``hetpart lint`` and ``hetpart rule`` as a user calls them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner, Result

import hetpart
from hetpart.cli import main
from hetpart.errors import InvalidOptionError
from hetpart.linter.rule import all_rules
from hetpart.linter.select import Selection
from hetpart.report.findings import FORMATS
from tests.linter.models import NOISE, OTHER, PAIRS, TWICE, weighted
from tests.runtime.models import model

DEAD = "g (float[2] x) => (float[2] y) { [a] y = Neg (x) [b] h = Abs (x) [c] k = Exp (x) }"
BUDGET = ("--hardware", "l4+epyc", "--budget", "1GB")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(model(DEAD), "m.onnx")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["lint", *arguments])


def test_findings_exit_with_one_and_none_with_zero() -> None:
    found = run("m.onnx")
    assert found.exit_code == 1
    assert found.stdout.count("HPG003 dead-node") == 2
    assert run("m.onnx", "--ignore", "dead-node").exit_code == 0
    assert run("m.onnx", "--exit-zero").exit_code == 0
    assert run("m.onnx", "--fail-on", "error").exit_code == 0


def test_what_cannot_be_read_exits_with_two_and_one_message() -> None:
    Path("broken.onnx").write_bytes(b"{}")
    for arguments in (("nowhere.onnx",), ("broken.onnx",), ("m.onnx", "--select", "HPX"), ("m.onnx", "--plan", "none")):
        answer = run(*arguments)
        assert answer.exit_code == 2
        assert answer.stderr.startswith("error: ")
        assert "hint: " in answer.stderr
        assert "Traceback" not in answer.output


UNREADABLE = {
    "lfs.onnx": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "HPG007"),
    "empty.onnx": (b"", "HPG010"),
    "cut.onnx": (b"\x08\x0a\x3a\xff\x01", "HPG010"),
}
"""Files that are no models, and the rule that each breaks."""


@pytest.mark.parametrize("form", FORMATS)
def test_a_model_that_cannot_be_read_is_a_finding_beside_those_of_others(form: str) -> None:
    for name, (content, _) in UNREADABLE.items():
        Path(name).write_bytes(content)
    answer = run("lfs.onnx", "m.onnx", "empty.onnx", "cut.onnx", "none.onnx", "--select=HPG003", f"--format={form}")
    assert answer.exit_code == 2
    assert "3 more models cannot be read" in answer.stderr
    codes = re.findall(r"HPG\d{3}", answer.stdout)
    wanted = Counter({"HPG003": 2, "HPG007": 1, "HPG010": 3})
    assert set(codes) == set(wanted)
    assert form == "sarif" or Counter(codes) == wanted
    assert all(name in answer.stdout for name in (*UNREADABLE, "none.onnx", "m.onnx"))


def test_a_model_that_cannot_be_read_is_never_accepted() -> None:
    Path("empty.onnx").touch()
    both = ("m.onnx", "empty.onnx", "--baseline", "lint.json")
    assert run(*both, "--write-baseline").exit_code == 2
    answer = run(*both, "--output", "found.txt")
    assert answer.exit_code == 2
    assert Path("found.txt").read_text().count(" error HPG010 ") == 1
    assert "HPG003" not in Path("found.txt").read_text()


def test_a_dimension_is_refused_only_where_no_model_has_it() -> None:
    onnx.save(model("g (float[n] x) => (float[n] y) { [a] y = Neg (x) }"), "n.onnx")
    onnx.save(model("g (float[m] x) => (float[m] y) { [a] y = Neg (x) }"), "w.onnx")
    asked = ("--select", "unbound-dimension")
    assert run("n.onnx", "w.onnx", *asked, "--shape", "n=2,m=?").exit_code == 0
    partly = run("n.onnx", "w.onnx", *asked, "--shape", "n=2")
    assert partly.exit_code == 1
    assert partly.stdout.count("HPS002") == 1
    refused = run("n.onnx", "w.onnx", *asked, "--shape", "n=2,m=2,k=2")
    assert refused.exit_code == 2
    assert "no model given has a dimension 'k'" in refused.stderr
    Path("hetpart.toml").write_text("shape = {n = 2, k = 2}\n")
    assert run("n.onnx", *asked).exit_code == 0


def test_a_hint_can_be_pasted_into_a_shell() -> None:
    onnx.save(model("g (float[n] x) => (float[n] y) { [a] y = Neg (x) }"), "n.onnx")
    assert "--shape n=1\n" in run("n.onnx").stdout
    proto = onnx.load("n.onnx")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch<i>"
    onnx.save(proto, "n.onnx")
    assert "--shape 'batch<i>=1'\n" in run("n.onnx").stdout


def test_sarif_explains_its_rules() -> None:
    (told,) = json.loads(run("m.onnx", "--format", "sarif").stdout)["runs"][0]["tool"]["driver"]["rules"]
    (known,) = (rule for rule in all_rules() if rule.code == "HPG003")
    assert told["help"]["markdown"] == known.documentation
    assert told["fullDescription"]["text"].startswith(known.summary)
    assert "Use instead" not in run("m.onnx", "--format", "json").stdout


def test_an_unknown_rule_names_the_nearest() -> None:
    assert "did you mean dead-node" in run("m.onnx", "--select", "dead-nodes").stderr


def test_a_baseline_accepts_what_is_there_and_nothing_new() -> None:
    assert run("m.onnx", "--baseline", "lint.json", "--write-baseline").exit_code == 0
    assert run("m.onnx", "--baseline", "lint.json").exit_code == 0
    onnx.save(model(DEAD.replace("}", "[d] l = Cos (x) }")), "m.onnx")
    found = run("m.onnx", "--baseline", "lint.json")
    assert found.exit_code == 1
    assert found.stdout.count("dead-node") == 1
    assert "'d'" in found.stdout
    Path("lint.json").write_text('{"accepted": 1}')
    assert run("m.onnx", "--baseline", "lint.json").exit_code == 2
    assert run("m.onnx", "--write-baseline").exit_code == 2


def test_a_baseline_holds_wherever_lint_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("m.onnx", "--baseline", "lint.json", "--write-baseline").exit_code == 0
    assert '"path": "m.onnx"' in Path("lint.json").read_text()
    assert run(str(folder / "m.onnx"), "--baseline", str(folder / "lint.json")).exit_code == 0
    (folder / "inner").mkdir()
    monkeypatch.chdir(folder / "inner")
    assert run("../m.onnx", "--baseline", "../lint.json").exit_code == 0
    assert run("../m.onnx").exit_code == 1


def test_a_baseline_survives_other_node_names() -> None:
    def exported(node: str) -> None:
        proto = model(DEAD)
        proto.graph.node[1].name = node
        proto.graph.node[1].metadata_props.add(
            key="pkg.torch.onnx.name_scopes", value=f"['', 'encoder', 'encoder.act', '{node}']"
        )
        onnx.save(proto, "m.onnx")

    exported("node_Abs_17")
    assert run("m.onnx", "--baseline", "lint.json", "--write-baseline").exit_code == 0
    exported("node_Abs_23")
    assert run("m.onnx", "--baseline", "lint.json").exit_code == 0


def test_a_number_of_the_exporter_is_no_part_of_what_is_accepted() -> None:
    def exported(*names: str) -> None:
        proto = model(DEAD)
        proto.graph.node[1].name, proto.graph.node[2].name = names
        onnx.save(proto, "m.onnx")

    exported("node_Abs_0", "node_Abs_1")
    assert run("m.onnx", "--baseline", "lint.json", "--write-baseline").exit_code == 0
    assert '"anchor": "node_Abs",' in Path("lint.json").read_text()
    exported("node_Abs_7", "node_Abs_9")
    assert run("m.onnx", "--baseline", "lint.json").exit_code == 0
    Path("lint.json").write_text(Path("lint.json").read_text().replace("node_Abs", "node_Abs_3"))
    assert run("m.onnx", "--baseline", "lint.json").exit_code == 0
    exported("node_Abs_0", "node_Exp_1")
    assert run("m.onnx", "--baseline", "lint.json").exit_code == 1


def test_a_step_of_github_gets_a_summary(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = folder / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    assert run("m.onnx").exit_code == 1
    assert not page.exists()
    for form in ("github", "sarif"):
        assert run("m.onnx", "--format", form).exit_code == 1
    assert page.read_text().count("| warning | HPG003 dead-node |") == 4


def test_a_name_as_long_as_a_file_is_shortened() -> None:
    proto = model(DEAD)
    proto.graph.node[1].name = "b" * 100_000
    found = hetpart.lint(proto, select="dead-node")[0]
    assert len(found.message) < 6000
    assert len(found.op) < 2000


def test_findings_are_written_to_a_file() -> None:
    answer = run("m.onnx", "--format", "json", "--output", "found.json")
    assert answer.exit_code == 1
    assert len(json.loads(Path("found.json").read_text())["findings"]) == 2
    assert run("m.onnx", "--output", "-").stdout == run("m.onnx").stdout
    assert not Path("-").exists()


def test_rules_are_counted_as_text_or_json() -> None:
    assert run("m.onnx", "--statistics").stdout.split() == ["2", "HPG003", "dead-node"]
    counted = json.loads(run("m.onnx", "--statistics", "--format", "json").stdout)
    assert counted["rules"] == [{"code": "HPG003", "rule": "dead-node", "findings": 2}]
    refused = run("m.onnx", "--statistics", "--format", "sarif")
    assert refused.exit_code == 2
    assert "not as sarif" in refused.stderr


def test_the_line_of_python_is_that_of_the_exporter(folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "net.py").touch()
    proto = model(DEAD)
    stack = f'File "{folder}/src/net.py", line 12, in forward\n  File "/elsewhere/torch.py", line 3, in __call__'
    proto.graph.node[1].metadata_props.add(key="pkg.torch.onnx.stack_trace", value=stack)
    first, second = hetpart.lint(proto, select="dead-node")
    assert first.source is not None
    assert (first.source.file, first.source.line) == ("src/net.py", 12)
    assert second.source is None


def test_an_anchor_is_the_module_where_it_is_known() -> None:
    proto = model(DEAD)
    proto.graph.node[1].metadata_props.add(
        key="pkg.torch.onnx.name_scopes", value="['', 'encoder', 'encoder.act', 'b']"
    )
    assert [found.anchor for found in hetpart.lint(proto, select="dead-node")] == ["encoder.act", "c"]


@pytest.mark.parametrize(
    ("selection", "taken"),
    [
        (Selection(), {rule.name for rule in all_rules() if rule.default}),
        (Selection(select=("ALL",)), {rule.name for rule in all_rules()}),
        (Selection(select=("HPG003",)), {"dead-node"}),
        (Selection(select=("HPN",)), {"constant-near-exporter-epsilon", "half-precision-overflow-constant"}),
        (Selection(select=("HPN",), ignore=("HPN001",)), {"half-precision-overflow-constant"}),
        (Selection(select=("HPN001",), ignore=("HPN",)), {"constant-near-exporter-epsilon"}),
        (Selection(select=("dead-node",), extend=("unnamed-node",)), {"dead-node", "unnamed-node"}),
        (Selection(select=("ALL",), ignore=("ALL",)), set()),
    ],
)
def test_of_two_selections_the_closer_one_wins(selection: Selection, taken: set[str]) -> None:
    assert {rule.name for rule in selection.of(all_rules())} == taken


def test_an_empty_selection_is_refused() -> None:
    with pytest.raises(InvalidOptionError):
        Selection(select=("nothing",)).of(all_rules())


def test_every_rule_is_explained() -> None:
    for rule in all_rules():
        told = CliRunner().invoke(main, ["rule", rule.code]).stdout
        assert told.startswith(f"# {rule.name} ({rule.code})")
        assert "## Use instead" in told
    listed = CliRunner().invoke(main, ["rule"]).stdout
    assert all(rule.code in listed and rule.summary in listed for rule in all_rules())


def test_a_plan_that_was_kept_is_held_against_its_model() -> None:
    onnx.save(weighted(TWICE, v=NOISE, w=OTHER)(Path()), "m.onnx")
    hetpart.partition("m.onnx", hardware="l4+epyc", budget="1GB").save("kept.hetpart")

    def rules(*arguments: str) -> set[str]:
        found = run("m.onnx", *arguments, "--plan", "kept.hetpart", "--select", "HPP", "--format", "json")
        return {row["rule"] for row in json.loads(found.stdout)["findings"]}

    assert rules(*BUDGET) == set()
    assert rules("--hardware", "t4+epyc", "--budget", "1GB") >= {"profile-mismatch"}
    onnx.save(weighted(TWICE, v=NOISE, w=NOISE)(Path()), "m.onnx")
    assert "stale-plan" in rules(*BUDGET)


def test_a_slower_model_fails_against_the_plan_that_was_kept() -> None:
    onnx.save(weighted(TWICE, v=NOISE, w=OTHER)(Path()), "m.onnx")
    hetpart.partition("m.onnx", hardware="l4+epyc", budget="1GB").save("kept.hetpart")
    longer = TWICE.replace("[b] y = MatMul (h, w)", "[b] i = MatMul (h, w) [c] j = MatMul (i, w) [d] y = MatMul (j, w)")
    onnx.save(weighted(longer, v=NOISE, w=OTHER)(Path()), "m.onnx")
    found = run("m.onnx", *BUDGET, "--plan", "kept.hetpart", "--select", "plan-regressed")
    assert found.exit_code == 1
    assert "more than" in found.stdout


@pytest.mark.parametrize(
    ("placement", "rule"),
    [("random:3", "baseline-better"), ("random:3", "ping-pong-copy"), ("random:3", "copy-bound-partition")],
)
def test_a_bad_plan_is_found_bad(placement: str, rule: str, zoo_model: Callable[[str], Path]) -> None:
    planned = hetpart.partition(
        zoo_model("bert-tiny"), hardware="l4+epyc", budget="1GB", placement=placement, shape={"batch": 1, "seq": 16}
    )
    found = hetpart.lint(
        zoo_model("bert-tiny"), plan=planned.plan, hardware="l4+epyc", shape="batch=1,seq=16", select=rule
    )
    assert {finding.rule for finding in found} == {rule}


@pytest.mark.parametrize(("price", "gap", "found"), [(0.0, 0.0, 0), (0.0, 0.5, 1), (1e-9, 0.0, 1)])
def test_copies_that_pay_are_none_that_go_back_and_forth(
    price: float, gap: float, found: int, zoo_model: Callable[[str], Path]
) -> None:
    """Neither more memory nor another placement would spare them."""
    where: dict[str, Any] = {"hardware": "l4+epyc", "shape": {"batch": 1, "seq": 16}}
    plan = hetpart.partition(zoo_model("bert-tiny"), budget="1GB", placement="random:3", **where).plan
    told = replace(plan, certificate=replace(plan.certificate, price=price, gap=gap))
    assert len(hetpart.lint(zoo_model("bert-tiny"), plan=told, select="ping-pong-copy", **where)) == found


@pytest.mark.parametrize("rule", ["baseline-better", "cpu-island", "peak-from-one-value"])
def test_a_good_plan_is_not(rule: str, zoo_model: Callable[[str], Path]) -> None:
    found = hetpart.lint(
        zoo_model("bert-tiny"), budget="1GB", hardware="l4+epyc", shape="batch=1,seq=16", select=rule, time_limit=5
    )
    assert found == []


def test_a_thin_headroom_is_a_note() -> None:
    proto = weighted(TWICE, v=NOISE, w=OTHER)(Path())
    planned = hetpart.partition(proto, hardware="l4+epyc", budget="1GB", pin="*=cuda:0")
    needed = planned.plan.device("cuda:0").peak_bytes
    assert hetpart.lint(proto, hardware="l4+epyc", budget=needed + 10, pin="*=cuda:0", select="thin-headroom")
    assert not hetpart.lint(proto, hardware="l4+epyc", budget=2 * needed, pin="*=cuda:0", select="thin-headroom")


def test_a_calibration_of_another_runtime_is_stale(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hetpart.cost_model import calibrated

    monkeypatch.setenv(calibrated.FOLDER_VARIABLE, str(folder))
    place = calibrated.path_of(calibrated.this_processor(), "1.2.3")
    place.parent.mkdir(parents=True)
    assert hetpart.lint("m.onnx", select="stale-calibration") == []
    place.write_text("{}")
    (found,) = hetpart.lint("m.onnx", select="stale-calibration", hardware="l4")
    assert "1.2.3" in found.message
    assert hetpart.lint("m.onnx", select="stale-calibration", hardware="l4+epyc") == []


def test_models_that_break_a_rule_exit_with_one() -> None:
    proto = PAIRS["duplicate-initializer-content"].bad(Path())
    assert isinstance(proto, onnx.ModelProto)
    onnx.save(proto, "twice.onnx")
    assert run("m.onnx", "twice.onnx", "--select", "HPG009").exit_code == 1


def test_a_plan_that_tells_no_options_is_held_against_the_rules(zoo_model: Callable[[str], Path]) -> None:
    where: dict[str, Any] = {"hardware": "l4+epyc", "shape": {"batch": 1, "seq": 16}}
    plan = hetpart.partition(zoo_model("bert-tiny"), budget="1GB", placement="random:3", **where).plan
    bare = replace(plan, options={}, certificate=replace(plan.certificate, price=0.0, gap=0.0))
    assert hetpart.lint(zoo_model("bert-tiny"), plan=bare, select="ping-pong-copy", **where) == []
