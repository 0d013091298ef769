# pyright: reportUnknownMemberType=false, reportUntypedFunctionDecorator=false, reportUnknownLambdaType=false, reportUnknownArgumentType=false
"""Custom operators that return what they were given, or lists beside other results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hetpart
from hetpart.dynamo.backend import hetpart as backend
from hetpart.errors import InvalidModelError
from tests.pytorch.test_partition import assert_equal

EMULATED = "emulated"
_library = torch.library.Library("hetpart_tests", "FRAGMENT")


def _over(x: Tensor, *, out: Tensor) -> Tensor:
    return out.copy_(x + 1)


def _parts(x: Tensor) -> tuple[Tensor, list[Tensor], Tensor]:
    return x * 2, [x + 1, x.sum(0)], x * 3


def _bump(x: Tensor) -> None:
    x.add_(1)


_KERNELS: dict[str, Callable[..., Any]] = {
    "seen(Tensor(a) x) -> Tensor(a)": lambda x: x.view(-1),
    "over(Tensor x, *, Tensor(a!) out) -> Tensor(a!)": _over,
    "parts(Tensor x) -> (Tensor, Tensor[], Tensor)": _parts,
    "bump(Tensor(a!) x) -> ()": _bump,
}
for _schema, _kernel in _KERNELS.items():
    _library.define(_schema)
    _library.impl(_schema.partition("(")[0], _kernel, "CompositeExplicitAutograd")
_ops: Any = torch.ops.hetpart_tests


class Called(nn.Module):
    def __init__(self, code: Callable[..., Any]) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.code = code

    def forward(self, x: Tensor) -> Any:
        return self.code(self.linear(x))


def filled(y: Tensor) -> Tensor:
    out = torch.zeros_like(y)
    _ops.over(y * 2, out=out)
    return out + y


def several(y: Tensor) -> tuple[Tensor, list[Tensor]]:
    first, listed, last = _ops.parts(y)
    return first + last, [listed[1] * 2, listed[0]]


X = torch.arange(12.0).reshape(3, 4) / 10


@pytest.mark.parametrize(
    "code",
    [lambda y: _ops.seen(y) + 1, filled, lambda y: _ops.over(y, out=y * 2) + 1, several, lambda y: _ops.parts(y)[1][1]],
    ids=["view", "out", "returned", "lists", "one-of-a-list"],
)
def test_custom_operators_with_such_results_run(code: Callable[..., Any]) -> None:
    module = Called(code)
    with torch.no_grad():
        wanted = module(X)
        exported = hetpart.export(module, args=(X,))
        for placement in ("random:3", "random:5"):
            planned = hetpart.partition(exported, hardware=EMULATED, placement=placement)
            assert_equal(planned.to_module(emulate=True)(X), wanted)
        torch.compiler.reset()
        options: Any = {"emulate": True, "placement": "random:3", "hardware": EMULATED}
        assert_equal(torch.compile(module, backend=backend, options=options)(X), wanted)


@pytest.mark.parametrize("code", [lambda y: _ops.seen(y).add_(1) + y.sum(), lambda y: (_ops.seen(y), y.mul_(2))[0] + 0])
def test_a_view_that_is_written_to_is_refused(code: Callable[..., Any]) -> None:
    with pytest.raises(InvalidModelError, match=r"seen.default, which returns a view, and .* writes to"):
        hetpart.partition(Called(code), args=(X,), hardware=EMULATED)


def bumped(y: Tensor) -> Tensor:
    made = y * 1
    _ops.bump(made)
    return made.view(-1)


class Chosen(nn.Module):
    """Such an operator in a branch."""

    def __init__(self, code: Callable[..., Any]) -> None:
        super().__init__()
        self.code = code

    def forward(self, x: Tensor) -> Any:
        return torch.cond(x.sum() > 0, self.code, lambda y: y.view(-1) * 2, (x,))


@pytest.mark.parametrize("code", [lambda y: _ops.seen(y) + 1, lambda y: filled(y).view(-1), bumped])
def test_such_operators_run_in_a_branch(code: Callable[..., Any]) -> None:
    module = Chosen(code)
    torch.compiler.reset()
    options: Any = {"emulate": True, "placement": "random:3", "hardware": EMULATED}
    planned = hetpart.partition(module, args=(X,), hardware=EMULATED, placement="random:3").to_module(emulate=True)
    with torch.no_grad():
        for run in (planned, torch.compile(module, backend=backend, options=options)):
            for given in (X, -X):
                assert_equal(run(given), module(given))


def test_an_operator_that_writes_to_what_a_branch_is_given_is_refused() -> None:
    with pytest.raises(InvalidModelError, match=r"bump.default, which writes to what a branch or a loop is given"):
        hetpart.partition(Chosen(lambda y: _ops.bump(y) or y.view(-1)), args=(X,), hardware=EMULATED)
