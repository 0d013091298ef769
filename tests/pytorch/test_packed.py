"""Recurrent layers over packed sequences, whose lengths a run decides."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import hetpart
from tests.pytorch.test_assumed import EMULATED
from tests.pytorch.test_partition import assert_equal

STEPS, BATCH, WIDTH = 7, 3, 5


class BothWays(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(WIDTH, 6, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(12, 3)

    def forward(self, x: Tensor, lengths: Tensor) -> Any:
        x = x.transpose(0, 1)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        made, (hidden, cell) = self.layers(packed)
        padded, found = pad_packed_sequence(made, batch_first=True, total_length=x.shape[1])
        return self.head(padded), hidden, cell, found


class Projected(nn.Module):
    """As long as the longest sequence, which only a run can tell."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(WIDTH, 6, proj_size=2)

    def forward(self, x: Tensor, lengths: Tensor) -> Any:
        made, (hidden, _) = self.layers(pack_padded_sequence(x, lengths, enforce_sorted=False))
        return pad_packed_sequence(made)[0] * 2, hidden


class Begun(nn.Module):
    """From a state that is given, over rows that are computed of packed ones."""

    def __init__(self, kind: type[nn.GRU | nn.RNN], **options: Any) -> None:
        super().__init__()
        self.embedding = nn.Linear(WIDTH, WIDTH)
        self.layers = kind(WIDTH, 6, **options)

    def forward(self, x: Tensor, lengths: Tensor) -> Any:
        packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
        embedded = PackedSequence(self.embedding(packed.data).relu(), *packed[1:])
        first = x.new_ones(1, x.shape[1], 6)
        made, last = self.layers(embedded, first)
        padded, lengths = pad_packed_sequence(made, padding_value=-1.0)
        return padded.sum(0), last, lengths


MODULES = {
    "lstm": BothWays,
    "projected": Projected,
    "gru": lambda: Begun(nn.GRU),
    "rnn": lambda: Begun(nn.RNN, nonlinearity="relu"),
}


@cache
def _exported(name: str) -> tuple[nn.Module, Tensor, hetpart.ExportedModel]:
    torch.manual_seed(0)
    module, x = MODULES[name]().eval(), torch.randn(STEPS, BATCH, WIDTH)
    return module, x, hetpart.export(module, args=(x, torch.tensor([4, 7, 2])))


@pytest.mark.parametrize("placement", ["optimal", "random:1"])
@pytest.mark.parametrize("name", MODULES)
def test_packed_sequences_are_those_of_eager_pytorch(name: str, placement: str, tmp_path: Path) -> None:
    module, x, exported = _exported(name)
    planned = hetpart.partition(exported, hardware=EMULATED, placement=placement)
    assert not [note for note in planned.plan.notes if "no cost formula" in note]
    run, path = planned.to_module(emulate=True), planned.save(tmp_path / "net.hetpart")
    with hetpart.Session(path, emulate=True) as session, torch.no_grad():
        for lengths in ([4, 7, 2], [1, 1, 1], [3, 6, 6]):
            given, wanted = torch.tensor(lengths), module(x, torch.tensor(lengths))
            assert_equal(run(x, given), wanted)
            first = session.run(None, {"x": x.numpy(), "lengths": np.array(lengths)})[0]
            assert_equal(torch.from_numpy(first), wanted[0])


def test_their_number_and_length_may_be_open() -> None:
    module, sizes = BothWays().eval(), {"x": {0: "steps", 1: "batch"}, "lengths": {0: "batch"}}
    exported = hetpart.export(
        module, args=(torch.randn(STEPS, BATCH, WIDTH), torch.tensor([4, 7, 2])), dynamic_shapes=sizes
    )
    run = hetpart.partition(exported, hardware=EMULATED, shape="steps=?").to_module(emulate=True)
    for steps in (STEPS, 9):
        given = torch.randn(steps, BATCH, WIDTH), torch.tensor([4, 2, 6])
        assert_equal(run(*given), module(*given))
    planned = hetpart.partition(exported, hardware=EMULATED, shape="batch=2")
    given = torch.randn(STEPS, 2, WIDTH), torch.tensor([4, 2])
    assert_equal(planned.to_module(emulate=True)(*given), module(*given))
