# pyright: reportUnknownMemberType=false
"""A plan's module among others: inside compiled code, and where it is copied."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import nn

import hetpart
from hetpart.errors import HetpartError

X = torch.linspace(-1, 1, 16).reshape(2, 8)


def planned(module: nn.Module) -> nn.Module:
    return hetpart.partition(module, args=(X,), hardware="emulated", placement="random:1").to_module(emulate=True)


def test_code_that_torch_compile_reads_calls_it() -> None:
    inner = nn.Linear(8, 8).eval()
    torch._dynamo.reset()
    compiled = torch.compile(nn.Sequential(nn.ReLU(), planned(inner), nn.Tanh()), backend="eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(X), inner(X.relu()).tanh())


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_it_is_not_copied(copied: Callable[[nn.Module], object]) -> None:
    with pytest.raises(HetpartError, match="cannot be copied or pickled") as refused:
        copied(nn.Sequential(planned(nn.Linear(8, 8))) if copied is not copy.copy else planned(nn.Linear(8, 8)))
    assert "to_module() makes another" in refused.value.hint
