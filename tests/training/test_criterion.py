# pyright: reportUnknownMemberType=false, reportUnknownLambdaType=false
"""A loss function that is a module, and layers that it puts into another mode, beside eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from hetpart import training
from hetpart.errors import InvalidModelError
from hetpart.training import SGD
from hetpart.training.step import Step

X = torch.randn(8, 6, generator=torch.Generator().manual_seed(0))
Y = torch.randint(0, 5, (8,), generator=torch.Generator().manual_seed(1))
ON = {"emulate": True, "hardware": "emulated", "placement": "random:1"}


def compiled(model: nn.Module, loss_fn: Callable[..., Tensor]) -> Step:
    return training.compile(model, loss_fn, optimizer=SGD(0.1), example_batch=(X, Y), **ON)


def eager_losses(model: nn.Module, loss_fn: Callable[..., Tensor], updates: int) -> list[float]:
    optimizer, losses = torch.optim.SGD(model.parameters(), 0.1), list[float]()
    for _ in range(updates):
        optimizer.zero_grad()
        loss = loss_fn(model, X, Y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


class Weighed(nn.Module):
    """Holds what stays as it is, among it a frozen parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weights", torch.arange(1.0, 6.0))
        self.scale = nn.Parameter(torch.tensor(0.5), requires_grad=False)

    def forward(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        weights: Any = self.weights
        return functional.cross_entropy(model(x) * self.scale, y, weights)


class Around(nn.Module):
    """A loss that holds its model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.inner = model

    def forward(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(self.inner(x), y) + 0.0 * model(x).sum()


class Trained(Weighed):
    def __init__(self) -> None:
        super().__init__()
        self.scale.requires_grad_(True)


class Counted(Weighed):
    def forward(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        self.rounds = getattr(self, "rounds", 1) * 2
        return super().forward(model, x, y) * self.rounds


class Halved(Weighed):
    def __init__(self) -> None:
        super().__init__()
        self.beta = 1.0

    def forward(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        self.beta *= 0.5
        return super().forward(model, x, y) * self.beta


class Assigning(Weighed):
    def forward(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        weights: Any = self.weights
        self.weights = weights * 0.9
        return super().forward(model, x, y)


class Writing(Weighed):
    def forward(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        weights: Any = self.weights
        weights.mul_(0.9)
        return super().forward(model, x, y)


class Drawing(Weighed):
    def __init__(self) -> None:
        super().__init__()
        self.drawn = np.random.default_rng(0)

    def forward(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return super().forward(model, x, y) * float(self.drawn.random())


def test_one_that_stays_as_it_is_loses_as_in_eager_pytorch() -> None:
    torch.manual_seed(0)
    model, loss_fn = nn.Linear(6, 5), Weighed()
    step = compiled(model, loss_fn)
    losses = [float(step(X, Y)) for _ in range(5)]
    assert losses == pytest.approx(eager_losses(deepcopy(model), loss_fn, 5), rel=1e-6)
    step.sync_to(model)
    assert all(not name.startswith("_loss_fn") for name in step.state_dict()["tensors"])


def test_one_may_hold_its_model() -> None:
    torch.manual_seed(0)
    model = nn.Linear(6, 5)
    step = compiled(model, Around(model))
    losses = [float(step(X, Y)) for _ in range(3)]
    other = deepcopy(model)
    assert losses == pytest.approx(eager_losses(other, Around(other), 3), rel=1e-6)


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (Trained, "loss_fn has a parameter of its own, 'scale'"),
        (Counted, "loss_fn changes 'rounds' of itself"),
        (Halved, "changes the number 'beta'"),
        (Assigning, "loss_fn changes 'weights' of itself"),
        (Writing, "writes to"),
        (Drawing, "draws numbers from 'drawn'"),
    ],
)
def test_one_that_does_not_is_refused(kind: type[Weighed], what: str) -> None:
    with pytest.raises(InvalidModelError, match=what):
        compiled(nn.Linear(6, 5), kind())


def _normed(*, evaluated: bool) -> nn.Module:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8, momentum=None), nn.Linear(8, 5))
    return model.eval() if evaluated else model


def _evaluating(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    model.eval()
    loss = functional.cross_entropy(model(x), y)
    model.train()
    return loss


def _distilling(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    model.eval()
    with torch.no_grad():
        target = model(x).softmax(1)
    model.train()
    made = model(x)
    return functional.cross_entropy(made, y) + functional.cross_entropy(made, target)


def _training(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    model.train()
    return functional.cross_entropy(model(x), y)


@pytest.mark.parametrize(("loss_fn", "evaluated"), [(_evaluating, False), (_distilling, False), (_training, True)])
def test_a_loss_may_change_the_mode_of_layers_that_average(loss_fn: Callable[..., Tensor], evaluated: bool) -> None:
    model = _normed(evaluated=evaluated)
    step = compiled(model, loss_fn)
    losses = [float(step(X, Y)) for _ in range(5)]
    other = _normed(evaluated=evaluated)
    assert losses == pytest.approx(eager_losses(other, loss_fn, 5), rel=2e-6)
    step.sync_to(model)
    for name, tensor in other.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], tensor, rtol=1e-5, atol=1e-6)


DIAGONALS: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda made: -(made @ made.t()).log_softmax(1).diagonal().mean(),
    lambda made: made[:5].diagonal(1).pow(2).sum() + made.diagonal(-2).exp().sum(),
    lambda made: torch.diag(made[0]).pow(2).sum() + torch.diag(made[:5], -1).sum(),
    lambda made: torch.diagonal_scatter(made, made[:5, 0]).pow(2).sum(),
    lambda made: made.reshape(2, 4, 5).diagonal(1, 2, 1).pow(2).sum(),
)


def test_diagonals_have_gradients() -> None:
    """Each of a layer of its own."""

    def loss_fn(model: Any, x: Tensor, _: Tensor) -> Tensor:
        made = [code(layer(x)) for code, layer in zip(DIAGONALS, model, strict=True)]
        return torch.stack(made).sum()

    torch.manual_seed(0)
    model = nn.ModuleList([nn.Linear(6, 5) for _ in DIAGONALS])
    eager, step = deepcopy(model), compiled(model, loss_fn)
    losses = [float(step(X, Y)) for _ in range(3)]
    assert losses == pytest.approx(eager_losses(eager, loss_fn, 3), rel=1e-5)
    learnt = step.state_dict()["tensors"]
    for name, parameter in eager.named_parameters():
        torch.testing.assert_close(
            learnt[name], parameter.detach(), rtol=1e-5, atol=1e-6, msg=lambda told, name=name: f"{name}: {told}"
        )
