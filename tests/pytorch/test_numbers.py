"""Arithmetic of sizes and numbers is Python's, whatever sign they have and however they round."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import hetpart

EMULATED = "emulated"
ROWS = {"x": {0: "rows"}}
X = torch.arange(1.0, 301.0).reshape(100, 3)


class OfSizes(nn.Module):
    """Numbers that it scales with, and sizes that it cuts to."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        n = x.shape[0]
        scales: list[Any] = [
            (5 - n) // 2, (5 - n) % 3, n // -2, n % -3, -n // 7, n >> 1, n << 2, n & 6, n | 1, round(n / 3), n / 3,
            n**2, n**0.5, (n + 1) ** -1, max(n, 9), torch.sym_min(n, 9), torch.sym_sum([n, 2, n]), abs(9 - n),
            float(n), n * 0.1 - 1,
        ]  # fmt: skip
        cuts = [-(-n // 3), math.floor(n * 0.29), math.ceil(n * 0.07)]
        return (*(x[0] * scale for scale in scales), *(x[:cut] for cut in cuts))


class OfNumbers(nn.Module):
    """Numbers that data decide."""

    def forward(self, x: Tensor, whole: Tensor, real: Tensor) -> tuple[Tensor, ...]:
        n, r = whole.item(), real.item()
        scales: list[Any] = [
            n // 2, n // -3, n % 3, n % -3, n / 2, int(n / 2), n * n, r // 0.7, r % 0.7, r % -0.7, r // -0.7,
            math.floor(r), math.ceil(r), int(r), round(r), abs(r), n + r, max(n, r), math.sqrt(abs(r)),
        ]  # fmt: skip
        return tuple(x * scale for scale in scales)


def assert_same(made: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    for place, (one, other) in enumerate(zip(made, expected, strict=True)):
        assert one.shape == other.shape, place
        assert torch.allclose(one, other, rtol=1e-6, atol=1e-6), (place, one, other)


@pytest.mark.parametrize("placement", ["optimal", "random:3"])
def test_sizes_that_are_open(placement: str) -> None:
    planned = hetpart.partition(
        OfSizes(), args=(X,), dynamic_shapes=ROWS, shape="rows=?", hardware=EMULATED, placement=placement
    )
    module = planned.to_module(emulate=True)
    for rows in (1, 2, 3, 5, 7, 8, 57, 58, 100):
        assert_same(module(X[:rows]), OfSizes()(X[:rows]))


class Returned(nn.Module):
    """Numbers that are results, and one of them beside a tensor."""

    def forward(self, x: Tensor) -> tuple[Any, ...]:
        n = x.shape[0]
        return x[:1] * (n / 3), n / 3, n * 0.1, math.sqrt(n), (n + 1) / 2, round(n / 3), float(n), n % 7, n * 2


def test_numbers_that_are_returned_have_all_their_digits() -> None:
    x = torch.zeros(100, 1)
    planned = hetpart.partition(Returned(), args=(x,), dynamic_shapes=ROWS, shape="rows=?", hardware=EMULATED)
    module = planned.to_module(emulate=True)
    for rows in (1, 7, 100, 2**24 + 1, 20_000_001):
        given = torch.zeros(rows, 1)
        (scaled, *numbers), (expected, *others) = module(given), Returned()(given)
        assert_same((scaled,), (expected,))
        assert numbers == others
        assert [*map(type, numbers)] == [*map(type, others)]


def test_sizes_that_are_planned() -> None:
    exported = hetpart.export(OfSizes(), args=(X,), dynamic_shapes=ROWS)
    for rows in (1, 7, 8, 58, 100):
        planned = hetpart.partition(exported, shape={"rows": rows}, hardware=EMULATED)
        assert_same(planned.to_module(emulate=True)(X[:rows]), OfSizes()(X[:rows]))


def test_sizes_that_differ_from_call_to_call() -> None:
    torch.compiler.reset()
    options: Any = {"emulate": True, "placement": "random:3", "hardware": EMULATED}
    compiled = torch.compile(OfSizes(), backend="hetpart", options=options, dynamic=True)
    with torch.no_grad():
        for rows in (4, 7, 58, 100):
            assert_same(compiled(X[:rows]), OfSizes()(X[:rows]))


def test_numbers_that_data_decide() -> None:
    args = (X[0], torch.tensor(5), torch.tensor(1.5))
    module = hetpart.partition(OfNumbers(), args=args, hardware=EMULATED, placement="random:3").to_module(emulate=True)
    for whole in (-7, -4, -3, -1, 0, 2, 5, 2**20 + 1):
        for real in (-2.5, -1.0, -0.5, 0.0, 0.5, 1.5, 2.5, 3.7):
            given = (X[0], torch.tensor(whole), torch.tensor(real))
            assert_same(module(*given), OfNumbers()(*given))


def test_an_argument_that_varies() -> None:
    def scaled(x: Tensor, n: int) -> tuple[Tensor, ...]:
        return x * (n // 3), x * (n % 3), x.roll(n, 0)

    torch.compiler.reset()
    compiled = torch.compile(scaled, backend="hetpart", options={"hardware": EMULATED, "emulate": True})
    with torch.no_grad():
        for n in (-7, -4, -1, 2, 5):
            assert_same(compiled(X[:5], n), scaled(X[:5], n))


class Scaled(nn.Module):
    """By every factor."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.mode = mode

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(
            functional.interpolate(x.T[None], scale_factor=by, mode=self.mode) for by in (0.29, 0.07, 1.1, 2.0)
        )


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_sizes_by_a_factor(mode: str) -> None:
    module = Scaled(mode)
    planned = hetpart.partition(module, args=(X,), hardware=EMULATED)
    assert_same(planned.to_module(emulate=True)(X), module(X))
    opened = hetpart.partition(module, args=(X,), dynamic_shapes=ROWS, shape="rows=?", hardware=EMULATED)
    run = opened.to_module(emulate=True)
    for rows in (15, 57, 58, 100):
        assert_same(run(X[:rows]), module(X[:rows]))


class Told(nn.Module):
    """Operators that are told a size where another number is usual."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        n = y.shape[0]
        images, steps, whole = x[None, None], torch.ones(8, 1, 3), (x * 9).to(torch.int32)
        return (
            torch.div(whole, n, rounding_mode="trunc") * 1.0,
            torch.fmod(whole, n) * 1.0,
            x.std(1, correction=n - 1),
            functional.interpolate(images, scale_factor=(n / 3, 1.0), mode="bilinear"),
            functional.conv_transpose1d(x.T[None], steps, stride=n),
        )


@pytest.mark.parametrize("size", [4, 3, 7])
def test_sizes_as_arguments_of_operators(size: int) -> None:
    x, y = torch.arange(32.0).reshape(4, 8).sin(), torch.ones(7)
    sizes = {"x": {}, "y": {0: "rows"}}
    planned = hetpart.partition(
        Told(), args=(x, y[:4]), dynamic_shapes=sizes, shape={"rows": size}, hardware=EMULATED, placement="random:3"
    )
    assert_same(planned.to_module(emulate=True)(x, y[:size]), Told()(x, y[:size]))
