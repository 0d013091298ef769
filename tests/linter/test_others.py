"""Rules of another package, installed as one is: a module, and an entry point in its metadata."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from hetpart.linter.rule import Stage, rule
from hetpart.plan.findings import Severity
from tests.runtime.models import model

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "lint.md"
SOFTMAX = "g (float[2] x) => (float[2] y) { [a] y = Softmax <axis = 0> (x) }"


def install(folder: Path, module: str) -> None:
    """What pip would leave of a package ``acme-rules``."""
    (folder / "acme_rules.py").write_text(module)
    metadata = folder / "acme_rules-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-rules\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[hetpart.rules]\nacme = acme_rules\n")


def hetpart(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])}
    command = [sys.executable, "-m", "hetpart", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def documented() -> str:
    return next(code for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "@rule" in code)


def test_a_documented_rule_of_another_package_is_one(tmp_path: Path) -> None:
    install(tmp_path, documented())
    onnx.save(model(SOFTMAX), tmp_path / "m.onnx")
    found = hetpart(tmp_path, "lint", "m.onnx")
    assert found.returncode == 1, found.stderr
    assert "warning ACM001 no-softmax: 'a' is a softmax\n" in found.stdout
    told = hetpart(tmp_path, "rule", "no-softmax").stdout
    assert told.startswith("# no-softmax (ACM001)\n\nA softmax.\n")


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("import nowhere_at_all", "cannot be loaded: ModuleNotFoundError"),
        (documented().replace('"ACM001"', '"HPG001"'), "cannot be loaded: ValueError: 'HPG001' is no code"),
        (documented().replace("no-softmax", "dead-node"), "is taken: hetpart has HPG003 dead-node"),
        (documented().replace("for op in", "for op in 1 / 0 or"), "the rule ACM001 no-softmax of acme_rules failed"),
    ],
)
def test_what_goes_wrong_in_it_is_told_as_its_fault(module: str, said: str, tmp_path: Path) -> None:
    install(tmp_path, module)
    onnx.save(model(SOFTMAX), tmp_path / "m.onnx")
    answer = hetpart(tmp_path, "lint", "m.onnx")
    assert answer.returncode == 2
    assert said in answer.stderr
    assert "acme" in answer.stderr
    assert "hint: " in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    ("code", "name"), [("HPG001", "own-code"), ("abc001", "case"), ("ABC01", "digits"), ("ABC001", "Not Kebab")]
)
def test_a_code_or_name_of_another_form_is_refused(code: str, name: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        rule(code, name, Severity.NOTE, Stage.FILE, hint="none")(lambda _: iter(()))
