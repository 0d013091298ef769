from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, embedding

from hetpart.training.checkpoint import Part, load, merge, save
from hetpart.training.data import Clicks
from hetpart.training.embedding import Table, mapped_table
from hetpart.training.optimizers import AdamW, LazyAdam, State

DATA = Clicks((60, 40), batch_size=32, batches=20, dense=3, seed=2)
RULE = AdamW(1e-2)


class Training:
    """A table in files, a layer in memory, and the state of both."""

    def __init__(self, folder: Path) -> None:
        generator = torch.Generator().manual_seed(1)
        self.table = mapped_table(folder / "table", (100, 4), LazyAdam(0.05), std=0.1, seed=1)
        self.layer = nn.Linear(11, 1)
        for parameter in self.layer.parameters():
            nn.init.normal_(parameter, generator=generator)
        self.states: dict[str, State] = {name: RULE.init(p) for name, p in self.layer.named_parameters()}

    def run(self, first: int, last: int) -> list[float]:
        return [self._step(number, *DATA[number - 1]) for number in range(first, last + 1)]

    def _step(self, number: int, ids: Tensor, dense: Tensor, label: Tensor) -> float:
        picked = self.table.pick(ids + torch.tensor([0, 60]))
        rows = picked.rows.requires_grad_()
        logits = self.layer(torch.cat((embedding(picked.inverse, rows).flatten(1), dense), 1)).squeeze(1)
        loss = binary_cross_entropy_with_logits(logits, label)
        parameters = dict(self.layer.named_parameters())
        gradient, *others = torch.autograd.grad(loss, [rows, *parameters.values()])
        self.table.update_(picked.unique.ids, gradient, number, self.table.optimizer.lr)
        for (name, parameter), slopes in zip(parameters.items(), others, strict=True):
            RULE.update_(parameter, slopes, self.states[name], number, RULE.lr)
        return loss.item()

    def tensors(self) -> dict[str, Tensor]:
        table: Table = self.table
        held = {"table": table.weight} | {f"optimizer/{name}/table": state for name, state in table.state.items()}
        for name, parameter in self.layer.named_parameters():
            held[f"layer.{name}"] = parameter
            held |= {f"optimizer/{key}/layer.{name}": state for key, state in self.states[name].items()}
        return held


def test_a_resumed_run_is_the_run_that_was_not_stopped_bit_for_bit(tmp_path: Path) -> None:
    whole = Training(tmp_path / "whole")
    losses = whole.run(1, 10)
    tensors = whole.tensors()
    host = [name for name in tensors if "table" in name]
    save(tmp_path, 10, {name: tensors[name] for name in host}, part=Part(1, 2))
    save(tmp_path, 10, {name: tensors[name] for name in tensors if name not in host}, part=Part(2, 2))
    merge(tmp_path)
    losses += whole.run(11, 20)

    resumed = Training(tmp_path / "resumed")
    resumed.run(1, 3)  # on other contents than those that are loaded over them
    checkpoint = load(tmp_path)
    checkpoint.read_into(resumed.tensors())
    assert resumed.run(checkpoint.step + 1, 20) == losses[10:]
    for name, tensor in whole.tensors().items():
        assert torch.equal(resumed.tensors()[name], tensor), name
    assert sum(losses[-5:]) < sum(losses[:5])
