"""Modules that change themselves when they are called, against eager PyTorch."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import hetpart
from hetpart.errors import InvalidModelError
from tests.pytorch.test_kept import EMULATED
from tests.pytorch.test_partition import assert_equal

X = torch.arange(12.0).reshape(3, 4).sin()


class Averages(nn.Module):
    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return x - self.mean


class Remembers(nn.Module):
    """What it assigns, it computes anew in every call."""

    last: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        self.last = x.mean(0)
        return x - self.last


class Fades(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = 0.5

    def forward(self, x: Tensor) -> Tensor:
        self.factor = self.factor * 0.5
        return x * self.factor


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * 2


class Whole(nn.Module):
    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: Tensor) -> Tensor:
        return self.part(x) * 2


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Averages, "Whole assigns the buffer 'part.mean' when it is called"),
        (Fades, "Whole changes the number 'part.factor' from 0.5 to 0.25 when it is called"),
    ],
)
def test_what_would_be_another_in_the_next_call_is_refused(part: type[nn.Module], message: str) -> None:
    module = Whole(part())
    with pytest.raises(InvalidModelError, match=message):
        hetpart.partition(module, args=(X,), hardware=EMULATED)
    assert_equal(module(X), Whole(part())(X))  # the module is as it was


@pytest.mark.parametrize("part", [Remembers, Counts])
def test_what_no_call_computes_with_is_left_out(part: type[nn.Module]) -> None:
    module = Whole(part())
    planned = hetpart.partition(module, args=(X,), hardware=EMULATED, placement="random:1")
    run = planned.to_module(emulate=True)
    for x in (X, X.cos()):
        assert_equal(run(x), Whole(part())(x))


def test_a_number_that_counts_is_told() -> None:
    module = Whole(Counts())
    planned = hetpart.partition(module, args=(X,), hardware=EMULATED)
    assert any("'part.calls' from 0 to 1" in note for note in planned.plan.notes)
    assert module.get_submodule("part").calls == 0


@pytest.mark.parametrize("norm_type", [2.0, 1.0])
def test_a_table_that_shortens_its_rows_is_refused_with_what_looks_up_the_same(norm_type: float) -> None:
    ids = torch.tensor([[3, 0], [3, 8]])
    table = nn.Embedding(9, 4, max_norm=1.0, norm_type=norm_type).eval()
    with torch.no_grad():
        wanted = copy.deepcopy(table)(ids)
    with pytest.raises(InvalidModelError, match=r"changes the weight 'weight'.*\n.*hint: .*renorm_\(norm_type, 0, m\)"):
        hetpart.partition(table, args=(ids,), hardware=EMULATED)
    table.weight.data.renorm_(table.norm_type, 0, 1.0)
    table.max_norm = None
    planned = hetpart.partition(table, args=(ids,), hardware=EMULATED)
    torch.testing.assert_close(planned.to_module(emulate=True)(ids), wanted)
