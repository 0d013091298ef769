# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false
"""Gradients of a step against eager PyTorch's, piece by piece; what a trace gets wrong in silence is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from hetpart.errors import InvalidModelError
from hetpart.training import SGD
from hetpart.training.compiled import Running, capture, place
from tests.training.pieces import PIECES

ALONE = ("phases of a spectrum",)
"""Whose operators the exporter is given again and again; beside it, it is given all others as often."""
TOGETHER = tuple(name for name in PIECES if name not in ALONE)


class Pieces(nn.Module):
    """Some of them, whose losses are added up: one capture is quicker than fifty."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self.pieces = nn.ModuleList()
        for name in names:
            torch.manual_seed(0)
            self.pieces.append(PIECES[name]())

    def forward(self) -> Tensor:
        return torch.stack([piece() for piece in self.pieces]).sum()


def weighed(model: nn.Module, weight: Tensor) -> Tensor:
    return model() * weight


@dataclass(frozen=True, slots=True)
class Made:
    """What a step of SGD, whose rate is 1, made of pieces, and what eager PyTorch does."""

    gradients: dict[str, Tensor]
    buffers: dict[str, Tensor]
    loss: float
    eager: nn.Module
    eager_loss: float


@cache
def made(names: tuple[str, ...]) -> Made:
    eager, one = Pieces(names), torch.tensor(1.0)
    step = place(
        capture(Pieces(names), weighed, optimizer=SGD(lr=1.0), example_batch=(one,)),
        running=Running(emulate=True, threads=1), hardware="emulated", placement="random:1",
    )  # fmt: skip
    before = step.state_dict()["tensors"]
    loss = step(one).item()
    after = step.state_dict()["tensors"]
    step.close()
    told = weighed(eager, one)
    told.backward()
    gradients = {name: before[name] - after[name] for name, _ in eager.named_parameters() if name in before}
    buffers = {name: after[name] for name, _ in eager.named_buffers() if name in after}
    return Made(gradients, buffers, loss, eager, told.item())


@pytest.mark.parametrize("name", PIECES)
def test_a_piece_has_the_gradient_of_eager_pytorch(name: str) -> None:
    names = ALONE if name in ALONE else TOGETHER
    found, prefix, compared = made(names), f"pieces.{names.index(name)}.", 0
    for parameter, held in found.eager.named_parameters():
        if parameter.startswith(prefix):
            assert held.grad is not None
            torch.testing.assert_close(found.gradients[parameter], held.grad, rtol=1e-4, atol=1e-5)
            assert held.grad.abs().max() > 1e-3
            compared += 1
    for buffer, held in found.eager.named_buffers():
        if buffer.startswith(prefix):
            torch.testing.assert_close(found.buffers.get(buffer, held), held, rtol=1e-5, atol=1e-6)
    assert compared


@pytest.mark.parametrize("names", [ALONE, TOGETHER], ids=["alone", "together"])
def test_the_loss_is_that_of_eager_pytorch(names: tuple[str, ...]) -> None:
    assert made(names).loss == pytest.approx(made(names).eager_loss, rel=1e-5)


class Tripled(torch.autograd.Function):
    """Its backward pass is not that of its forward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        del ctx
        return 2 * x

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        del ctx
        return 3 * slope


def tripled(layer: nn.Linear) -> Tensor:
    return Tripled.apply(layer.weight)  # pyright: ignore[reportReturnType]


def hooked(layer: nn.Linear) -> Tensor:
    doubled = 2 * layer.weight
    doubled.register_hook(lambda slope: 3 * slope)
    return doubled


def on_the_parameter(layer: nn.Linear) -> Tensor:
    return 2 * layer.weight


def by_a_module(layer: nn.Linear) -> Tensor:
    return layer(torch.ones(1, 2))


def recomputed(layer: nn.Linear) -> Tensor:
    return checkpoint(torch.tanh, layer.weight, use_reentrant=True)  # pyright: ignore[reportReturnType]


REFUSED: dict[Callable[[nn.Linear], Tensor], str] = {
    tripled: "Tripled has a backward pass of its own",
    hooked: "puts a hook on the gradient of a tensor",
    on_the_parameter: "the parameter 'weight' has a hook",
    by_a_module: "take the backward hooks off the modules",
    recomputed: "with use_reentrant=False",
}


@pytest.mark.parametrize("code", REFUSED)
def test_what_a_trace_would_leave_out_is_refused(code: Callable[[nn.Linear], Tensor]) -> None:
    layer = nn.Linear(2, 2)
    if code is on_the_parameter:
        layer.weight.register_hook(lambda slope: 3 * slope)
    if code is by_a_module:
        layer.register_full_backward_hook(lambda *_: None)
    with pytest.raises(InvalidModelError, match=REFUSED[code]):
        capture(layer, lambda layer, x: (code(layer) * x).sum(), optimizer=SGD(lr=1.0), example_batch=(torch.ones(1),))
