"""Tensors that code gives other memory in place, against eager PyTorch."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hetpart
from hetpart.errors import InvalidModelError
from tests.pytorch.test_kept import EMULATED, ROWS, Called

IMAGES = torch.linspace(-3, 3, 2 * 6 * 3 * 3).sin().reshape(2, 6, 3, 3)


def grown_from_nothing(x: Tensor) -> Tensor:
    made = x.new()
    made.resize_as_(x).copy_(x)
    made.select(1, 0).zero_()
    return made


def grown(x: Tensor) -> Tensor:
    made = x.cos()
    made.resize_(x.shape[0] + 2, 8)
    made[x.shape[0] :] = 1
    made[0].zero_()
    return made


def made_smaller(x: Tensor) -> Tensor:
    made = x.cos()
    made.resize_([2, 8])
    made[1].zero_()
    return made


def in_the_place_of(x: Tensor) -> tuple[Tensor, Tensor]:
    made, other = torch.zeros_like(x), x * 2
    made.data = other
    other.add_(1)
    made.data.mul_(3)
    return made, other


def of_another_shape(x: Tensor) -> Tensor:
    made = x.clone()
    made.data = made.data.t()
    return made.t() * x


class Square(torch.autograd.Function):
    """A function with its own gradient, in the way of PyTorch's first ones."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, by: float) -> Tensor:
        made = x.new()
        torch.pow(x, 2, out=made.resize_as_(x))
        ctx.save_for_backward(x)
        made.select(1, 0).mul_(by)
        return made

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return 2 * ctx.saved_tensors[0] * grad, None


GROWN: dict[str, Callable[..., Any]] = {
    "grown from nothing": grown_from_nothing,
    "grown": grown,
    "made smaller": made_smaller,
    "in the place of": in_the_place_of,
    "of another shape": of_another_shape,
    "in a function with its own gradient": lambda x: Square.apply(x, 0.5),
}


class Keeping(nn.Module):
    """What it adds is of the call before."""

    def __init__(self, *, keeps: Callable[[Tensor, Tensor], object]) -> None:
        super().__init__()
        self.keeps = keeps
        self.register_buffer("kept", torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        made = self.kept + x
        self.keeps(self.kept, x[0])
        return made


def assign(kept: Tensor, row: Tensor) -> None:
    kept.data = row


REFUSED: dict[str, tuple[nn.Module, str]] = {
    "a buffer that is assigned": (Keeping(keeps=assign), "Keeping gives 'kept' other memory"),
    "a buffer that is set": (Keeping(keeps=Tensor.set_), "Keeping gives 'kept' other memory"),
    "an argument": (Called(lambda x: x.resize_(5, 8)[:4] * 1), "gives the argument"),
    "a part of a tensor": (Called(lambda x: x.cos()[:, ::2].resize_(8, 8)), "makes a tensor larger in place"),
}


@pytest.mark.parametrize("name", GROWN)
def test_code_that_gives_tensors_other_memory_does_as_eager_pytorch(name: str) -> None:
    planned = hetpart.partition(Called(GROWN[name]), args=(ROWS,), hardware=EMULATED)
    torch.testing.assert_close(planned.to_module(emulate=True)(ROWS), GROWN[name](ROWS.clone()))


@pytest.mark.parametrize("channels", [2, 6])
@pytest.mark.parametrize("size", [3, 4])
def test_normalisation_across_channels_does_as_eager_pytorch(size: int, channels: int) -> None:
    module, given = nn.CrossMapLRN2d(size, alpha=0.1), IMAGES[:, :channels]
    planned = hetpart.partition(module, args=(given,), hardware=EMULATED)
    torch.testing.assert_close(planned.to_module(emulate=True)(given), module(given))


def test_a_tensor_grows_by_an_open_size() -> None:
    module, more = nn.CrossMapLRN2d(3), torch.cat([IMAGES, IMAGES.cos(), IMAGES])
    exported = hetpart.export(module, args=(IMAGES,), dynamic_shapes=({0: "images"},))
    planned = hetpart.partition(exported, shape={"images": len(more)}, hardware=EMULATED)
    torch.testing.assert_close(planned.to_module(emulate=True)(more), module(more))


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_plan_would_not_change_is_refused(name: str) -> None:
    module, words = REFUSED[name]
    with pytest.raises(InvalidModelError, match=re.escape(words)):
        hetpart.partition(module, args=(ROWS.clone(),), hardware=EMULATED)


def test_a_program_that_grows_a_tensor_asks_for_its_module() -> None:
    program = torch.export.export(Called(grown_from_nothing), (ROWS,))
    with pytest.raises(InvalidModelError, match="makes a tensor larger in place") as refused:
        hetpart.partition(program, hardware=EMULATED)
    assert "give the module" in str(refused.value.hint)
