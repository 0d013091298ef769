"""hetpart where PyTorch is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import hetpart
from hetpart.errors import HetpartError
from hetpart.frontend import example
from tests.pytorch.models import mlp
from tests.test_public_api import ROOT

BLOCKED = "import sys; sys.modules['torch'] = None; "


def test_onnx_models_need_no_pytorch() -> None:
    code = """
import numpy
from onnx import parser
import hetpart
text = '<ir_version: 10, opset_import: ["" : 21]> g (float[4] x) => (float[4] y) { y = Neg(x) }'
planned = hetpart.partition(parser.parse_model(text), hardware="emulated")
planned.session(emulate=True).run(None, {"x": numpy.ones(4, "float32")})
"""
    subprocess.run([sys.executable, "-c", BLOCKED + code], cwd=ROOT, check=True)


def test_a_program_on_the_command_line_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "m.pt2").write_bytes(b"PK")
    script = BLOCKED + f"from hetpart.cli import main; main(['partition', {str(tmp_path / 'm.pt2')!r}])"
    answer = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 2
    assert "m.pt2 needs torch, which is not installed" in answer.stderr
    assert "pip install 'hetpart[torch]'" in answer.stderr


def test_a_module_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    case = mlp()
    monkeypatch.setattr(example, "find_spec", lambda name: None if name == "onnxscript" else object())
    with pytest.raises(HetpartError, match="a MLP needs onnxscript, which is not installed") as missing:
        hetpart.partition(case.module, args=case.args)
    assert "hetpart[torch]" in missing.value.hint


@pytest.mark.parametrize("name", ["compile", "plan", "AdamW", "Step"])
def test_training_names_the_extra(name: str) -> None:
    script = BLOCKED + f"import hetpart.training; hetpart.training.{name}"
    answer = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert f"HetpartError: hetpart.training.{name} needs torch, which is not installed" in answer.stderr
    assert "pip install 'hetpart[training]'" in answer.stderr
