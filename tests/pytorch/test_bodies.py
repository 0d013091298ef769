"""Loops and branches that hold what has no right translation, against eager PyTorch, on both roads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.map import map as mapped
from torch._higher_order_ops.scan import scan
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.flop_counter import FlopCounterMode

import hetpart
from hetpart.dynamo.backend import hetpart as backend

EMULATED = "emulated"
ROWS = torch.linspace(-3, 3, 12).reshape(3, 4)


def branches(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda n: torch.relu(n) + 1, lambda n: torch.relu(n) * 2, ((x * 2).long(),))


def loop(x: Tensor) -> Any:
    return while_loop(
        lambda i, x: (i < 3) & (x[0, 0] < 99),
        lambda i, x: (i + 1, torch.logcumsumexp(x, 0) * 0.5),
        (torch.tensor(0), x),
    )


def loop_told_by_misfit(x: Tensor) -> Any:
    return while_loop(lambda n: torch.relu(n).sum() < 50, lambda n: (torch.relu(n) + 1,), ((x * 2).long(),))


def scanned(x: Tensor) -> Any:
    return scan(lambda c, r: (c + r, torch.logcumsumexp(c * r, 0)), x[0], x)


def each(x: Tensor) -> Any:
    return mapped(lambda r: torch.relu(r) + 1, (x * 2).long())


def constants_in_branches(x: Tensor) -> Any:
    factors = torch.cond(x.sum() > 5, lambda n: n * torch.tensor([1.0, 2, 3, 4]), lambda n: n + torch.tensor(2), (x,))
    return factors, torch.softmax(x, 1)


def constants_in_scan(x: Tensor) -> Any:
    return scan(lambda c, r: (c + r * torch.tensor(0.5), c * r), x[0] * 1, x)


def branch_in_loop(x: Tensor) -> Any:
    def step(i: Tensor, n: Tensor) -> Any:
        return i + 1, torch.cond(n.sum() > 5, lambda n: n * 0.5, lambda n: n + 2, (n,))

    return while_loop(lambda i, _n: i < 3, step, (torch.tensor(0), x))


def loop_in_branch(x: Tensor) -> Any:
    return torch.cond(x.sum() < 5, lambda n: branch_in_loop(n)[1], lambda n: n - 1, (x,))


def loop_in_loop(x: Tensor) -> Any:
    return while_loop(lambda i, _n: i < 2, lambda i, n: (i + 1, branch_in_loop(n)[1]), (torch.tensor(0), x))


class Called(nn.Module):
    def __init__(self, code: Callable[..., Any]) -> None:
        super().__init__()
        self.code = code

    def forward(self, x: Tensor) -> Any:
        return self.code(x)


@pytest.mark.filterwarnings("ignore")  # PyTorch's own, of what it calls itself
@pytest.mark.parametrize(
    "code",
    [
        branches,
        loop,
        loop_told_by_misfit,
        scanned,
        each,
        constants_in_branches,
        constants_in_scan,
        branch_in_loop,
        loop_in_branch,
        loop_in_loop,
    ],
)
def test_what_has_no_translation_inside_is_eager_pytorchs(code: Callable[..., Any]) -> None:
    torch._dynamo.reset()
    with torch.no_grad():
        wanted = code(ROWS)
        planned = hetpart.partition(Called(code), args=(ROWS,), hardware=EMULATED)
        compiled = torch.compile(code, backend=backend, options={"hardware": EMULATED, "emulate": True})
        for run in (planned.to_module(emulate=True), planned.to_fx(), compiled):
            torch.testing.assert_close(run(ROWS), wanted)


def biased(score: Tensor, batch: Tensor, head: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return torch.where(i >= j, score + (i - j) * (1 + batch + head), -float("inf"))


def near(_batch: Tensor, _head: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return (i >= j) & (i - j < 3)


class Flex(nn.Module):
    """Attention with a score of its own and a mask that has blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.Linear(4, 24)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x).reshape(2, -1, 2, 12).transpose(1, 2).chunk(3, -1)
        mask = create_block_mask(near, None, None, q.shape[2], q.shape[2], device="cpu")
        return flex_attention(q, k, v, score_mod=biased, block_mask=mask)


@pytest.mark.filterwarnings("ignore")
def test_flex_attention_is_eager_pytorchs() -> None:
    torch._dynamo.reset()
    model, x = Flex().eval(), torch.linspace(-1, 1, 80).reshape(2, 10, 4)
    with torch.no_grad():
        wanted = model(x)
        planned = hetpart.partition(model, args=(x,), hardware=EMULATED)
        compiled = torch.compile(model, backend=backend, options={"hardware": EMULATED, "emulate": True})
        for run in (planned.to_module(emulate=True), compiled):
            torch.testing.assert_close(run(x), wanted)
        with FlopCounterMode(display=False):  # under which eager PyTorch does not run it
            torch.testing.assert_close(planned.to_module(emulate=True)(x), wanted)
    assert any("higher_order.flex_attention" in note for note in planned.plan.notes)
