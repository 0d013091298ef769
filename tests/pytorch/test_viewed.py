# pyright: reportUnknownMemberType=false
"""Attention by hand, whose result lies otherwise in memory once it is in parts, against eager PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import hetpart

HEADS, WIDTH = 4, 32
SIZES = {0: "rows", 1: "tokens"}
EMULATED: dict[str, Any] = {"hardware": "emulated", "budget": "1GB"}


class Attention(nn.Module):
    """As it is written everywhere; ``writes`` to a view of what attention made."""

    def __init__(self, *, writes: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.qkv, self.out, self.writes = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), writes

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        rows, tokens, _ = x.shape
        q, k, v = (part.view(rows, tokens, HEADS, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        made = functional.scaled_dot_product_attention(q, k, v, mask[:, None, None])
        made = made.transpose(1, 2).contiguous().view(rows, tokens, -1)
        if self.writes:
            made[:, 0].mul_(0.5)
        return self.out(made)


def called(rows: int, tokens: int) -> tuple[Tensor, Tensor]:
    mask = torch.ones(rows, tokens, dtype=torch.bool)
    mask[0, : tokens // 2] = False
    return torch.randn(rows, tokens, WIDTH), mask


@pytest.mark.parametrize("writes", [False, True])
def test_views_of_attention_by_a_mask(writes: bool) -> None:
    model, example = Attention(writes=writes), called(2, 9)
    sizes: dict[str, Any] = {"dynamic_shapes": (SIZES, SIZES), "shape": {"rows": "?", "tokens": "?"}}
    planned = hetpart.partition(model, args=example, placement="random:3", **EMULATED, **sizes)
    run = planned.to_module(emulate=True)
    for given in (example, called(3, 5)):
        torch.testing.assert_close(run(*given), model(*given))


def test_the_program_that_is_given_stays_as_it_is() -> None:
    model, example = Attention(writes=False), called(2, 9)
    program = torch.export.export(model, example)
    code = program.graph_module.code
    planned = hetpart.partition(program, placement="random:3", **EMULATED)
    torch.testing.assert_close(planned.to_module(emulate=True)(*example), model(*example))
    assert program.graph_module.code == code
