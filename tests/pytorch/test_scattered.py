# pyright: reportUnknownMemberType=false
"""Scattering from tensors that are larger than their index, against eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import hetpart
from tests.pytorch.test_kept import EMULATED, Called

X = torch.arange(24.0).reshape(3, 8).sin()
PLACES = torch.tensor([[0, 1, 2], [2, 0, 1]])
SRC = torch.arange(32.0).reshape(4, 8).cos()
SCATTERED: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "scatter": lambda x, places, src: x.scatter(1, places, src),
    "reduce": lambda x, places, src: x.scatter(1, places, src, reduce="add"),
    "scatter_add": lambda x, places, src: x.scatter_add(1, places, src),
    "scatter_add of rows": lambda x, places, src: (x * 2).scatter_add_(0, places, src),
    "scatter_reduce": lambda x, places, src: x.scatter_reduce(1, places, src, "amax", include_self=False),
    "scatter_reduce mean": lambda x, places, src: x.scatter_reduce(1, places, src, "mean"),
}


def scattered(x: Tensor, places: Tensor, src: Tensor) -> dict[str, Tensor]:
    return {name: code(x, places, src) for name, code in SCATTERED.items()}


@pytest.mark.parametrize("places", [PLACES, PLACES[:, :1], PLACES[:0], PLACES[0, :0]], ids=lambda it: str([*it.shape]))
def test_as_much_is_scattered_as_there_are_places(places: Tensor) -> None:
    given = X, places, SRC
    planned = hetpart.partition(Called(scattered), args=given, hardware=EMULATED, placement="random:1")
    torch.testing.assert_close(planned.to_module(emulate=True)(*given), scattered(*given))


def test_places_may_be_more_and_fewer_from_call_to_call() -> None:
    shapes = ((None, {0: "k"}, None),)
    planned = hetpart.partition(
        Called(scattered),
        args=(X, PLACES, SRC),
        dynamic_shapes=shapes,
        shape="k=?",
        hardware=EMULATED,
        placement="random:1",
    )
    run = planned.to_module(emulate=True)
    for places in (PLACES, PLACES[:1], PLACES.flip(1), torch.cat([PLACES, PLACES[:1]])):
        torch.testing.assert_close(run(X, places, SRC), scattered(X, places, SRC))
