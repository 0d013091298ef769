"""Code that makes numbers of sizes: its plan is for one size, says so, and is made again for every other."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import hetpart
from hetpart.errors import InvalidFeedError, InvalidModelError, InvalidOptionError
from tests.pytorch.test_assumed import EMULATED, ROWS, X
from tests.pytorch.test_granted import answers, opened, way
from tests.pytorch.test_partition import assert_equal

__all__ = ["way"]


class Logarithm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * math.log(x.shape[0])


class Bits(nn.Module):
    """What a size that stays open does not have at all."""

    def forward(self, x: Tensor) -> Tensor:
        return x * x.shape[0].bit_length()


class Looped(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([x[row] * row for row in range(x.shape[0])])


class Unbound(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        first, *others = x.unbind(0)
        return first + sum(others)


class Half(nn.Module):
    """Of two sizes only one is made a number."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x * math.sqrt(x.shape[0]) + y.sum(0), y * 2


class Times(nn.Module):
    def forward(self, x: Tensor, number: int) -> Tensor:
        for place in range(number):
            x = x * 2 + place
        return x


MODULES = [Logarithm(), Bits(), Looped(), Unbound()]


def rows(number: int) -> Tensor:
    return X.repeat(2, 1)[:number]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: type(module).__name__)
def test_each_size_has_a_plan_of_its_own(module: nn.Module) -> None:
    exported = hetpart.export(module, args=(X,), dynamic_shapes=ROWS)
    for number in (8, 5, 11):
        planned = hetpart.partition(exported, hardware=EMULATED, placement="random:1", shape={"rows": number})
        assert any(note.startswith(f"rows is {number} throughout") for note in planned.plan.notes)
        assert_equal(planned.to_module(emulate=True)(rows(number)), module(rows(number)))
        with pytest.raises(InvalidFeedError, match="shape"):
            planned.to_module(emulate=True)(rows(number + 1))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: type(module).__name__)
def test_a_plan_that_leaves_it_open_asks_for_that_size(module: nn.Module, way: str, tmp_path: Path) -> None:
    with opened(tmp_path, module, (X,), way, dynamic_shapes=ROWS, shape="rows=?") as session:
        made = {number: answers(session, rows(number)) for number in (1, 4, 8, 9)}
        assert [number for number, answer in made.items() if answer is not None] == [8]
        assert_equal(torch.from_numpy(made[8]), module(X))


@pytest.mark.parametrize("others", [8, 3])
def test_other_axes_stay_open(others: int, tmp_path: Path) -> None:
    """Also where they are as long in the example."""
    y, sizes = rows(others), {"x": {0: "rows"}, "y": {0: "others"}}
    with opened(tmp_path, Half(), (X, y), dynamic_shapes=sizes, shape="others=?") as session:
        for number in (1, 3, 8, 11):
            answer = answers(session, X, rows(number))
            assert answer is not None
            assert_equal(torch.from_numpy(answer), Half()(X, rows(number))[0])


@pytest.mark.parametrize("said", ["number", Dim.DYNAMIC, Dim.AUTO], ids=["name", "dynamic", "auto"])
def test_so_are_numbers_among_the_arguments(said: Any, tmp_path: Path) -> None:
    with opened(tmp_path, Times(), (X, 4), dynamic_shapes={"x": {}, "number": said}) as session:
        made = {number: answers(session, X, number) for number in (3, 4, 5)}
    assert [number for number, answer in made.items() if answer is not None] == [4]
    assert_equal(torch.from_numpy(made[4]), Times()(X, 4))


def test_sizes_that_were_not_asked_for_are_none_of_them() -> None:
    sizes = {"x": {0: Dim("rows", min=4, max=9)}}
    exported = hetpart.export(Logarithm(), args=(X,), dynamic_shapes=sizes)
    planned = hetpart.partition(exported, hardware=EMULATED, shape="rows=4")
    assert_equal(planned.to_module(emulate=True)(rows(4)), Logarithm()(rows(4)))
    with pytest.raises(InvalidOptionError, match=r"rows=10: .* rows == 8; .*10 not in range \[4, 9\]"):
        hetpart.partition(exported, hardware=EMULATED, shape="rows=10")


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"x": {0: Dim("rows", min=9)}}, "not in range"),
        ({"x": {0: 2 * Dim("half")}}, "Constraints violated"),
        ({"x": {0: 3 * Dim("third")}}, "of the form"),
        ({"y": {0: "rows"}}, "arg names"),
        ({"x": {0: 7}}, "7"),
    ],
    ids=["range", "derived", "multiple", "name", "number"],
)
def test_a_call_that_is_not_what_was_asked_for_is_refused(sizes: Any, said: str) -> None:
    with pytest.raises(InvalidModelError, match=said):
        hetpart.export(Logarithm(), args=(X,), dynamic_shapes=sizes)
