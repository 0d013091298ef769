# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false
"""With ``precision=`` what ``torch.autocast`` runs is trained, close to what it makes of it.

Parameters, which autocast leaves in full precision, are halves here: what an operator of neither list makes of them it
makes in full precision all the same, and it is given one type.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations

import hetpart.training
from hetpart.errors import ExecutionError, InvalidModelError
from hetpart.training import SGD, precision

X, PLACES = torch.linspace(-1, 1, 15).reshape(3, 5), torch.tensor([0, 2, 1])
STEPS = 3


class Used(nn.Module):
    """A parameter, a layer, and the loss of what ``code`` makes of the parameter, the layer's result and ``x``."""

    def __init__(self, code: Callable[[Tensor, Tensor, Tensor], Tensor], *shape: int) -> None:
        super().__init__()
        self.held, self.layer, self.code = nn.Parameter(torch.randn(shape) * 0.5), nn.Linear(5, 5), code

    def forward(self, x: Tensor) -> Tensor:
        return self.code(self.held, self.layer(x), x).float().square().mean()


class Layers(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).float().square().mean()


def _off(p: Tensor, h: Tensor, x: Tensor) -> Tensor:
    with torch.autocast("cpu", enabled=False):
        return functional.linear(x, p) + h.float().exp()


def _cast_off(p: Tensor, h: Tensor, x: Tensor) -> Tensor:
    with torch.autocast("cpu", enabled=False):
        made = functional.layer_norm(h.float(), (5,)) * p
    return made + x


def _off_unrecorded(p: Tensor, h: Tensor, x: Tensor) -> Tensor:
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        scale = h.float().square().mean()
    return h * p / (1 + scale) + x


def _on(p: Tensor, h: Tensor, x: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return functional.linear(h, p) + x


def _written_in_part(p: Tensor, h: Tensor, _: Tensor) -> Tensor:
    z = p.clone()
    z[0] = 0.0
    z[1:].mul_(2.0)
    return h + z


def _written_over(p: Tensor, h: Tensor, _: Tensor) -> Tensor:
    z = torch.stack([p, p])
    z[1].mul_(-1.0)
    z.view(-1).add_(0.5)
    return h + z[0] * z[1]


def _prompted(p: Tensor, h: Tensor, _: Tensor) -> Tensor:
    z = functional.embedding(PLACES, p)
    z[:2] = p[3:]
    return h + z.tanh()


def _seen_before(p: Tensor, h: Tensor, _: Tensor) -> Tensor:
    z = p.clone()
    row = z[1]
    with torch.no_grad():
        z.mul_(3.0)
    return h * row


CODES: dict[str, Callable[[], nn.Module]] = {
    "dot": lambda: Used(lambda p, h, x: torch.dot(p, x[0]) * h, 5),
    "lerp": lambda: Used(lambda p, h, x: torch.lerp(x, p.expand_as(x), 0.3) + h, 5),
    "index_add": lambda: Used(lambda p, h, x: x.index_add(0, PLACES, p) + h, 3, 5),
    "index_put": lambda: Used(lambda p, h, x: x.clone().index_put((PLACES,), p) + h, 3, 5),
    "scatter": lambda: Used(lambda p, h, x: x.scatter(0, PLACES[:, None].expand(3, 5), p) + h, 3, 5),
    "masked_scatter": lambda: Used(lambda p, h, x: x.masked_scatter(x > 0, p) + h, 3, 5),
    "bilinear": lambda: Used(lambda p, h, x: functional.bilinear(x, x, p) + h.sum(), 2, 5, 5),
    "matrix_exp": lambda: Used(lambda p, h, x: torch.linalg.matrix_exp(p) @ (h + x).T, 5, 5),
    "fft": lambda: Used(lambda p, h, x: torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(p), n=5) + h, 5),
    "weights of a bag": lambda: Used(
        lambda p, h, x: functional.embedding_bag(
            PLACES.reshape(3, 1), p, mode="sum", per_sample_weights=x[:, :1].sigmoid()
        ) + h,
        4, 5,
    ),
    "fft of a layer": lambda: Used(lambda p, h, x: torch.fft.rfft(h + p).abs() + x.sum(), 5),
    "sums of a bag": lambda: Used(
        lambda p, h, x: functional.embedding_bag(PLACES.reshape(3, 1).repeat(1, 2), p, mode="sum") + h + x, 4, 5
    ),
    "avg_pool3d": lambda: Used(
        lambda p, h, x: functional.avg_pool3d((h * p).reshape(1, 1, 3, 5, 1), (2, 2, 1)) + x[0, 0], 5
    ),
    "local_response_norm": lambda: Used(
        lambda p, h, x: functional.local_response_norm((h * p).reshape(1, 3, 5, 1), 2).flatten() + x[0, 0], 5
    ),
    "quantile": lambda: Used(lambda p, h, x: h.quantile(0.3, dim=1) * p + x[0, 0], 3),
    "singular values": lambda: Used(lambda p, h, x: torch.linalg.svdvals(h * p) + x[0, 0], 5),
    "a layer where autocast is off": lambda: Used(_off, 5, 5),
    "casts where autocast is off": lambda: Used(_cast_off, 5),
    "autocast off beneath no_grad": lambda: Used(_off_unrecorded, 5),
    "a copy that is written to in part": lambda: Used(_written_in_part, 3, 5),
    "a copy that is written over": lambda: Used(_written_over, 3, 5),
    "rows that are written to": lambda: Used(_prompted, 5, 5),
    "a part of a copy that is written to": lambda: Used(_seen_before, 3, 5),
    "autocast on": lambda: Used(_on, 5, 5),
    "weight_norm": lambda: Layers(parametrizations.weight_norm(nn.Linear(5, 8)), nn.Tanh(), nn.Linear(8, 3)),
    "spectral_norm": lambda: Layers(parametrizations.spectral_norm(nn.Linear(5, 8)), nn.Tanh(), nn.Linear(8, 3)),
    "orthogonal": lambda: Layers(parametrizations.orthogonal(nn.Linear(5, 5)), nn.Tanh(), nn.Linear(5, 3)),
    "cayley": lambda: Layers(parametrizations.orthogonal(nn.Linear(5, 5), orthogonal_map="cayley"), nn.Linear(5, 3)),
}  # fmt: skip


