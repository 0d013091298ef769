"""Calls that go otherwise for some arguments, against eager PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import hetpart


class Clamped(nn.Module):
    """By a whole number and one that is not: the exporter finds no overload that takes the two."""

    def forward(self, x: Tensor) -> Tensor:
        return x.clamp(-3, 0.5)


def test_a_clamp_by_a_whole_number_and_one_that_is_not() -> None:
    x = torch.tensor([-5.0, 0.25, 7.0])
    planned = hetpart.partition(Clamped(), args=(x,), hardware="emulated")
    assert torch.equal(planned.to_module(emulate=True)(x), Clamped()(x))
