# pyright: reportUnknownMemberType=false
"""Graphs of Dynamo's as programs, against eager PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.dynamo.test_backend import compiled
from tests.pytorch.test_partition import assert_equal


class Caching(nn.Module):
    """Keeps a table by device, as LeViT does, and by other keys that no buffer can be called."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.tables = {key: torch.full((4,), place + 2.0) for place, key in enumerate(("cpu", "cpu_", "", "type.x"))}

    def forward(self, x: Tensor) -> Tensor:
        made = self.linear(x)
        for key in (str(x.device), "cpu_", "", "type.x"):
            made = made * self.tables[key] + 1
        return made


def test_tensors_in_tables_have_any_key() -> None:
    module, x = Caching().eval(), torch.linspace(-1, 1, 12).reshape(3, 4)
    run = compiled(module, placement="random:1")
    with torch.no_grad():
        assert_equal(run(x), module(x))
        module.tables["cpu"].mul_(3)
        assert_equal(run(x), module(x))
