# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Every optimizer inside one compiled step, of a layer or a table of its own: as PyTorch's, and as the paper has it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.by_hand import ftrl
from hetpart.training import (
    FTRL,
    SGD,
    Adagrad,
    Adam,
    AdamW,
    Group,
    Groups,
    LazyAdam,
    Momentum,
    SparseAdagrad,
    SparseFTRL,
    SparseSGD,
)
from hetpart.training.compiled import CapturedStep, Running, capture, place, planned_step
from hetpart.training.rules import Rules

ROWS, WIDTH, STEPS = 30, 6, 60
TABLES = ("lazy_adam", "adagrad", "ftrl", "sgd")
LAYERS = ("adam", "adagrad", "ftrl", "momentum", "sgd", "adamw")


class Many(nn.Module):
    """Layers one behind the other, and tables whose rows are added up."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleDict({name: nn.Embedding(ROWS, WIDTH, sparse=name != "ftrl") for name in TABLES})
        self.layers = nn.ModuleDict({name: nn.Linear(WIDTH, WIDTH) for name in LAYERS})
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, ids: Tensor) -> Tensor:
        x = torch.stack([table(ids[:, place]) for place, table in enumerate(self.tables.values())]).sum(0)
        for layer in self.layers.values():
            x = x + torch.tanh(layer(x))
        return self.head(x).squeeze(1)


def loss_of(model: nn.Module, ids: Tensor, label: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(model(ids), label)


def batch_of(number: int) -> tuple[Tensor, Tensor]:
    drawn = torch.Generator().manual_seed(number % 5)
    ids = torch.randint(0, ROWS, (8, len(TABLES)), generator=drawn)
    return ids, (ids.sum(1) % 2).float()


def small(name: str, parameter: Tensor) -> bool:
    return "adamw" in name and parameter.ndim < 2


RULES = Groups(
    SGD(0.05),
    (
        Group(small, AdamW(1e-2, weight_decay=0.3), lr=3e-3, weight_decay=0.0),
        Group("layers.adamw.*", AdamW(1e-2, weight_decay=0.3)),
        Group("layers.adam.*", Adam(1e-2, beta1=0.8, weight_decay=0.1)),
        Group("layers.adagrad.*", Adagrad(2e-2, lr_decay=0.01, weight_decay=0.1, initial_accumulator=0.2)),
        Group("layers.ftrl.*", FTRL(0.1, beta=0.5, l1=1e-3, l2=1e-2, initial_accumulator=0.1)),
        Group("layers.momentum.*", Momentum(0.05, momentum=0.8, dampening=0.1, weight_decay=0.05)),
        Group(("layers.sgd.weight", "layers.sgd.bias"), weight_decay=0.2),
        Group("tables.lazy_adam.*", LazyAdam(1e-2, beta2=0.99)),
        Group("tables.adagrad.*", SparseAdagrad(5e-2, initial_accumulator=0.1)),
        Group("tables.ftrl.*", SparseFTRL(0.1, beta=1.0, l1=1e-3, l2=1e-2, initial_accumulator=0.1)),
        Group("tables.sgd.*", SparseSGD(0.1)),
    ),
)


def torchs(model: nn.Module) -> Iterator[torch.optim.Optimizer]:
    """PyTorch's own optimizers of what it has, with gradients of rows where those are of rows."""

    def of(module: str) -> list[nn.Parameter]:
        return list(model.get_submodule(module).parameters())

    adamw: Any = model.get_submodule("layers.adamw")
    decays = [{"params": [adamw.weight]}, {"params": [adamw.bias], "lr": 3e-3, "weight_decay": 0.0}]
    yield torch.optim.AdamW(decays, lr=1e-2, weight_decay=0.3)
    yield torch.optim.Adam(of("layers.adam"), lr=1e-2, betas=(0.8, 0.999), weight_decay=0.1)
    adagrad = {"lr_decay": 0.01, "weight_decay": 0.1, "initial_accumulator_value": 0.2}
    yield torch.optim.Adagrad(of("layers.adagrad"), lr=2e-2, **adagrad)
    yield torch.optim.SGD(of("layers.momentum"), lr=0.05, momentum=0.8, dampening=0.1, weight_decay=0.05)
    yield torch.optim.SGD(of("layers.sgd"), lr=0.05, weight_decay=0.2)
    yield torch.optim.SGD(of("head"), lr=0.05)
    yield torch.optim.SparseAdam(of("tables.lazy_adam"), lr=1e-2, betas=(0.9, 0.99))
    yield torch.optim.Adagrad(of("tables.adagrad"), lr=5e-2, initial_accumulator_value=0.1)
    yield torch.optim.SGD(of("tables.sgd"), lr=0.1)


