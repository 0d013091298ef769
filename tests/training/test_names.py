# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Whatever a model calls what it holds, a step trains it as eager PyTorch does.

Arguments of a step have names of their own, the exporter makes large letters small, and dots become underscores.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import hetpart.training
from hetpart.training import SGD, AdamW, Momentum

STEPS = 4


class Called(nn.Module):
    """A layer and a parameter or buffer beside it, of any name."""

    def __init__(self, name: str, held: Tensor, *, buffer: bool = False, layer: str = "layer") -> None:
        super().__init__()
        self.add_module(layer, nn.Linear(6, 3))
        self.register_buffer(name, held) if buffer else self.register_parameter(name, nn.Parameter(held))
        self.names, self.dropout = (name, layer), nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        name, layer = self.names
        held: Any = getattr(self, name)
        made = getattr(self, layer)(self.dropout(x)) * (1 + 0.1 * held.sum())
        if name in dict(self.named_buffers()):
            held.add_(1)
        return made


class Scaled(nn.Module):
    """Its loss is a module with a parameter called scale."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.loss = nn.Linear(6, 3), Called("scale", torch.tensor(0.25), layer="head")
        self.loss.head = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.loss(self.layer(x))


class Listed(nn.Module):
    """fc.1.weight and fc_1.weight, W.weight and w.weight."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])
        self.fc_1, self.W, self.w = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.batch = nn.ParameterList([torch.ones(6)])
        self.LayerNorm = nn.LayerNorm(6)

    def forward(self, x: Tensor) -> Tensor:
        made = self.fc_1(self.fc[1](self.fc[0](x * self.batch[0])))
        return self.w(self.LayerNorm(self.W(made)))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "a parameter loss_scale": lambda: Called("loss_scale", torch.tensor(0.25)),
    "a buffer loss_scale": lambda: Called("loss_scale", torch.tensor(1.0), buffer=True),
    "a parameter seed": lambda: Called("seed", torch.tensor([0.25, 0.5])),
    "a buffer seed": lambda: Called("seed", torch.zeros(2, dtype=torch.int64), buffer=True),
    "a parameter progress": lambda: Called("progress", torch.ones(4, dtype=torch.float64) / 8),
    "a parameter self": lambda: Called("Self", torch.ones(2)),
    "a state of another parameter": lambda: Called("momentum_layer_weight", torch.ones(2)),
    "loss.scale": Scaled,
    "large letters and underscores": Listed,
    "a name that is not ASCII": lambda: Called("größe", torch.ones(2), layer="Schicht"),
}


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("optimizer", [SGD(lr=0.1), Momentum(lr=0.1), AdamW(lr=0.01)], ids=lambda o: type(o).__name__)
@pytest.mark.parametrize("name", MODELS)
def test_losses_and_parameters_are_eagers(name: str, optimizer: Any, accumulate: int) -> None:
    torch.manual_seed(0)
    model, x, y = MODELS[name](), torch.randn(5, 6), torch.randn(5, 3)
    eager, trained = copy.deepcopy(model), copy.deepcopy(model)
    parameters = [*eager.parameters()]
    reference: torch.optim.Optimizer = {
        "SGD": lambda: torch.optim.SGD(parameters, lr=0.1),
        "Momentum": lambda: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
        "AdamW": lambda: torch.optim.AdamW(parameters, lr=0.01),
    }[type(optimizer).__name__]()

    step = hetpart.training.compile(
        model, functional_loss, optimizer=optimizer, example_batch=(x, y), accumulate=accumulate, emulate=True,
        hardware="emulated", placement="random:1",
    )  # fmt: skip
    for call in range(STEPS * accumulate):
        loss = functional_loss(eager, x, y)
        (loss / accumulate).backward()
        if call % accumulate == accumulate - 1:
            reference.step()
            reference.zero_grad()
        assert step(x, y).item() == pytest.approx(loss.item(), rel=1e-5)
    step.sync_to(trained)
    for key, expected in eager.state_dict().items():
        torch.testing.assert_close(trained.state_dict()[key], expected, rtol=1e-5, atol=1e-6)


def functional_loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return functional.mse_loss(model(x).float(), y)


def test_a_buffer_called_seed_is_none_of_a_dropouts() -> None:
    model = Called("seed", torch.zeros(2, dtype=torch.int64), buffer=True)
    model.dropout.p = 0.5
    x, y = torch.randn(5, 6), torch.randn(5, 3)
    step = hetpart.training.compile(
        model, functional_loss, optimizer=SGD(lr=0.1), example_batch=(x, y), emulate=True, hardware="emulated"
    )
    step(x, y)
    step(x, y)
    assert step.state_dict()["tensors"]["seed"].tolist() == [2, 2]


def test_no_op_has_a_line_of_what_calls_the_loss() -> None:
    """PyTorch notes the lines of ``forward`` alone: of a loss function's own ops none is known."""
    step = hetpart.training.compile(
        nn.Sequential(nn.Linear(6, 3)), lambda model, x: model(x).square().mean(), optimizer=SGD(0.1),
        example_batch=(torch.randn(4, 6),), budget="1GB", emulate=True, hardware="emulated",
    )  # fmt: skip
    lines = {decision.line for decision in step.plan.decisions}
    assert any(line.endswith(" in forward") for line in lines)
    assert not any("criterion.py" in line for line in lines)
