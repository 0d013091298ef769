"""``hetpart annotate`` on the command line."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result

import hetpart
from hetpart.cli import main
from tests.runtime.models import model

LAYERS = model("""layers (float[batch,64] x, float[64,64] w, int64 steps) => (float[batch,64] z, float[batch,64] s) {
    [first] a = MatMul (x, w)
    [relu] b = Relu (a)
    [second] c = MatMul (b, w)
    [evil] z = Tanh (c)
    go = Constant <value = bool {1}> ()
    [loop] s = Loop (steps, go, x) <body = turn (int64 i, bool in, float[batch,64] state)
        => (bool out, float[batch,64] next) { next = Relu (state) out = Identity (in) }>
}""")
NAMES = ("/net/layer.0/fc/MatMul", "/net/layer.0/act/Relu", "=HYPERLINK", "evil\x1b[2J\nname")
for node, name in zip(LAYERS.graph.node, NAMES, strict=False):
    node.name = name


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "layers.onnx"
    onnx.save(LAYERS, path)
    return path


def invoke(path: Path, *args: str | Path) -> Result:
    given = ["annotate", path, "--hardware", "l4+epyc", "--shape", "batch=8", *args]
    return CliRunner(env={"COLUMNS": "120"}).invoke(main, [str(arg) for arg in given])  # wide enough for the names


def test_the_table_has_the_machine_the_totals_and_the_largest_ops_first(path: Path) -> None:
    result = invoke(path)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "l4+epyc-genoa+pcie4" in result.stdout
    costs = hetpart.annotate(LAYERS, hardware="l4+epyc", shape={"batch": 8})
    assert f"5 ops: {sum(cost.work.flops for cost in costs.ops) / 1e3:.0f} kFLOP" in result.stdout
    assert "trip count unknown: 16 assumed for 1 loop (loop)" in " ".join(result.stdout.split())
    names = [line.split()[0] for line in result.stdout.splitlines() if " µs  " in line or " ns  " in line]
    assert names[0] == "loop"
    assert set(names) == {"loop", "/net/layer.0/fc/MatMul", "/net/layer.0/act/Relu", "=HYPERLINK", r"evil\x1b[2J\nname"}
    assert "\x1b" not in result.stdout


def test_top_cuts_the_table_and_says_so(path: Path) -> None:
    result = invoke(path, "--top", "1")
    assert "… and 4 rows more" in result.stdout
    assert "Relu" not in result.stdout


@pytest.mark.parametrize(
    ("args", "first_column"),
    [
        (("--by", "type"), {"MatMul", "Relu", "Tanh", "Loop"}),
        (("--by", "scope"), {"net.layer.0.fc", "net.layer.0.act", ""}),
        (("--by", "scope", "--depth", "1"), {"net", ""}),
    ],
)
def test_rows_are_grouped(path: Path, args: tuple[str, ...], first_column: set[str]) -> None:
    rows = json.loads(invoke(path, *args, "--json").stdout)["rows"]
    assert {row["name"] for row in rows} == first_column
    printed = invoke(path, *args).stdout
    assert all((name or "(no module)") in printed for name in first_column)


def test_json_is_one_object_of_all_that_is_known(path: Path) -> None:
    result = invoke(path, "--json", "--top", "1", "--trip-count", "loop=4")
    content = json.loads(result.stdout)
    assert (content["schema"], content["version"]) == ("hetpart.annotate", 1)
    assert [device["name"] for device in content["machine"]["devices"]] == ["cpu", "cuda:0"]
    assert content["notes"] == []
    assert (len(content["rows"]), content["total"]["ops"]) == (5, 5)
    costs = hetpart.annotate(LAYERS, hardware="l4+epyc", shape={"batch": 8}, trip_count="loop=4")
    by_name = {row["name"]: row for row in content["rows"]}
    for op, cost in zip(costs.graph.ops, costs.ops, strict=True):
        row = by_name[op.name]
        assert (row["flops"], row["reason"]) == (cost.work.flops, cost.reason)
        assert [there["seconds"] for there in row["devices"]] == list(cost.seconds)
    assert result.stdout.isascii()


def test_csv_goes_to_a_file_or_to_standard_output(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "ops.csv"
    result = invoke(path, "--csv", file)
    assert result.stdout.endswith(f"\nWritten to {file}\n")
    printed = invoke(path, "--csv", "-")
    assert printed.stdout == file.read_text()
    rows = list(csv.DictReader(io.StringIO(printed.stdout)))
    assert {row["name"] for row in rows} >= {"'=HYPERLINK", r"evil\x1b[2J\nname"}
    costs = hetpart.annotate(LAYERS, hardware="l4+epyc", shape={"batch": 8})
    assert sum(float(row["cuda:0 seconds"]) for row in rows) == pytest.approx(sum(c.seconds[1] for c in costs.ops))


def test_the_plot_is_written_and_named(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "roofline.svg"
    assert f"Written to {file}" in invoke(path, "--plot", file).stdout
    assert file.read_text().startswith("<?xml")


def test_access_and_trip_counts_reach_the_costs(path: Path, tmp_path: Path) -> None:
    profile = tmp_path / "access.json"
    profile.write_text('{"net.layer.0": 0.5}')
    args = ("--trip-count", "loop=2", "--access", profile, "--json")
    rows = {row["name"]: row for row in json.loads(invoke(path, *args).stdout)["rows"]}
    assert rows["/net/layer.0/fc/MatMul"]["flops"] == 8 * 64 * 64
    assert rows["loop"]["flops"] == 2 * 8 * 64


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--sort", "colour"), "cannot sort by 'colour'"),
        (("--plot", "roofline.pdf"), "does not say in which format"),
        (("--csv", "-", "--json"), "cannot both print to standard output"),
        (("--trip-count", "nothing=2"), "matches no Loop"),
        (("--access", "none.json"), "cannot read the access profile"),
        (("--by", "colour"), "'colour' is not one of"),
        (("--hardware", "l5"), "l5"),
    ],
)
def test_wrong_options_are_exit_code_2(path: Path, args: tuple[str, ...], said: str) -> None:
    result = invoke(path, *args)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_a_file_that_cannot_be_written_is_told(path: Path, tmp_path: Path) -> None:
    for option, name in (("--csv", "x.csv"), ("--plot", "x.svg")):
        result = invoke(path, option, tmp_path / "none" / name)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "folder does not exist" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--csv", "model.onnx"], "--csv model.onnx: end the name in .csv"),
        (["--csv", "model.onnx.data"], "end the name in .csv"),
        (["--csv", "a.svg", "--plot", "a.svg"], "end the name in .csv"),
        (["--csv", "a.csv", "--plot", "nowhere/a.svg"], "folder does not exist"),
        (["--depth", "2"], "--by scope"),
    ],
)
def test_a_table_takes_the_place_of_nothing_but_a_table(tmp_path, monkeypatch, zoo_model, options, told):
    monkeypatch.chdir(tmp_path)
    content = Path(zoo_model("bert-tiny")).read_bytes()
    Path("model.onnx").write_bytes(content)
    shown = CliRunner().invoke(main, ["annotate", "model.onnx", *options])
    assert shown.exit_code == 2
    assert told in " ".join(shown.output.split())
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    assert Path("model.onnx").read_bytes() == content


UNKNOWN = model("""unknown (float[4] x, int64[1] twice) => (float[n] t, float[4] z) {
    [odd] y = my.dom.Foo (x)
    [tile] t = Tile (x, twice)
    [relu] z = Relu (y)
}""")
UNKNOWN.opset_import.add(domain="my.dom", version=1)


def test_what_is_not_known_is_told_with_its_reason(tmp_path: Path) -> None:
    onnx.save(UNKNOWN, tmp_path / "unknown.onnx")
    result = CliRunner().invoke(main, ["annotate", str(tmp_path / "unknown.onnx"), "--hardware", "l4+epyc"])
    said = " ".join(result.output.split())
    assert result.exit_code == 0, result.output
    assert "no cost formula for Foo: priced conservatively" in said
    assert "the size of 2 values is known only in a run: estimated" in said
    assert "– odd: no provider knows my.dom.Foo" in said
