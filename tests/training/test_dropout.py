# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""What is dropped is told by the seed, whatever kind of dropout it is; shares and gradients are eager PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from hetpart.training import SGD
from hetpart.training.compiled import CapturedStep, Running, capture, place
from hetpart.training.step import Step

SHAPE = (40, 50, 2)


class Drawn(nn.Module):
    """Noise of the user's own."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.empty_like(x).bernoulli_(0.6)


KINDS: dict[str, Callable[[], nn.Module]] = {
    "in place": lambda: nn.Dropout(0.3, inplace=True),
    "channels": lambda: nn.Dropout1d(0.4),
    "channels in place": lambda: nn.Dropout1d(0.4, inplace=True),
    "alpha": lambda: nn.AlphaDropout(0.3),
    "channels, alpha": lambda: nn.FeatureAlphaDropout(0.3),
    "drawn": Drawn,
}


class Dropping(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight, self.dropout = nn.Parameter(torch.randn(SHAPE)), KINDS[kind]()

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.weight * x)


def summed(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).sum()


@cache
def captured(kind: str) -> CapturedStep:
    return capture(Dropping(kind), summed, optimizer=SGD(1.0), example_batch=(torch.ones(SHAPE),))


def placed(kind: str, seed: int, placement: str) -> Step:
    running = Running(emulate=True, threads=1)
    return place(captured(kind), running=running, hardware="emulated", placement=placement, seed=seed)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_dropout_goes_on_bit_for_bit(kind: str, tmp_path: Path) -> None:
    x, first = torch.ones(SHAPE), placed(kind, 7, "random:1")
    losses = [first(x).item() for _ in range(5)]
    second = placed(kind, 7, "random:1")
    assert [second(x).item() for _ in range(2)] == losses[:2]
    second.save_checkpoint(str(tmp_path))
    third = placed(kind, 8, "random:1")  # the checkpoint has the seed
    assert third(x).item() != losses[0]
    third.load_checkpoint(str(tmp_path))
    assert [third(x).item() for _ in range(3)] == losses[2:]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_dropout_has_the_gradient_of_eager_pytorch(kind: str) -> None:
    """Of an element it is one of two numbers, as often as in eager PyTorch; that of the kept ones is the larger."""
    x, eager, step = torch.ones(SHAPE), Dropping(kind), placed(kind, 3, "all-cpu")
    summed(eager, x).backward()
    assert eager.weight.grad is not None
    step(x)
    wanted, found = eager.weight.grad, eager.weight.detach() - step.state_dict()["tensors"]["weight"]
    torch.testing.assert_close(found.round(decimals=4).unique(), wanted.round(decimals=4).unique())
    kept = found > found.mean()
    assert kept.float().mean().item() == pytest.approx((wanted > wanted.mean()).float().mean().item(), abs=0.1)
    whole = kept.all(-1) | ~kept.any(-1)
    assert bool(whole.all()) == bool((wanted[..., :1] == wanted).all())
