# pyright: reportUnknownMemberType=false
"""Plans of open sizes, where PyTorch asks how memory lies, against eager PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hetpart
from hetpart.errors import InvalidFeedError
from tests.pytorch.test_kept import EMULATED
from tests.pytorch.test_partition import assert_equal

WIDTH = 8
SIZES = ((2, 7), (1, 7), (3, 1), (1, 1), (4, 5))
"""Of the example, and of calls: one of a kind lies in memory as both ways of laying it out."""


class Turned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x.transpose(0, 1)).transpose(0, 1).relu()


class ChannelsLast(nn.Module):
    """As in ConvNeXt and SegFormer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)
        self.second = nn.Conv1d(WIDTH, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        made = self.first(x[:, :, None].permute(0, 3, 1, 2))
        return self.second(made.permute(0, 2, 3, 1).flatten(1, 2).transpose(1, 2)).relu()


class Attending(nn.Module):
    def __init__(self, *, batch_first: bool) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=batch_first)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class Summed(nn.Module):
    """As in XLNet: products over what lies in another order."""

    def forward(self, x: Tensor) -> Tensor:
        query, key = x.view(*x.shape[:2], 2, 4).permute(1, 0, 2, 3), x.exp().view(*x.shape[:2], 2, 4)
        scores = torch.einsum("i b n d, b j n d -> b n i j", query, key).softmax(-1)
        return torch.einsum("bnij,bjnd->ibnd", scores, key).contiguous().view(x.shape[1], x.shape[0], WIDTH)


class ByHand(nn.Module):
    """Attention as it is written in steps; those of a decoder's one."""

    def forward(self, x: Tensor) -> Tensor:
        heads = x.view(*x.shape[:2], 2, 4).transpose(1, 2)
        scores = (heads @ heads.exp().transpose(2, 3)).softmax(-1)
        return (scores @ heads).transpose(1, 2).contiguous().view(x.shape) + x.sin() @ x.transpose(1, 2) @ x


MODELS = {
    "attention by hand": ByHand(),
    "linear": Turned(),
    "convolution": ChannelsLast(),
    "attention, batches first": Attending(batch_first=True),
    "attention, steps first": Attending(batch_first=False),
    "einsum": Summed(),
}
NEEDED = {"convolution": {"inner0 != 0"}}
"""What eager PyTorch asks of sizes: a window does not fit in no step."""


def given(outer: int, inner: int) -> Tensor:
    return torch.linspace(-2, 2, outer * inner * WIDTH).sin().reshape(outer, inner, WIDTH)


def opened(module: nn.Module, *args: Tensor) -> Any:
    axes = [{0: f"outer{place}", 1: f"inner{place}"} for place in range(len(args))]
    sizes = ",".join(f"{name}=?" for axis in axes for name in axis.values())
    return hetpart.partition(
        module, args=args, dynamic_shapes=tuple(axes), shape=sizes, hardware=EMULATED, placement="random:1"
    )


@pytest.mark.parametrize("name", MODELS)
def test_one_row_and_one_step_are_sizes_as_any_other(name: str) -> None:
    module = MODELS[name].eval()
    planned = opened(module, given(*SIZES[0]))
    assert set(planned.plan.granted.conditions) == NEEDED.get(name, set())
    run = planned.to_module(emulate=True)
    with torch.no_grad():
        for size in SIZES:
            assert_equal(run(given(*size)), module(given(*size)))


class Written(nn.Module):
    """Of one row the tensor is contiguous as it is, and not copied before it is written to."""

    def forward(self, x: Tensor) -> Tensor:
        made = x * 2
        made.transpose(0, 1).contiguous().add_(1)
        return made * 3


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.transpose(0, 1).is_contiguous() else x * 3


@pytest.mark.parametrize("module", [Written(), Branching()])
def test_what_the_layout_decides_is_asked_of_a_call(module: nn.Module) -> None:
    planned = opened(module, given(2, 7))
    assert_equal(planned.to_module(emulate=True)(given(4, 5)), module(given(4, 5)))
    with pytest.raises(InvalidFeedError, match=r"calls where outer0 != 1"):
        planned.to_module(emulate=True)(given(1, 7))


class Spread(nn.Module):
    """What is 1 in the second operand goes with all of the first."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("ibd,jbd->ijb", x, x.mean(1, keepdim=True))


class Windows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(WIDTH, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.transpose(1, 2))


def test_sizes_that_an_equation_spreads_are_any() -> None:
    module = Spread()
    called = opened(module, given(2, 7)).to_module(emulate=True)
    for size in SIZES:
        assert_equal(called(given(*size)), module(given(*size)))


def test_windows_that_do_not_fit_stay_conditions() -> None:
    module = Windows().eval()
    called = opened(module, given(2, 7)).to_module(emulate=True)
    with torch.no_grad():
        for size in ((1, 3), (1, 7), (3, 4)):
            assert_equal(called(given(*size)), module(given(*size)))
    with pytest.raises(InvalidFeedError, match="inner0"):
        called(given(1, 2))
