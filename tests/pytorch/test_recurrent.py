# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
"""Recurrent layers whose sequences differ from call to call in number and length, against eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.func import functional_call, grad
from torch.utils import _pytree as pytree

import hetpart
from hetpart.frontend.recurrent import LAYERS as OPERATORS
from hetpart.frontend.recurrent import know_layers
from tests.pytorch.test_assumed import EMULATED

WIDTH = 8
LAYERS: Mapping[str, Callable[[], nn.RNNBase]] = {
    "gru": lambda: nn.GRU(WIDTH, 6, batch_first=True),
    "lstm": lambda: nn.LSTM(WIDTH, 6, 2, bidirectional=True),
    "lstm of projections": lambda: nn.LSTM(WIDTH, 6, proj_size=4, batch_first=True),
    "rnn": lambda: nn.RNN(WIDTH, 6, bidirectional=True),
    "rnn of relu": lambda: nn.RNN(WIDTH, 6, 2, nonlinearity="relu", batch_first=True),
    "gru in float64": lambda: nn.GRU(WIDTH, 6, 2).double(),
}
SIZES = [(2, 7), (1, 1), (3, 12), (1, 4), (5, 1)]
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")


class Layered(nn.Module):
    """A layer whose rows and states are read."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Any:
        rows, last = self.layer(x)
        return rows * 2, last


class Learning(nn.Module):
    """The gradient of a loss by the weights that a layer begins with."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(WIDTH, 6, batch_first=True)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        weights = {name: weight.detach() for name, weight in self.layer.named_parameters()}
        return grad(lambda given: functional_call(self.layer, given, (x,))[0].square().mean())(weights)


def rows_of(layer: nn.RNNBase, *sizes: int) -> Tensor:
    return torch.randn(*sizes, WIDTH, dtype=next(layer.parameters()).dtype)


@pytest.mark.parametrize("kind", LAYERS)
def test_one_plan_runs_sequences_of_all_numbers_and_lengths(kind: str) -> None:
    torch.manual_seed(0)
    module = Layered(LAYERS[kind]()).eval()
    planned = hetpart.partition(
        module,
        args=(rows_of(module.layer, *SIZES[0]),),
        dynamic_shapes=({0: "outer", 1: "inner"},),
        shape="outer=?,inner=?",
        hardware=EMULATED,
    )
    assert {*planned.plan.granted.conditions} <= {"outer != 0", "inner != 0"}  # of none their kernels end the process
    run = planned.to_module(emulate=True)
    for sizes in SIZES:
        x = rows_of(module.layer, *sizes)
        with torch.no_grad():
            torch.testing.assert_close(run(x), module(x))


@pytest.mark.parametrize("kind", LAYERS)
def test_forms_are_those_of_what_layers_return(kind: str) -> None:
    know_layers()
    layer = LAYERS[kind]().eval()
    x = rows_of(layer, *SIZES[2])
    with torch.no_grad():
        expected = pytree.tree_leaves(layer(x))
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            formed = pytree.tree_leaves(layer(mode.from_tensor(x)))
    assert [(one.shape, one.dtype) for one in formed] == [(one.shape, one.dtype) for one in expected]


def test_what_code_differentiates_goes_in_parts() -> None:
    torch.manual_seed(0)
    module = Learning()
    x = rows_of(module.layer, *SIZES[0])
    run = hetpart.partition(module, args=(x,), hardware=EMULATED).to_module(emulate=True)
    torch.testing.assert_close(run(x), module(x))


class Cast(nn.Module):
    """A layer where types are mixed, and a branch that asks for the type of its rows."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rows, last = self.layer(x)
            return rows, last, rows * 3 if rows.dtype == torch.bfloat16 else rows


@pytest.mark.usefixtures("needs_eager")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", [kind for kind in LAYERS if "float64" not in kind])
def test_layers_compute_in_the_type_of_autocast(kind: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    module = Cast(LAYERS[kind]()).eval()
    given = [rows_of(module.layer, *sizes).to(dtype) for sizes in SIZES[:3]]
    planned = hetpart.partition(
        module,
        args=given[:1],
        dynamic_shapes=({0: "outer", 1: "inner"},),
        shape="outer=?,inner=?",
        hardware=EMULATED,
    )
    run = planned.to_module(emulate=True)
    for x in given:
        with torch.no_grad():
            torch.testing.assert_close(run(x), module(x), rtol=0.02, atol=0.02)


def test_autocast_leaves_layers_in_float64_as_they_are() -> None:
    module = Cast(nn.LSTM(WIDTH, 6).double()).eval()
    x = rows_of(module.layer, *SIZES[0])
    run = hetpart.partition(module, args=(x,), hardware=EMULATED).to_module(emulate=True)
    with torch.no_grad():
        torch.testing.assert_close(run(x), module(x))


def test_a_process_may_read_as_many_models_as_it_likes() -> None:
    """PyTorch's export takes registered rules away; what stands around its kernels must not grow with every model."""

    def kernels() -> list[Any]:
        return [dict(target.py_kernels) for target in OPERATORS]

    def read() -> None:
        hetpart.load(Layered(LAYERS["gru"]()).eval(), args=(torch.randn(2, 7, WIDTH),))

    read()
    once = kernels()
    read()
    read()
    assert kernels() == once
