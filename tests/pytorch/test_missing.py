"""How often is exported: what has no translation is found at once, and new names are no reason to do it again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hetpart

EMULATED = "emulated"


class Special(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        made = torch.special.i0e(x) + torch.special.entr(x.abs()) - torch.lgamma(x) * torch.digamma(x)
        return torch.special.ndtri(torch.sigmoid(made)) + torch.special.zeta(x.abs() + 2, torch.igamma(x, x + 1) + 1)


@pytest.fixture
def exports(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of every export from now on whether it came to its end."""
    ended, export = list[bool](), torch.onnx.export

    def counted(*args: Any, **named: Any) -> Any:
        ended.append(False)
        made = export(*args, **named)
        ended[-1] = True
        return made

    monkeypatch.setattr(torch.onnx, "export", counted)
    return ended


def test_all_are_found_at_once(exports: list[bool]) -> None:
    x = torch.linspace(0.1, 3, 12).reshape(3, 4)
    planned = hetpart.partition(Special(), args=(x,), placement="random:1", hardware=EMULATED)
    left = {op.op_type for op in planned.plan.decisions if "." in op.op_type}
    assert len(left) >= 4, left
    assert exports == [False, True]
    torch.testing.assert_close(planned.to_module(emulate=True)(x), Special()(x))


class Rated(nn.Module):
    """A loss that goes in parts beside numbers, whose names PyTorch gives anew in every export."""

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        return nn.functional.cross_entropy(x.relu() + 1, label) * 2 + 1


def test_new_names_alone_are_no_reason_to_export_again(exports: list[bool]) -> None:
    given = torch.linspace(-1, 1, 20).reshape(4, 5), torch.tensor([1, 2, 3, 0])
    planned = hetpart.partition(Rated(), args=given, hardware=EMULATED)
    assert exports == [True]
    torch.testing.assert_close(planned.to_module(emulate=True)(*given), Rated()(*given))
