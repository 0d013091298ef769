"""Files of a module that holds the planned one, or that it holds, against PyTorch with the same weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import hetpart
from tests.pytorch.test_checked import called
from tests.pytorch.test_kept import EMULATED, ROWS

State = dict[str, Tensor]


class Tied(nn.Module):
    """A weight of two names, as embeddings and the head of a language model have."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
        self.head = nn.Linear(8, 8, bias=False)
        self.head.weight = self.base[0].weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.base(x))


def prefixed(prefix: str) -> Callable[[State], State]:
    return lambda state: {prefix + name: tensor for name, tensor in state.items()}


def stripped(prefix: str) -> Callable[[State], State]:
    return lambda state: {name.removeprefix(prefix): state[name] for name in state if name.startswith(prefix)}


FILES: dict[str, tuple[Callable[[], nn.Module], Callable[[State], State], str]] = {
    "of a wrapped module": (
        lambda: Tied().base,
        prefixed("_orig_mod.module."),
        "begin with '_orig_mod.module.' in the",
    ),
    "with a head beside": (lambda: Tied().base, lambda state: prefixed("model.")(state) | {"lm.b": ROWS}, "'model.'"),
    "of a part, the rest tied": (Tied, stripped("base."), "begin with 'base.' in Tied and not in the files"),
}


@pytest.mark.parametrize("name", FILES)
def test_names_that_differ_by_a_prefix_are_the_same(name: str, tmp_path: Path) -> None:
    make, written, words = FILES[name]
    trained = make().eval()
    save_file(written({key: value.clone() for key, value in trained.state_dict().items()}), tmp_path / "m.safetensors")
    planned = hetpart.partition(make().eval(), args=(ROWS,), weights=tmp_path, hardware=EMULATED, placement="random:1")
    assert any(words in note for note in planned.plan.notes)
    with torch.no_grad():
        expected = trained(ROWS)
        torch.testing.assert_close(planned.to_module(emulate=True)(ROWS), expected)
        torch.testing.assert_close(planned.to_fx({"cuda:0": "cpu"})(ROWS), expected)


def test_a_check_reads_them_by_the_same_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a program whose own weights are others."""
    monkeypatch.chdir(tmp_path)
    torch.export.save(torch.export.export(Tied().base, (ROWS,)), "net.pt2")
    save_file(prefixed("module.")({key: value + 1 for key, value in Tied().base.state_dict().items()}), "m.safetensors")
    planned = called("partition", "net.pt2", "--weights", "m.safetensors", "--hardware", EMULATED)
    assert planned.exit_code == 0, planned.output
    answer = called("run", "net.hetpart", "--random", "--emulate", "--check")
    assert answer.exit_code == 0, answer.output
