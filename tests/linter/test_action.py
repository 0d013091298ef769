"""``action.yml`` and the pre-commit hook: what a step runs, with GitHub's environment played."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
import yaml

from tests.runtime.models import model

ROOT = Path(__file__).parent.parent.parent
DEAD = "g (float[2] x) => (float[2] y) { [a] y = Neg (x) [b] h = Abs (x) }"


def action() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "action.yml").read_text())


def step(name: str) -> dict[str, Any]:
    (found,) = [step for step in action()["runs"]["steps"] if step["name"] == name]
    return found


def with_inputs(environment: dict[str, str], inputs: dict[str, str]) -> dict[str, str]:
    """A step's ``env`` as the runner fills it in."""
    defaults = {name: entry.get("default", "") for name, entry in action()["inputs"].items()}
    given = defaults | inputs
    assert given.keys() == defaults.keys()
    return {name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: given[found[1]], text)
            for name, text in environment.items()}  # fmt: skip


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A checked-out repository, and an installed hetpart that is this one."""
    (tmp_path / "models").mkdir()
    python = tmp_path / "temp" / "hetpart" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    return tmp_path


def lint(workspace: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    own = {"GITHUB_ACTION_PATH": str(ROOT), "RUNNER_TEMP": str(workspace / "temp"),
           "GITHUB_OUTPUT": str(workspace / "output"), "GITHUB_STEP_SUMMARY": str(workspace / "summary")}  # fmt: skip
    named = {name.replace("_", "-"): value for name, value in inputs.items()}
    environment = os.environ | own | with_inputs(step("Lint")["env"], named)
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step("Lint")["run"]]
    return subprocess.run(command, cwd=workspace, env=environment, capture_output=True, text=True, check=False)


def test_findings_annotate_the_run_and_fail_it(workspace: Path) -> None:
    onnx.save(model(DEAD), workspace / "models" / "a.onnx")
    answer = lint(workspace, models="models/**/*.onnx", hardware="l4+epyc")
    assert answer.returncode == 1, answer.stderr
    (line,) = answer.stdout.splitlines()
    assert line.startswith("::warning title=hetpart HPG003 dead-node,file=models/a.onnx::")
    assert "| warning | HPG003 dead-node |" in (workspace / "summary").read_text()
    assert not (workspace / "output").exists()


def test_code_scanning_gets_a_file(workspace: Path) -> None:
    onnx.save(model(DEAD), workspace / "models" / "a.onnx")
    answer = lint(workspace, models="models/a.onnx", code_scanning="true", fail_on="error")
    assert answer.returncode == 0, answer.stderr
    name, _, path = (workspace / "output").read_text().strip().partition("=")
    assert name == "sarif"
    (run,) = json.loads(Path(path).read_text())["runs"]
    assert [result["ruleId"] for result in run["results"]] == ["HPG003"]
    sends = step("Send to code scanning")
    assert sends["with"]["sarif_file"] == "${{ steps.lint.outputs.sarif }}"
    assert step("Lint")["id"] == "lint"


def test_no_input_is_read_as_shell(workspace: Path) -> None:
    hostile = "$(touch owned)`touch owned`'; touch owned #\"; touch owned #"
    answer = lint(workspace, models=hostile, budget=hostile, ignore=hostile, plan=hostile)
    assert answer.returncode == 2
    assert f"{hostile!r} is no rule" in answer.stderr
    assert not list(workspace.rglob("owned"))


def test_every_input_reaches_its_option() -> None:
    from tools.action.lint import FLAGS, command

    inputs = {name: f"<{name}>" for name in FLAGS}
    environment = with_inputs(step("Lint")["env"], inputs | {"models": " a b.onnx \n\nc.onnx"})
    found = command(environment, Path("s.sarif"))
    assert found[:4] == ["-P", "-m", "hetpart", "lint"]
    assert found[4:-3] == [*(f"--{name}=<{name}>" for name in FLAGS), "--format=github"]
    assert found[-3:] == ["--", "a b.onnx", "c.onnx"]


def test_inputs_come_through_the_environment_and_actions_by_their_hash() -> None:
    for each in action()["runs"]["steps"]:
        if "run" in each:
            assert "${{" not in each["run"]
            assert each["shell"] == "bash"
        else:
            assert re.fullmatch(r"[\w-]+/[\w-]+(/[\w-]+)?@[0-9a-f]{40}", each["uses"])
    told = {name for name, entry in action()["inputs"].items() if entry["description"]}
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text()))
    assert told == used == set(action()["inputs"])


def test_an_old_python_is_told(workspace: Path) -> None:
    old = workspace / "old"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    environment = os.environ | {"RUNNER_TEMP": str(workspace), "GITHUB_ACTION_PATH": str(ROOT)}
    environment |= with_inputs(step("Install hetpart")["env"], {"python": str(old)})
    answer = subprocess.run(
        ["bash", "-e", "-c", step("Install hetpart")["run"]],
        cwd=workspace, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 2
    assert answer.stdout.startswith("::error title=hetpart::Python 3.11 or newer is needed")


def test_the_hook_takes_models() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"] == "hetpart lint"
    assert re.search(hook["files"], "models/a.onnx")
    assert not re.search(hook["files"], "models/a.onnx.data")
