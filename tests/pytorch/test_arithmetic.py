# pyright: reportUnknownMemberType=false
"""Python's operators on sizes, and on numbers that data decide: as eager PyTorch computes them, below zero too."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hetpart
from hetpart.dynamo.backend import hetpart as backend
from tests.pytorch.test_partition import assert_equal

EMULATED = "emulated"


def computed(n: Any) -> list[Any]:
    return [
        -(-n // 3), (1 - n) // 2, n // 2, n // -2, n % 3, -n % 3, n % -3, n >> 1, -n >> 1, n << 2, n & 5, -n | 2,
        round(n / 3), math.sqrt(abs(n) + 1), abs(3 - n),
    ]  # fmt: skip


class Sized(nn.Module):
    def forward(self, x: Tensor) -> list[Tensor]:
        size: Any = x.shape[0]
        return [x * number for number in computed(size)] + [x[: -(-size // 3)]]


class Told(nn.Module):
    def forward(self, x: Tensor, n: Tensor) -> list[Tensor]:
        number: Any = n.item()
        return [x * one for one in computed(number)]


class Parts(nn.Module):
    def forward(self, x: Tensor, n: Tensor) -> list[Tensor]:
        number: Any = n.item()
        return [x * (number % 0.7), x * (number // 0.7), x * (number % -0.7)]


def rows(number: int) -> Tensor:
    return torch.arange(2.0 * number).reshape(number, 2) + 1


@pytest.mark.parametrize("size", [7, 1, "?"])
def test_sizes_are_computed_with_as_python_does(size: Any) -> None:
    sizes = {"x": {0: "rows"}}
    planned = hetpart.partition(
        Sized(), args=(rows(4),), dynamic_shapes=sizes, shape={"rows": size}, hardware=EMULATED, placement="random:3"
    ).to_module(emulate=True)
    for number in [2, 7, 8] if size == "?" else [size]:
        assert_equal(planned(rows(number)), Sized()(rows(number)))


def test_sizes_that_differ_from_call_to_call_are() -> None:
    torch.compiler.reset()
    options: Any = {"emulate": True, "placement": "random:3", "hardware": EMULATED}
    run = torch.compile(Sized(), backend=backend, options=options, dynamic=True)
    with torch.no_grad():
        for number in (4, 7, 8):
            assert_equal(run(rows(number)), Sized()(rows(number)))


@pytest.mark.parametrize(
    ("module", "numbers"), [(Told(), (-7, -4, 0, 5)), (Parts(), (-2.5, -0.1, 0.0, 1.5))], ids=["whole", "parts"]
)
def test_numbers_that_data_decide_are(module: nn.Module, numbers: tuple[float, ...]) -> None:
    x = rows(3)
    given = torch.tensor(numbers)
    run = hetpart.partition(module, args=(x, given[0]), hardware=EMULATED, placement="random:3").to_module(emulate=True)
    for number in given:
        assert_equal(run(x, number), module(x, number))


def test_a_number_that_differs_from_call_to_call_is() -> None:
    torch.compiler.reset()
    options: Any = {"emulate": True, "hardware": EMULATED}

    def code(x: Tensor, n: int) -> list[Tensor]:
        return [x * (n // 3), x * (n % 3), x * (-n // 2)]

    run = torch.compile(code, backend=backend, options=options)
    with torch.no_grad():
        for number in (-7, -4, -1, 2):
            assert_equal(run(rows(3), number), code(rows(3), number))