class Together(nn.Module):
    """Some of them, whose losses are added up and kept one by one: one capture is quicker than twenty."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.codes = nn.ModuleList()
        for name in names:
            torch.manual_seed(0)
            self.codes.append(CODES[name]())
        self.register_buffer("losses", torch.zeros(len(names)))

    def forward(self, x: Tensor) -> Tensor:
        losses = torch.stack([code(x) for code in self.codes])
        self.get_buffer("losses").copy_(losses.detach())
        return losses.sum()


Losses = dict[str, list[tuple[float, float]]]
"""Ours and those of eager PyTorch beneath autocast, step by step, of each."""


@pytest.fixture(scope="module")
def losses() -> Losses:
    spectra = [name for name in CODES if "fft" in name]  # beside which the exporter is given all others again and again
    return _losses([name for name in CODES if name not in spectra]) | _losses(spectra)


def _losses(names: list[str]) -> Losses:
    model, found = Together(names), Losses()
    eager = copy.deepcopy(model)
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.05)
    step = _compiled(model)
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss: Any = eager(X)
        loss.backward()
        optimizer.step()
        step(X)
        ours, theirs = step.state_dict()["tensors"]["losses"].tolist(), eager.get_buffer("losses").tolist()
        for name, *pair in zip(names, ours, theirs, strict=True):
            found.setdefault(name, []).append((pair[0], pair[1]))
    step.close()
    return found


@pytest.mark.parametrize("name", CODES)
def test_losses_are_those_beneath_autocast(losses: Losses, name: str) -> None:
    assert len(losses[name]) == STEPS
    for ours, theirs in losses[name]:
        assert ours == pytest.approx(theirs, rel=0.03)


def test_float16_runs_too() -> None:
    names = ("weight_norm", "orthogonal", "fft", "index_add", "local_response_norm", "quantile")
    model = Together(names)
    with torch.no_grad():
        expected = {name: code(X).item() for name, code in zip(names, model.codes, strict=True)}
    step = hetpart.training.compile(
        model, lambda net, x: net(x), optimizer=SGD(lr=0.05), example_batch=(X,), precision="fp16", loss_scale=128.0,
        emulate=True, hardware="emulated",
    )  # fmt: skip
    step(X)
    found = dict(zip(names, step.state_dict()["tensors"]["losses"].tolist(), strict=True))
    assert found == pytest.approx(expected, rel=5e-3)
    step(X)
    assert step.steps == 2


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_weights_of_a_length_are_trained_in_a_model_of_halves(half: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(parametrizations.weight_norm(nn.Linear(5, 8)), nn.Tanh(), nn.Linear(8, 3)).to(half)
    eager, x = copy.deepcopy(model), X.to(half)
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.05)
    step = hetpart.training.compile(
        model, lambda net, x: net(x).float().square().mean(), optimizer=SGD(lr=0.05), example_batch=(x,), emulate=True,
        hardware="emulated",
    )  # fmt: skip
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = eager(x).float().square().mean()
        loss.backward()
        optimizer.step()
        assert step(x).item() == pytest.approx(loss.item(), rel=0.02)


def test_sums_of_a_bag_are_trained_in_a_model_of_bfloat16() -> None:
    torch.manual_seed(0)
    model, ids = nn.EmbeddingBag(9, 16, mode="sum").to(torch.bfloat16), torch.arange(8).reshape(4, 2)
    eager = copy.deepcopy(model)
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.05)
    step = hetpart.training.compile(
        model, lambda net, ids: net(ids).float().square().mean(), optimizer=SGD(lr=0.05), example_batch=(ids,),
        emulate=True, hardware="emulated",
    )  # fmt: skip
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = eager(ids).float().square().mean()
        loss.backward()
        optimizer.step()
        assert step(ids).item() == pytest.approx(loss.item(), rel=0.02)


class Looked(nn.Module):
    """What it divides by is computed beneath ``no_grad``, of what the first layer gives; the last has no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.still = nn.Linear(5, 5), nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        made = self.layer(x)
        with torch.no_grad():
            scale = 1 + made.float().abs().mean() + self.still(x).float().square().mean()
        return (made / scale).float().square().mean()


