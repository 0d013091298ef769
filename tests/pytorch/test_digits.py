"""Functions that lose their digits near a point where they are computed as they are written, to a few roundings."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import hetpart

ROUNDINGS = 8


class Functions(nn.Module):
    def forward(self, x: Tensor, wide: Tensor) -> dict[str, Tensor]:
        return {
            "expm1": torch.expm1(x),
            "expm1 far off": torch.expm1(wide),
            "log1p": torch.log1p(x),
            "log1p far off": torch.log1p(wide.abs() - 0.9),
            "sinc": torch.sinc(x),
            "xlog1py": torch.special.xlog1py(x, x),
            "logaddexp": torch.logaddexp(wide, torch.zeros_like(wide)),
            "logsigmoid": functional.logsigmoid(wide),
        }


class Ends(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return torch.expm1(x), torch.log1p(x), torch.sinc(x.clamp(-1e4, 1e4))


def ran(module: nn.Module, *given: Tensor) -> hetpart.PartitionedModel:
    return hetpart.partition(module, args=given, hardware="emulated", placement="all-cpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_digits_near_zero_are_kept(dtype: torch.dtype) -> None:
    sizes = torch.logspace(-8, -3, 41, dtype=torch.float64).to(dtype)
    given = torch.cat([-sizes, sizes]), torch.linspace(-25, 25, 99, dtype=torch.float64).to(dtype)
    planned = ran(Functions(), *given)
    assert not [note for note in planned.plan.notes if note.startswith("PyTorch runs")]
    allowed = ROUNDINGS * torch.finfo(dtype).eps
    torch.testing.assert_close(planned.to_module(emulate=True)(*given), Functions()(*given), rtol=allowed, atol=0)


class Tails(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.erfc(x), torch.special.erfc(x + 1)


def test_what_is_left_of_one_is_kept() -> None:
    given = torch.linspace(1, 9, 33)
    made = ran(Tails(), given).to_module(emulate=True)(given)
    torch.testing.assert_close(made, Tails()(given), rtol=ROUNDINGS * torch.finfo(torch.float32).eps, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_what_is_infinite_or_no_number_is_so(dtype: torch.dtype) -> None:
    given = torch.tensor([math.inf, -math.inf, math.nan, -1.0, -2.0, 0.0, 6e4, 30.0], dtype=dtype)
    made, wanted = ran(Ends(), given).to_module(emulate=True)(given), Ends()(given)
    rough = dict.fromkeys(("rtol", "atol"), max(4 * torch.finfo(dtype).eps, 1e-6))
    torch.testing.assert_close(made, wanted, equal_nan=True, **rough)
