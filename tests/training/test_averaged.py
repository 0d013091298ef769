# pyright: reportUnknownMemberType=false
"""Batch normalisation whose running statistics are the mean of all batches', beside eager PyTorch."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hetpart.training import Momentum
from hetpart.training.compiled import CapturedStep, Running, capture, place
from hetpart.training.step import Step

UPDATES = 6


class Averaged(nn.Module):
    """Two such layers, one of which is used twice in a pass."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.image = nn.Conv2d(3, 8, 3, bias=False, dtype=dtype)
        self.norm = nn.BatchNorm2d(8, momentum=None, dtype=dtype)
        self.layer = nn.Linear(8, 8, bias=False, dtype=dtype)
        self.twice = nn.BatchNorm1d(8, momentum=None, affine=False, dtype=dtype)

    def forward(self, images: Tensor) -> Tensor:
        pooled = self.norm(self.image(images)).relu().mean((2, 3))
        return self.twice(self.layer(self.twice(self.layer(pooled)).tanh()))


def loss_of(model: nn.Module, images: Tensor, label: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(images), label)


def batch_of(number: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    drawn = torch.Generator().manual_seed(number)
    images = torch.randn(5, 3, 6, 6, generator=drawn, dtype=dtype)
    return images * (number + 1), torch.randint(0, 8, (5,), generator=drawn)


@cache
def model_of(dtype: torch.dtype) -> Averaged:
    torch.manual_seed(0)
    return Averaged(dtype)


@cache
def captured(dtype: torch.dtype) -> CapturedStep:
    return capture(model_of(dtype), loss_of, optimizer=Momentum(0.05), example_batch=batch_of(0, dtype))


def placed(dtype: torch.dtype, **planning: Any) -> Step:
    return place(captured(dtype), running=Running(emulate=True, threads=1), hardware="emulated", **planning)


@pytest.mark.parametrize(("dtype", "within"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize("placement", ["all-accelerator", "random:1"])
def test_losses_and_statistics_are_those_of_eager_pytorch(dtype: torch.dtype, within: float, placement: str) -> None:
    model, eager = deepcopy(model_of(dtype)), deepcopy(model_of(dtype))
    step, optimizer = placed(dtype, placement=placement), torch.optim.SGD(eager.parameters(), 0.05, 0.9)
    for number in range(UPDATES):
        optimizer.zero_grad()
        loss = loss_of(eager, *batch_of(number, dtype))
        loss.backward()
        optimizer.step()
        assert step(*batch_of(number, dtype)).item() == pytest.approx(loss.item(), rel=within)
    step.sync_to(model)
    for name, buffer in eager.named_buffers():
        torch.testing.assert_close(model.get_buffer(name), buffer, rtol=10 * within, atol=within)
    assert model.twice.num_batches_tracked == 2 * UPDATES


def test_the_model_is_as_it_was_and_a_step_goes_on_from_its_content() -> None:
    model, step = model_of(torch.float32), placed(torch.float32)
    assert all("forward" not in vars(module) for module in model.modules())
    assert model.norm.num_batches_tracked == 0
    step(*batch_of(0, torch.float32))
    other = placed(torch.float32)
    other.load_state_dict(step.state_dict())
    assert torch.equal(other(*batch_of(1, torch.float32)), step(*batch_of(1, torch.float32)))
    for name, content in step.state_dict()["tensors"].items():
        assert torch.equal(other.state_dict()["tensors"][name], content), name
