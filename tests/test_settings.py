"""``[tool.hetpart]`` and ``hetpart.toml``: defaults of the command line, and refusals that say where and what."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result

import hetpart
from hetpart.cli import main
from hetpart.cli.defaults import COMMANDS, option_defaults
from hetpart.errors import InvalidOptionError
from hetpart.project import SettingsTable, find_settings
from hetpart.settings import LintSettings, Settings, understood
from tests.runtime.models import model

DEAD = "g (float[n] x) => (float[n] y) { [a] y = Neg (x) [b] h = Abs (x) }"
PAGE = Path(__file__).parent.parent / "docs" / "lint.md"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(model(DEAD), "m.onnx")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def rules(*arguments: str) -> list[str]:
    answer = run("lint", "m.onnx", *arguments, "--format", "json")
    assert answer.exit_code in (0, 1), answer.output
    return sorted(found["rule"] for found in json.loads(answer.stdout)["findings"])


def test_without_settings_nothing_has_another_default() -> None:
    assert option_defaults() is None
    Path("pyproject.toml").write_text('[project]\nname = "hetpart-user"\n')
    assert option_defaults() is None
    assert rules() == ["dead-node", "unbound-dimension"]


@pytest.mark.parametrize(("file", "prefix"), [("pyproject.toml", "tool.hetpart"), ("hetpart.toml", "")])
def test_options_of_a_file_are_defaults(file: str, prefix: str) -> None:
    head, lint = (f"[{prefix}]\n", f"[{prefix}.lint]\n") if prefix else ("", "[lint]\n")
    Path(file).write_text(f'{head}shape = {{n = 2}}\n{lint}ignore = ["dead-node"]\n')
    assert rules() == []
    assert rules("--ignore", "unnamed-node") == ["dead-node"]
    answer = run("annotate", "m.onnx", "--hardware", "l4+epyc", "--json")
    assert answer.exit_code == 0, answer.output


def test_the_command_line_wins() -> None:
    Path("hetpart.toml").write_text('hardware = "l4+epyc"\nshape = "n=2"\nbudget = "1GB"\n[lint]\nselect = "HPG"\n')
    assert rules() == ["dead-node"]
    assert rules("--select", "HPS") == []
    assert rules("--shape", "n=?", "--select", "HPS") == []
    assert run("lint", "m.onnx", "--hardware", "t4+nothing").exit_code == 2


def test_the_nearest_folder_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("pyproject.toml").write_text("[tool.hetpart]\nthreads = 1\n")
    inner = folder / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert option_defaults() == {command: {"threads": 1} for command in COMMANDS}
    (folder / "a" / "pyproject.toml").write_text("[tool.other]\nhetpart = 1\n")
    assert option_defaults() == {command: {"threads": 1} for command in COMMANDS}
    (folder / "a" / "hetpart.toml").write_text("threads = 2\n")
    assert option_defaults() == {command: {"threads": 2} for command in COMMANDS}
    (inner / "pyproject.toml").write_text("[tool.hetpart]\n")
    assert option_defaults() == {command: {} for command in COMMANDS}


def test_paths_begin_at_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "hetpart.toml").write_text('hardware = "own.toml"\naccess = "a.json"\n[lint]\nbaseline = "lint.json"\n')
    (folder / "inner").mkdir()
    monkeypatch.chdir(folder / "inner")
    found = option_defaults()
    assert found is not None
    paths = {name: found["lint"][name] for name in ("hardware", "access", "baseline")}
    assert paths == {name: os.path.join("..", file) for name, file in
                     (("hardware", "own.toml"), ("access", "a.json"), ("baseline", "lint.json"))}  # fmt: skip


def test_tables_and_lists_are_repeated_options() -> None:
    Path("hetpart.toml").write_text(
        'budget = {"cuda:0" = "1GB"}\npin = ["op:Neg=cpu"]\nshape = {n = 2}\nhost-budget = 5000000000\n'
    )
    found = option_defaults()
    assert found is not None
    assert found["partition"] == {
        "budget": ("cuda:0=1GB",), "pin": ("op:Neg=cpu",), "shape": ("n=2",), "host_budget": "5000000000",
    }  # fmt: skip
    assert run("partition", "m.onnx", "--hardware", "l4+epyc").exit_code == 0
    plan = hetpart.load_plan("m.hetpart")
    assert (plan.options["pin"], plan.options["budget"]) == ("op:Neg=cpu", "cuda:0=1GB cpu=5000000000")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("budgte = '1GB'", "has an unknown key 'budgte'\nhint: did you mean 'budget'? its keys are budget, "),
        ("[lint]\nselct = 'HPG'", "table 'lint', has an unknown key 'selct'\nhint: did you mean 'select'?"),
        ("[lint]\nzzz = 1", "has an unknown key 'zzz'\nhint: its keys are select, ignore, extend-select"),
        ("host_budget = 1", "has an unknown key 'host_budget'\nhint: did you mean 'host-budget'?"),
        ("threads = 'two'", "`threads`"),
        ("lint = 3", "`lint`"),
        ("[lint]\nfail-on = 'eror'", "Invalid enum value 'eror' - at `lint.fail-on`"),
        ("shape = {n = 1.5}", "`shape[...]`"),
        ("shape = ", "is not TOML: "),
        ("x = '\x80'", "is not TOML: "),
    ],
)
def test_what_is_wrong_is_refused_with_where_and_what(content: str, said: str) -> None:
    Path("hetpart.toml").write_bytes(content.encode("latin-1"))
    answer = run("lint", "m.onnx")
    assert answer.exit_code == 2
    assert answer.stderr.startswith("error: hetpart.toml")
    assert said in answer.stderr
    assert "hint: " in answer.stderr


def test_the_shared_file_says_which_table() -> None:
    Path("pyproject.toml").write_text("[tool.hetpart.lint]\nselct = 1\n")
    answer = run("annotate", "m.onnx")
    assert answer.stderr.startswith("error: pyproject.toml [tool.hetpart], table 'lint', has an unknown key 'selct'\n")


def test_a_key_with_a_control_character_is_escaped() -> None:
    Path("hetpart.toml").write_text('"\\u001b[2J" = 1\n')
    answer = run("lint", "m.onnx")
    assert "\x1b" not in answer.stderr
    assert "unknown key" in answer.stderr


def test_settings_that_are_no_table_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match="hetpart"):
        understood(SettingsTable(Path("hetpart.toml"), "tool.hetpart", 3))


def test_every_key_is_an_option_of_some_command() -> None:
    known = {param.name for command in COMMANDS for param in main.commands[command].params}
    assert {name for name in Settings.__struct_fields__ if name != "lint"} <= known
    own = {param.name for param in main.commands["lint"].params}
    assert {"form" if name == "format" else name for name in LintSettings.__struct_fields__} <= own


def test_the_documented_example_is_understood(folder: Path) -> None:
    (example,) = re.findall(r"```toml\n(\[tool\.hetpart\].*?)```", PAGE.read_text(), re.DOTALL)
    (folder / "pyproject.toml").write_text(example)
    table = find_settings(folder)
    assert table is not None
    assert table.content == tomllib.loads(example)["tool"]["hetpart"]
    assert understood(table).lint.fail_on == "warning"
