# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""Real numbers out of spectra whose length differs from call to call, against eager PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, fft, nn

import hetpart
from tests.pytorch.test_assumed import EMULATED


class Filtered(nn.Module):
    """A filter by frequencies, as long as what it is given or one less where that is odd."""

    def __init__(self, *, as_long: bool) -> None:
        super().__init__()
        self.as_long = as_long

    def forward(self, x: Tensor) -> Tensor:
        return fft.irfft(fft.rfft(x, dim=1) * 2, n=x.shape[1] if self.as_long else None, dim=1)


@pytest.mark.parametrize("as_long", [True, False])
def test_one_plan_filters_all_lengths(as_long: bool) -> None:
    torch.manual_seed(0)
    module = Filtered(as_long=as_long)
    sizes = ({0: "batch", 1: "length"},)
    planned = hetpart.partition(
        module, args=(torch.randn(2, 7, 8),), dynamic_shapes=sizes, shape="batch=?,length=?", hardware=EMULATED
    )
    run = planned.to_module(emulate=True)
    for batch, length in [(2, 7), (3, 9), (1, 12), (1, 3)]:
        x = torch.randn(batch, length, 8)
        torch.testing.assert_close(run(x), module(x), rtol=1e-4, atol=2e-5)
