# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
"""What a step draws follows the law that eager PyTorch draws by, and its seed tells which numbers come."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import ks_2samp
from torch import Tensor, nn
from torch.nn import functional

from hetpart.training import SGD
from hetpart.training.capture import exported_loss
from hetpart.training.compiled import Running, capture, place
from hetpart.training.gradients import gradients_of
from hetpart.training.step import Step

SHAPE = (200, 100)
PLACES = torch.linspace(0.1, 0.9, math.prod(SHAPE)).reshape(SHAPE)
KINDS: dict[str, Callable[[Tensor], Tensor]] = {
    "rand": lambda _: torch.rand(SHAPE),
    "rand_like": torch.rand_like,
    "randn": lambda _: torch.randn(SHAPE),
    "randn_like": torch.randn_like,
    "randn in float64": lambda _: torch.randn(SHAPE, dtype=torch.float64).float(),
    "uniform_": lambda x: torch.empty_like(x).uniform_(-3, 2),
    "uniform_, turned": lambda x: torch.empty_like(x.t()).uniform_(-3, 2).t(),
    "uniform_, in a part": lambda _: torch.cat([torch.zeros(SHAPE), torch.zeros(SHAPE)])[: SHAPE[0]].uniform_(2, 3),
    "normal_": lambda x: torch.empty_like(x).normal_(1.0, 3.0),
    "normal of numbers": lambda _: torch.normal(-1.0, 0.5, SHAPE),
    "normal of means": lambda x: torch.normal(x, 0.5),
    "normal of deviations": lambda x: torch.normal(2.0, x),
    "normal of both": lambda x: torch.normal(x, 2 * x),
    "exponential_": lambda x: torch.empty_like(x).exponential_(2.0),
    "log_normal_": lambda x: torch.empty_like(x).log_normal_(0.5, 0.7),
    "cauchy_": lambda x: torch.empty_like(x).cauchy_(1.0, 2.0),
    "geometric_": lambda x: torch.empty_like(x).geometric_(0.3),
    "random_": lambda x: torch.empty_like(x).random_(9),
    "randint": lambda _: torch.randint(9, SHAPE).float(),
    "randint from": lambda _: torch.randint(-3, 9, SHAPE).float(),
    "randint_like": lambda x: torch.randint_like(x, 5),
    "randint_like from": lambda x: torch.randint_like(x, 2, 5),
    "randperm": lambda x: torch.randperm(x.numel()).float().reshape(SHAPE),
    "bernoulli": torch.bernoulli,
    "bernoulli_ of tensors": lambda x: torch.empty_like(x).bernoulli_(x[0] * 0.5),
    "bernoulli out": lambda x: torch.bernoulli(x, out=torch.empty_like(x)),
    "rand out": lambda x: torch.rand(SHAPE, out=torch.empty_like(x)),
    "randint out": lambda x: torch.randint(2, 9, SHAPE, out=torch.empty_like(x, dtype=torch.int64)).float(),
    "normal of means, out": lambda x: torch.normal(x, 0.5, out=torch.empty_like(x)),
    "random_ from": lambda x: torch.empty_like(x).random_(-3, 9),
    "randint_like, of what is trained": lambda x: torch.randint_like(x * torch.ones((), requires_grad=True), 5),
    "random_ of any": lambda x: torch.empty_like(x).random_(),
    "dirichlet": lambda x: torch._sample_dirichlet(torch.stack([x, 2 * x], -1))[..., 0],
    "poisson": lambda x: torch.poisson(5 * x),
    "gamma": lambda x: torch._standard_gamma(x + 1),
    "RReLU": lambda x: functional.rrelu(x - 0.5, training=True),
    "RReLU in place": lambda x: functional.rrelu(x - 0.5, 0.2, 0.4, training=True, inplace=True),
    "Gumbel": lambda x: -torch.empty_like(x).exponential_().log(),
}


class Weighing(nn.Module):
    """Weights of what is drawn: their gradient shows it."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.weight, self.draw = nn.Parameter(torch.ones(SHAPE)), KINDS[kind]

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * self.draw(x)


def summed(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).sum()


