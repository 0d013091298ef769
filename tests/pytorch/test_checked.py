"""``hetpart run --check`` of PyTorch's files, and of models that ONNX Runtime alone refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner, Result
from onnx import parser
from safetensors.torch import save_file
from torch import Tensor, nn

import hetpart
from hetpart.cli import main

EMULATED = "emulated"


class Mixed(nn.Module):
    """Arguments by name, a constant among the results, an argument that changes, an operator that stays PyTorch's."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor, times: int = 3, *, count: Tensor, unread: Tensor) -> dict[str, Any]:
        del unread
        made = torch.linalg.eigvalsh((self.fc(x) @ self.fc(x).mT).float())
        count.add_(1)
        return {"made": made * times, "constant": 3, "again": self.fc(x)}


def program(module: nn.Module, dtype: torch.dtype, path: Path) -> None:
    x = torch.randn(3, 8, 8, dtype=dtype)
    kwargs = {"count": torch.zeros(4), "unread": torch.ones(2)}
    torch.export.save(torch.export.export(module.eval().to(dtype), (x,), kwargs), path)


def called(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_plan_of_a_program_is_compared_with_pytorch(
    dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program(Mixed(), dtype, tmp_path / "net.pt2")
    answer = called("partition", "net.pt2", "--hardware", EMULATED, "--placement", "random:1")
    assert answer.exit_code == 0, answer.output
    assert {spec.name for spec in hetpart.load_plan("net.hetpart").inputs} >= {"x", "count"}
    run = ("run", "net.hetpart", "--emulate", "--random", "--check")
    answer = called(*run)
    assert answer.exit_code == 0, answer.output
    assert "equal to the uncut model" in answer.stdout
    monkeypatch.setattr(
        hetpart.Session, "run", lambda self, names, *rest, own=hetpart.Session.run: _wrong(own(self, names, *rest))
    )
    assert called(*run).exit_code == 1
    refused = called("run", "net.hetpart", "--emulate", "--random", "--exact")
    assert refused.exit_code == 2
    assert "--exact compares what ONNX Runtime computes" in refused.output


def _wrong(results: list[Any]) -> list[Any]:
    return [*results[:-1], results[-1] + results[-1].dtype.type(1)]


def test_an_onnx_model_in_bfloat16_is_compared_with_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime refuses it on the processor: it has no such kernels there."""
    monkeypatch.chdir(tmp_path)
    text = """
        <ir_version: 10, opset_import: ["" : 20]>
        net (bfloat16[4, 8] x) => (bfloat16[4, 8] y) <bfloat16[8, 8] w> {
            a = MatMul(x, w)
            b = Tanh(a)
            y = MatMul(b, w)
        }
    """
    proto = parser.parse_model(text)
    content = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    raw = torch.from_numpy(content).to(torch.bfloat16).view(torch.uint8).numpy().tobytes()
    weight = onnx.TensorProto(name="w", dims=[8, 8], data_type=onnx.TensorProto.BFLOAT16, raw_data=raw)
    del proto.graph.initializer[:]
    proto.graph.initializer.append(weight)
    onnx.save(proto, "net.onnx")
    hetpart.partition("net.onnx", hardware=EMULATED, placement="random:1").save("net.hetpart")
    answer = called("run", "net.hetpart", "--emulate", "--random", "--check")
    assert answer.exit_code == 0, answer.output
    assert "equal to the uncut model" in answer.stdout


OPS = """
import torch

@torch.library.custom_op("hetpart_imported::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@twice.register_fake
def _(x):
    return torch.empty_like(x)
"""
SAVES = """
import torch, own_operators

class Twice(torch.nn.Module):
    def forward(self, x):
        return torch.ops.hetpart_imported.twice(x) + 1

torch.export.save(torch.export.export(Twice(), (torch.ones(3),)), "net.pt2")
"""


def test_custom_operators_are_imported_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_operators.py").write_text(OPS)
    (tmp_path / "saves.py").write_text(SAVES)
    subprocess.run([sys.executable, "-W", "ignore", "saves.py"], check=True)
    answer = called("partition", "net.pt2", "--hardware", EMULATED)
    assert answer.exit_code == 2
    assert "calls hetpart_imported::twice, which PyTorch" in answer.output
    assert "--import my_ops" in answer.output
    answer = called("partition", "net.pt2", "--import", "no_such_module")
    assert answer.exit_code == 2
    assert "--import 'no_such_module' failed" in answer.output
    answer = called("partition", "net.pt2", "--hardware", EMULATED, "--import", "own_operators")
    assert answer.exit_code == 0, answer.output
    answer = called("run", "net.hetpart", "--random", "--emulate", "--check", "--import", "own_operators")
    assert answer.exit_code == 0, answer.output


RESULTS = """
import sys, torch
from transformers import Qwen2Config, Qwen2ForCausalLM

config = Qwen2Config(
    vocab_size=60, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
    num_key_value_heads=2, use_cache=False, tie_word_embeddings=True,
)
torch.manual_seed(1)
Qwen2ForCausalLM(config).save_pretrained("files", max_shard_size="10KB")
torch.manual_seed(2)
program = torch.export.export(Qwen2ForCausalLM(config).eval(), (), {"input_ids": torch.ones(1, 3, dtype=torch.int64)})
torch.export.save(program, "net.pt2")
"""


def test_programs_of_transformers_and_weights_of_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process that never imported transformers: its results are put together by its own rules.

    The check runs the program with the weights that the plan was given, not with its own.
    """
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, "-W", "ignore", "-c", RESULTS], check=True, capture_output=True)
    command = [sys.executable, "-m", "hetpart", "partition", "net.pt2", "--weights", "files", "--placement", "random:1"]
    planned = subprocess.run([*command, "--hardware", EMULATED], capture_output=True, text=True, check=False)
    assert planned.returncode == 0, planned.stderr
    answer = called("run", "net.hetpart", "--random", "--emulate", "--check")
    assert answer.exit_code == 0, answer.output
    assert "the uncut model" in answer.stdout


HOLDER = """
import torch
from torch.utils import _pytree as pytree

class Holder:
    def __init__(self, made):
        self.made = made

pytree.register_pytree_node(
    Holder, lambda held: ([held.made], None), lambda made, _: Holder(*made), serialized_type_name="own_types.Holder"
)
"""
HELD = """
import torch, own_types

class Held(torch.nn.Module):
    def forward(self, x):
        return own_types.Holder(x + 1)

torch.export.save(torch.export.export(Held(), (torch.ones(3),)), "net.pt2")
"""


def test_results_that_nobody_registered_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_types.py").write_text(HOLDER)
    (tmp_path / "saves.py").write_text(HELD)
    subprocess.run([sys.executable, "-W", "ignore", "saves.py"], check=True)
    answer = called("partition", "net.pt2", "--hardware", EMULATED)
    assert answer.exit_code == 2
    assert "net.pt2 is given or returns own_types.Holder" in answer.output
    assert "--import own_types" in answer.output


def test_a_pickled_module_is_told_the_way(tmp_path: Path) -> None:
    torch.save(nn.Linear(2, 2).state_dict(), tmp_path / "net.pt")
    answer = called("partition", str(tmp_path / "net.pt"))
    assert answer.exit_code == 2
    assert "torch.export.save" in answer.output


def test_a_program_without_content_shows_its_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weights come later; no bundle can be written without them, and nothing else is lost."""
    monkeypatch.chdir(tmp_path)
    with torch.device("meta"):
        torch.export.save(torch.export.export(nn.Linear(4, 3), (torch.ones(2, 4),)), "net.pt2")
    answer = called("partition", "net.pt2", "--hardware", EMULATED)
    assert answer.exit_code == 0
    assert "Certificate" in answer.stdout
    assert "No bundle is written, this is the plan alone" in answer.stdout
    assert "planned without the content of its weights: 'weight', 'bias'" in answer.stdout
    assert "--weights FOLDER" in answer.stdout
    assert json.loads(called("partition", "net.pt2", "--hardware", EMULATED, "--json").stdout)["bundle"] is None
    assert not Path("net.hetpart").exists()


@pytest.mark.parametrize("option", [("-o", "net.hetpart"), ("--self-contained",), ("--quiet",)])
def test_a_bundle_without_content_is_refused_before_a_plan_is_shown(
    option: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with torch.device("meta"):
        torch.export.save(torch.export.export(nn.Linear(4, 3), (torch.ones(2, 4),)), "net.pt2")
    answer = called("partition", "net.pt2", "--hardware", EMULATED, *option)
    assert answer.exit_code == 2
    assert not answer.stdout
    assert "planned without the content of its weights: 'weight', 'bias'" in answer.stderr
    assert "--weights FOLDER" in answer.stderr
    assert not Path("net.hetpart").exists()
    save_file({"weight": torch.ones(3, 4), "bias": torch.ones(3)}, "w.safetensors")
    again = called("partition", "net.pt2", "--hardware", EMULATED, "--weights", "w.safetensors", *option)
    assert again.exit_code == 0
    assert Path("net.hetpart").exists()
