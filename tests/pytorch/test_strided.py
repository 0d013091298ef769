# pyright: reportUnknownMemberType=false
"""Views by steps in memory, against eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import hetpart
from hetpart.errors import InvalidModelError
from tests.pytorch.test_kept import EMULATED, Called
from tests.pytorch.test_partition import assert_equal

X = torch.arange(48.0).reshape(6, 8).sin()
VIEWS: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
    "in order": (lambda x: (x * 2).as_strided((4, 4), (1, 3), 2) + 1, X),
    "transposed": (lambda x: (x * 2).t().as_strided((4, 4), (1, 3)) + 1, X),
    "transposed, from behind": (lambda x: (x[None] * 2).transpose(0, 2).as_strided((4, 4), (1, 3), 5) + 1, X),
    # The windows of Longformer and LED: a reshape that copies nothing.
    "windows of heads": (
        lambda x: (x * 2).view(8, 2, 3).transpose(0, 1).reshape(2, 8, 3).as_strided((2, 3, 4, 3), (3, 12, 6, 1)) + 1,
        X,
    ),
    "a number": (lambda x: (x * 2).as_strided((), (), 9) + 1, X),
    "an argument": (lambda x: x.as_strided((4, 4), (1, 3), 2) + 1, X.t()),
    "a part": (lambda x: x[2:4].as_strided((3,), (3,)) + x[2:4].as_strided((3,), (3,), 17), X),
    "a copy": (lambda x: torch.as_strided_copy((x * 2).t(), (4, 4), (1, 3), 2) + 1, X),
    "written": (lambda x: torch.as_strided_scatter((x * 2).t(), x[:4, :4], (4, 4), (4, 1), 2) + 1, X),
}
BEYOND: dict[str, Callable[[Tensor], Tensor]] = {
    "before it": lambda x: (x * 2)[2:4].as_strided((3, 4), (8, 1), 0) + 1,
    "behind it": lambda x: (x * 2)[2:4].as_strided((3, 4), (8, 1)) + 1,
    "between": lambda x: (x * 2)[:, ::2].as_strided((3, 4), (8, 2)) + 1,
}


@pytest.mark.parametrize("name", VIEWS)
def test_elements_are_those_of_the_memory(name: str) -> None:
    code, x = VIEWS[name]
    module = Called(code)
    planned = hetpart.partition(module, args=(x,), hardware=EMULATED, placement="random:1")
    assert_equal(planned.to_module(emulate=True)(x), module(x))


def test_open_sizes_are_steps_too() -> None:
    module = Called(VIEWS["transposed"][0])
    planned = hetpart.partition(
        module, args=(X,), dynamic_shapes=(({0: "a", 1: "b"},),), shape="a=?,b=?", hardware=EMULATED
    )
    for x in (X, torch.linspace(-1, 1, 63).reshape(9, 7)):
        assert_equal(planned.to_module(emulate=True)(x), module(x))


@pytest.mark.parametrize("name", BEYOND)
def test_memory_that_the_tensor_does_not_show_is_refused(name: str) -> None:
    with pytest.raises(InvalidModelError, match=r"looks into memory of which its tensor, .* is a part"):
        hetpart.partition(Called(BEYOND[name]), args=(X,), hardware=EMULATED)