class Proximal:
    """The paper's formula, of whole layers or of the rows of a table that have a gradient."""

    def __init__(self, parameters: Sequence[nn.Parameter], beta: float, *, rows: bool) -> None:
        self._parameters, self._rows = parameters, rows
        self._rule = ftrl(0.1, 1e-3, 1e-2, accumulator=0.1, beta=beta)
        self._states: list[dict[str, Tensor]] = [{} for _ in parameters]

    @torch.no_grad()
    def step(self) -> None:
        for parameter, state in zip(self._parameters, self._states, strict=True):
            assert parameter.grad is not None
            touched = parameter.grad.ne(0).any(1, keepdim=True) if self._rows else torch.tensor(True)
            before = dict(state)
            made = self._rule(parameter, parameter.grad, state, 1)
            parameter.copy_(torch.where(touched, made, parameter))
            state.update({key: torch.where(touched, state[key], kept) for key, kept in before.items()})


def eager_losses(model: nn.Module) -> list[float]:
    optimizers: list[Any] = [
        *torchs(model),
        Proximal(list(model.get_submodule("layers.ftrl").parameters()), 0.5, rows=False),
        Proximal(list(model.get_submodule("tables.ftrl").parameters()), 1.0, rows=True),
    ]
    losses: list[float] = []
    for number in range(STEPS):
        model.zero_grad()
        loss = loss_of(model, *batch_of(number))
        loss.backward()
        with torch.sparse.check_sparse_tensor_invariants():
            for optimizer in optimizers:
                optimizer.step()
        losses.append(loss.item())
    return losses


@cache
def model_of() -> Many:
    torch.manual_seed(1)
    return Many()


@cache
def captured() -> CapturedStep:
    return capture(model_of(), loss_of, optimizer=RULES, example_batch=batch_of(0))


@pytest.mark.parametrize("placement", ["all-accelerator", "random:1", "random:3"])
def test_every_optimizer_is_pytorchs_or_the_papers(placement: str) -> None:
    eager, ours = copy.deepcopy(model_of()), copy.deepcopy(model_of())
    running = Running(emulate=True, threads=1, overlap=placement == "random:3")
    step = place(captured(), running=running, hardware="emulated", placement=placement)
    assert [step(*batch_of(number)).item() for number in range(STEPS)] == pytest.approx(eager_losses(eager), rel=1e-5)
    step.sync_to(ours)
    for (name, mine), theirs in zip(ours.named_parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5, msg=name)


def test_every_optimizer_has_an_update_of_its_own_kind() -> None:
    plan = place(captured(), hardware="emulated", placement="all-cpu").plan
    kinds = {decision.op: decision.op_type for decision in plan.decisions if decision.op.startswith("update/")}
    for name in LAYERS:
        assert kinds[f"update/layers.{name}.weight"] == f"hetpart.{name}.default"
    rows = {"lazy_adam": "lazyadam", "adagrad": "sparseadagrad", "ftrl": "sparseftrl", "sgd": "sparsesgd"}
    for name in TABLES:
        assert kinds[f"update/tables.{name}.weight"] == f"hetpart.{rows[name]}.default"


@cache
def wide(rule: Any, half: str | None) -> CapturedStep:
    return capture(
        nn.Linear(2048, 2048), lambda model, x: model(x).square().mean(), optimizer=rule,
        example_batch=(torch.zeros(4, 2048),), rules=Rules(half),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("optimizer", "precision", "threads", "measured"),
    [(FTRL(0.1), None, 1, 2.07), (FTRL(0.1), None, 2, 1.2), (AdamW(), "bf16", 1, 0.90), (AdamW(), "bf16", 2, 0.54)],
)
def test_what_an_update_costs_beside_adamw(
    optimizer: Any, precision: str | None, threads: int, measured: float
) -> None:
    """Nanoseconds of a parameter on an EPYC 9005: fused kernels read and write, the others compute."""

    def seconds(rule: Any, half: str | None) -> float:
        found = planned_step(wide(rule, half), threads=threads, placement="all-cpu", hardware="emulated+epyc-turin")
        return next(one.seconds["cpu"] for one in found.plan.decisions if one.op == "update/weight")

    adamw = {1: 0.56, 2: 0.30}[threads]
    assert seconds(optimizer, precision) / seconds(AdamW(), None) == pytest.approx(measured / adamw, rel=0.3)