def drawer(kind: str) -> Callable[[int, int], Tensor]:
    """What a step draws, by its seed and the number of the call."""
    made = gradients_of(exported_loss(Weighing(kind), summed, (PLACES,)))
    returned: Any = made.graph.graph.output_node().args[0]
    place_of = list(returned).index(made.gradients["weight"])

    def draws(seed: int, call: int) -> Tensor:
        told = torch.tensor([seed, call])
        return made.graph(*(told if part.content is None else part.content for part in made.inputs))[place_of]

    return draws


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_and_the_call_tell_what_is_drawn_by_eager_pytorchs_law(kind: str) -> None:
    draws = drawer(kind)
    found = draws(7, 1)
    assert torch.equal(draws(7, 1), found)
    assert not torch.equal(draws(7, 2), found)
    assert not torch.equal(draws(8, 1), found)
    torch.manual_seed(0)
    wanted = KINDS[kind](PLACES.clone())
    assert found.dtype == wanted.dtype
    assert ks_2samp(found.flatten().numpy(), wanted.flatten().numpy()).pvalue > 1e-3
    for axis in (0, 1):  # numbers of one row or column are those of no other
        assert ks_2samp(found.mean(axis).numpy(), wanted.mean(axis).numpy()).pvalue > 1e-3


def test_draws_of_one_call_are_apart() -> None:
    both = Weighing("randn")
    both.draw = lambda _: torch.randn(SHAPE) * 1000 + torch.randn(SHAPE)
    made = gradients_of(exported_loss(both, summed, (PLACES,)))
    found = made.graph(*(torch.tensor([3, 1]) if part.content is None else part.content for part in made.inputs))[1]
    assert found.std().item() == pytest.approx(1000, rel=0.02)
    assert not torch.allclose(found / 1001, found.round(decimals=-3) / 1000, atol=1e-3)


def test_a_dropout_that_is_told_not_to_train_keeps_all() -> None:
    model = Weighing("randn")
    model.draw = lambda x: torch.native_dropout(x, 0.5, False)[0]
    made = gradients_of(exported_loss(model, summed, (PLACES,)))
    assert [part.name for part in made.inputs if part.content is None] == []
    torch.testing.assert_close(made.graph(*(part.content for part in made.inputs))[1], PLACES)


@pytest.mark.parametrize("inplace", [False, True])
def test_the_slope_of_an_rrelu_is_what_it_multiplied_by(inplace: bool) -> None:
    model = Weighing("randn")
    model.forward = lambda x: functional.rrelu(model.weight * (x - 0.5), training=True, inplace=inplace)
    made = gradients_of(exported_loss(model, summed, (PLACES,)))
    loss, gradient = made.graph(*(torch.tensor([3, 1]) if p.content is None else p.content for p in made.inputs))
    x = PLACES - 0.5
    slopes = torch.where(x == 0, 0.2, gradient / x)
    torch.testing.assert_close(slopes[x > 0], torch.ones_like(slopes[x > 0]))
    assert ((slopes[x < 0] > 1 / 8 - 1e-4) & (slopes[x < 0] < 1 / 3 + 1e-4)).all()
    assert slopes[x < 0].mean().item() == pytest.approx((1 / 8 + 1 / 3) / 2, abs=0.005)
    torch.testing.assert_close(loss, gradient.sum())  # of weights of 1


class Noisy(nn.Module):
    """A variational layer under noise, slopes by chance, and rows by chance, dropped out twice."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mean, self.spread = nn.Linear(6, 8), nn.Linear(6, 8)
        self.drop = nn.Sequential(nn.RReLU(), nn.Dropout(0.2), nn.Dropout(0.1))

    def forward(self, x: Tensor) -> Tensor:
        mean, spread = self.mean(x), self.spread(x)
        drawn = mean + (0.5 * spread).exp() * torch.randn_like(mean)
        rows = self.drop(drawn + 0.1 * torch.rand(8))[torch.randperm(len(x))]
        return rows * functional.gumbel_softmax(torch.arange(16.0).reshape(16, 1), dim=0)


def squared(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).square().mean()


def placed(seed: int) -> Step:
    made = capture(Noisy(), squared, optimizer=SGD(0.05), example_batch=(torch.ones(16, 6),))
    running = Running(emulate=True, threads=1)
    return place(made, running=running, hardware="emulated", placement="random:1", seed=seed)


def test_a_step_that_draws_goes_on_bit_for_bit(tmp_path: Path) -> None:
    x, first = torch.ones(16, 6), placed(7)
    losses = [first(x).item() for _ in range(6)]
    assert len(set(losses)) == len(losses)
    second = placed(7)
    assert [second(x).item() for _ in range(3)] == losses[:3]
    second.save_checkpoint(str(tmp_path))
    third = placed(8)
    assert third(x).item() != losses[0]
    third.load_checkpoint(str(tmp_path))
    assert [third(x).item() for _ in range(3)] == losses[3:]
