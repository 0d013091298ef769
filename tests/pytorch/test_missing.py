"""Operators without a translation: all are PyTorch's after one export that stopped at the first."""

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


def test_all_are_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    exports, export = list[bool](), torch.onnx.export

    def counted(*args: Any, **named: Any) -> Any:
        exports.append(False)
        made = export(*args, **named)
        exports[-1] = True
        return made

    monkeypatch.setattr(torch.onnx, "export", counted)
    x = torch.linspace(0.1, 3, 12).reshape(3, 4)
    planned = hetpart.partition(Special(), args=(x,), placement="random:1", hardware=EMULATED)
    left = {op.op_type for op in planned.plan.decisions if "." in op.op_type}
    assert len(left) >= 4, left
    assert exports == [False, True]
    torch.testing.assert_close(planned.to_module(emulate=True)(x), Special()(x))
