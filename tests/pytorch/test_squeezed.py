# pyright: reportUnknownMemberType=false
"""Axes that are squeezed and stay, being no 1, against eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import hetpart
from hetpart.errors import ExecutionError, InvalidFeedError
from tests.pytorch.test_kept import EMULATED, Called
from tests.pytorch.test_partition import assert_equal

X = torch.arange(6.0).reshape(3, 1, 2).cos()
OPEN = (({0: "b", 2: "l"},),)
KEPT: dict[str, Callable[[Tensor], Any]] = {
    "one axis": lambda x: ((x + 1).squeeze(2) * 2, (x * 2).squeeze(-2).exp(), x.relu().squeeze_(0) + 1),
    "several axes": lambda x: ((x + x).squeeze((0, 1, -1)).exp(), (x - 1).squeeze((1, 2)), (x * 3).squeeze()),
    "no axis there is": lambda x: x.sum().squeeze(0) + 1,
    "complex numbers": lambda x: torch.view_as_real(
        (torch.complex(x, x.sin()) * 2).squeeze(-1) + torch.complex(x, x).squeeze(1)[:, None].squeeze((0, 2))
    ),
}
BY_DATA: Callable[[Tensor], Any] = lambda x: (x[x[:, 0, 0] > 0] + 1).squeeze(0) * 2  # noqa: E731 - beside the others


@pytest.mark.parametrize("name", KEPT)
def test_axes_of_other_sizes_stay(name: str) -> None:
    module = Called(KEPT[name])
    planned = hetpart.partition(module, args=(X,), hardware=EMULATED, placement="random:1")
    assert_equal(planned.to_module(emulate=True)(X), module(X))
    compiled = torch.compile(module, backend="hetpart", options={"hardware": EMULATED, "emulate": True})
    with torch.no_grad():
        assert_equal(compiled(X), module(X))


@pytest.mark.parametrize("name", ["one axis", "several axes"])
def test_sizes_that_are_open_stay_and_are_asked(name: str) -> None:
    module = Called(KEPT[name])
    planned = hetpart.partition(
        module, args=(X,), dynamic_shapes=OPEN, shape="b=?,l=?", hardware=EMULATED, placement="random:1"
    )
    run = planned.to_module(emulate=True)
    for other in (X, torch.linspace(-1, 1, 20).reshape(4, 1, 5)):
        assert_equal(run(other), module(other))
    with pytest.raises(InvalidFeedError, match=r"b != 1.* b is 1"):
        run(X[:1])


def test_a_plan_made_of_a_size_of_1_leaves_it_out_and_asks_for_it() -> None:
    module = Called(KEPT["one axis"])
    planned = hetpart.partition(
        module, args=(X[:1],), dynamic_shapes=OPEN, shape="b=?,l=?", hardware=EMULATED, placement="random:1"
    )
    run = planned.to_module(emulate=True)
    longer = X[:1].repeat(1, 1, 3)
    assert_equal(run(longer), module(longer))
    with pytest.raises(InvalidFeedError, match=r"b == 1.* b is 3"):
        run(X)


def test_a_size_that_data_make_stays_and_is_no_1() -> None:
    module = Called(BY_DATA)
    x = torch.tensor([1.0, -1.0, 2.0]).reshape(3, 1, 1)
    run = hetpart.partition(module, args=(x,), hardware=EMULATED, placement="random:1").to_module(emulate=True)
    assert_equal(run(x), module(x))
    with pytest.raises(ExecutionError, match=r"the axis 0 of \(1, 1, 1\) is 1 in this run"):
        run(x.clamp(max=1.0) * torch.tensor([1.0, 1.0, -1.0]).reshape(3, 1, 1))
