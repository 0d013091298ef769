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
Held = dict[str, Tensor]


class Called(nn.Module):
    """Layers, and parameters and buffers beside them, of any names."""

    def __init__(self, parameters: Held, buffers: Held, layers: dict[str, nn.Module]) -> None:
        super().__init__()
        for name, held in parameters.items():
            self.register_parameter(name, nn.Parameter(held))
        for name, held in buffers.items():
            self.register_buffer(name, held)
        for name, layer in layers.items():
            self.add_module(name, layer)
        self.layers, self.factors, self.counts = (*layers,), (*parameters, *buffers), (*buffers,)
        self.dropout = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        made = self.dropout(x)
        for name in self.layers:
            made = self.get_submodule(name)(made)
        for name in self.factors:
            factor: Any = getattr(self, name)
            made = made * (1 + 0.1 * factor.sum())
        for name in self.counts:
            self.get_buffer(name).add_(1)
        return made


class Listed(nn.Module):
    """fc.1.weight and fc_1.weight, W.weight and w.weight, and loss.scale."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])
        self.fc_1, self.W, self.w = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.batch = nn.ParameterList([torch.ones(6)])
        self.LayerNorm = nn.LayerNorm(6)
        self.loss = Called({"scale": torch.tensor(0.25)}, {}, {"head": nn.Linear(3, 3)})

    def forward(self, x: Tensor) -> Tensor:
        made = self.fc_1(self.fc[1](self.fc[0](x * self.batch[0])))
        return self.loss(self.w(self.LayerNorm(self.W(made))))


def parameters() -> Called:
    """Called as inputs of a step are, as a state of another parameter, in large letters, and not in ASCII."""
    named = {
        "loss_scale": torch.tensor(0.25), "seed": torch.tensor([0.25, 0.5]),
        "progress": torch.ones(4, dtype=torch.float64) / 8, "Self": torch.ones(2) / 8,
        "momentum_layer_weight": torch.ones(2) / 8, "größe": torch.ones(2) / 8,
    }  # fmt: skip
    return Called(named, {}, {"Schicht": nn.Linear(6, 6), "layer": nn.Linear(6, 3)})


def buffers() -> Called:
    counts = {"loss_scale": torch.tensor(1.0), "seed": torch.zeros(2, dtype=torch.int64)}
    return Called({}, counts, {"layer": nn.Linear(6, 3)})


@pytest.mark.parametrize(
    ("build", "optimizer", "accumulate"),
    [
        (parameters, SGD(lr=0.1), 1), (parameters, Momentum(lr=0.1), 2), (parameters, AdamW(lr=0.01), 1),
        (buffers, SGD(lr=0.1), 2), (buffers, Momentum(lr=0.1), 1), (buffers, AdamW(lr=0.01), 2),
        (Listed, SGD(lr=0.1), 1), (Listed, Momentum(lr=0.1), 2), (Listed, AdamW(lr=0.01), 1),
    ],
    ids=lambda given: getattr(given, "__name__", None) or (type(given).__name__ if given not in (1, 2) else None),
)  # fmt: skip
def test_losses_and_parameters_are_eagers(build: Callable[[], nn.Module], optimizer: Any, accumulate: int) -> None:
    torch.manual_seed(0)
    model, x, y = build(), torch.randn(5, 6), torch.randn(5, 3)
    eager, trained = copy.deepcopy(model), copy.deepcopy(model)
    learnt = [*eager.parameters()]
    reference: torch.optim.Optimizer = {
        "SGD": lambda: torch.optim.SGD(learnt, lr=0.1),
        "Momentum": lambda: torch.optim.SGD(learnt, lr=0.1, momentum=0.9),
        "AdamW": lambda: torch.optim.AdamW(learnt, lr=0.01),
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
        torch.testing.assert_close(
            trained.state_dict()[key], expected, rtol=1e-5, atol=1e-6, msg=lambda told, key=key: f"{key}: {told}"
        )


def functional_loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return functional.mse_loss(model(x).float(), y)


def test_a_buffer_called_seed_is_none_of_a_dropouts() -> None:
    model = buffers()
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
