# pyright: reportUnknownMemberType=false
"""Custom operators that look at how their arguments lie in memory, against eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import hetpart
from tests.pytorch.test_kept import EMULATED, Called
from tests.pytorch.test_partition import assert_equal

X = torch.linspace(-1, 1, 96).reshape(4, 6, 4).sin()


@torch.library.custom_op("hetpart_laid::lie", mutates_args=())
def lie(x: Tensor) -> Tensor:
    """Its steps, and what lies at the first places of its memory, as a kernel in C reads it."""
    extent = 1 + sum((size - 1) * step for size, step in zip(x.shape, x.stride(), strict=True))
    shown = torch.zeros(extent, dtype=torch.bool)
    shown[torch.arange(extent).as_strided(x.shape, x.stride()).reshape(-1)] = True
    memory = torch.where(shown, x.as_strided((extent,), (1,)).abs(), torch.zeros(()))
    return torch.cat([torch.tensor(x.stride()).float(), memory.cumsum(0)[-8:], memory[:8]])


@lie.register_fake
def _(x: Tensor) -> Tensor:
    return x.new_empty(x.dim() + 16, dtype=torch.float32)


@torch.library.custom_op("hetpart_laid::numbered", mutates_args=("x",))
def numbered(x: Tensor) -> None:
    """Written to in the order of its memory."""
    x.as_strided((x.numel(),), (1,)).add_(torch.arange(x.numel()))


@numbered.register_fake
def _(_x: Tensor) -> None:
    return None


@torch.library.custom_op("hetpart_laid::turned", mutates_args=())
def turned(x: Tensor) -> Tensor:
    """Its result lies otherwise than in order, as its fake says."""
    return x.transpose(0, 1).clone(memory_format=torch.contiguous_format).transpose(0, 1)


@turned.register_fake
def _(x: Tensor) -> Tensor:
    return x.transpose(0, 1).new_empty((x.shape[1], x.shape[0], *x.shape[2:])).transpose(0, 1)


def _written_to(x: Tensor) -> Tensor:
    y = (x * 2).transpose(0, 1)
    numbered(y)
    return y + 1


CODE: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: lie(x * 2),
    "transposed": lambda x: lie((x * 2).transpose(0, 2)),
    "permuted": lambda x: lie((x * 2).permute(1, 2, 0)),
    "channels last": lambda x: lie((x * 2)[None].contiguous(memory_format=torch.channels_last)),
    "with gaps": lambda x: lie((x * 2)[:, :, :3]),
    "every other": lambda x: lie((x * 2)[::2].transpose(0, 1)),
    "expanded": lambda x: lie((x * 2)[:, :1].expand(4, 5, 4)),
    "windows": lambda x: lie((x * 2).reshape(-1).unfold(0, 3, 1)),
    "complex": lambda x: lie(torch.complex(x, x * 2).transpose(0, 1)),
    "an argument": lambda x: lie(x.transpose(0, 1)),
    "its own result": lambda x: lie(turned(x * 2)),
    "both ways": lambda x: lie((x * 2).transpose(0, 1)) + lie(x * 2),
    "written to": _written_to,
    "in a branch": lambda x: torch.cond(x.sum() > 99, lambda y: lie(y), lambda y: lie(y.transpose(0, 1)), (x * 2,)),
}


@pytest.mark.parametrize("name", CODE)
@pytest.mark.parametrize("placement", ["all-cpu", "random:1"])
def test_an_operator_finds_the_memory_that_it_finds_in_eager_code(name: str, placement: str) -> None:
    module = Called(CODE[name])
    planned = hetpart.partition(module, args=(X,), hardware=EMULATED, placement=placement)
    assert_equal(planned.to_module(emulate=True)(X), module(X))


@pytest.mark.parametrize("name", CODE)
def test_so_it_does_where_it_is_compiled(name: str) -> None:
    torch._dynamo.reset()
    module = Called(CODE[name])
    with torch.no_grad():
        compiled = torch.compile(module, backend="hetpart", options={"hardware": EMULATED, "emulate": True})
        assert_equal(compiled(X), module(X))


@pytest.mark.parametrize("name", ["transposed", "permuted", "with gaps", "its own result", "written to"])
def test_steps_follow_sizes_that_are_open(name: str) -> None:
    module = Called(CODE[name])
    planned = hetpart.partition(
        module, args=(X,), dynamic_shapes=(({0: "a", 1: "b"},),), shape="a=?,b=?", hardware=EMULATED
    )
    run = planned.to_module(emulate=True)
    for x in (X, torch.linspace(-1, 1, 140).reshape(7, 5, 4)):
        assert_equal(run(x), module(x))


def test_operators_of_pytorch_are_told_nothing() -> None:
    planned = hetpart.partition(
        Called(lambda x: torch.linalg.eigvalsh((x @ x.mT).mT)), args=(X,), hardware=EMULATED, placement="all-cpu"
    )
    assert_equal(planned.to_module(emulate=True)(X), torch.linalg.eigvalsh((X @ X.mT).mT))