@pytest.mark.parametrize("precision", [None, "bf16", "fp16"])
def test_layers_are_trained_that_no_grad_looks_at(precision: str | None) -> None:
    torch.manual_seed(0)
    model = Looked()
    eager = copy.deepcopy(model)
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.5)
    step = hetpart.training.compile(
        model, lambda net, x: net(x), optimizer=SGD(lr=0.5), example_batch=(X,), precision=precision, emulate=True,
        hardware="emulated",
    )  # fmt: skip
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = eager(X)
        loss.backward()
        optimizer.step()
        assert step(X).item() == pytest.approx(loss.item(), rel=0.02)
    step.sync_to(model)
    torch.testing.assert_close(dict(model.state_dict()), dict(eager.state_dict()), atol=5e-3, rtol=0.0)


def test_an_operator_that_refuses_halves_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "IN_FULL", precision.IN_FULL - {"quantile"})
    with pytest.raises(InvalidModelError, match="calls aten::quantile") as refused:
        _compiled(CODES["quantile"]())
    assert ".float()" in (refused.value.hint or "")


def test_a_kernel_that_has_no_halves_says_how_to_do_without() -> None:
    step = _compiled(Used(lambda p, h, x: torch.special.hermite_polynomial_h(h.detach(), 2) * p + x, 5))
    with pytest.raises(ExecutionError, match="not implemented for 'BFloat16'") as stopped:
        step(X)
    assert ".float()" in (stopped.value.hint or "")


def _compiled(model: nn.Module) -> hetpart.training.Step:
    return hetpart.training.compile(
        model, lambda net, x: net(x), optimizer=SGD(lr=0.05), example_batch=(X,), precision="bf16", emulate=True,
        hardware="emulated",
    )  # fmt: skip
