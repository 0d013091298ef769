# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportPrivateUsage=false
"""Known wrong translations of PyTorch's ONNX exporter, each against eager PyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export.experimental import _export_forward_backward
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional

import hetpart
from tests.pytorch.test_bodies import Called
from tests.pytorch.test_partition import assert_equal

EMULATED = "emulated"


class Step(nn.Module):
    """What an optimiser divides by where nothing was seen of a parameter: the square root of 0, and 1e-8."""

    def forward(self, gradient: Tensor, second: Tensor) -> Tensor:
        return gradient / (second.sqrt() + 1e-8)


def test_additions_of_1e_8_are_kept() -> None:
    given = torch.tensor([0.0, 1e-3]), torch.tensor([0.0, 4.0])
    made = hetpart.partition(Step(), args=given, hardware=EMULATED).to_module(emulate=True)(*given)
    assert_equal(made, Step()(*given))
    assert made.isfinite().all()


def test_gradients_of_a_mean_loss_are_those_of_eager_pytorch() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(6, 5), torch.tensor([0, 4, 2, -100, 1, 3])

    def loss(logits: Tensor) -> Tensor:
        return nn.functional.cross_entropy(logits, labels)

    graph = make_fx(torch.func.grad_and_value(loss))(logits)
    made = hetpart.partition(graph, args=(logits,), hardware=EMULATED).to_module(emulate=True)(logits)
    assert_equal(made, torch.func.grad_and_value(loss)(logits))


class Norm(nn.Module):
    """Batch normalisation that trains: by the means of what it sees, towards which it moves those it is given."""

    def forward(self, x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        return nn.functional.batch_norm(x, mean, var, training=True)


def test_batch_normalisation_that_trains_takes_the_means_of_what_it_sees() -> None:
    def given() -> tuple[Tensor, ...]:
        x = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
        return 5 * x + 2, torch.zeros(3), torch.ones(3)

    ours, eager = given(), given()
    made = hetpart.partition(Norm(), args=given(), hardware=EMULATED).to_module(emulate=True)(*ours)
    assert_equal(made, Norm()(*eager))
    assert_equal(ours, eager)
    assert not torch.equal(eager[1], given()[1])


class Loss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.cross_entropy(self.inner(x), labels)


def test_a_program_with_its_backward_pass_returns_loss_and_gradients() -> None:
    torch.manual_seed(0)
    module, given = Loss(), (torch.randn(8, 4), torch.arange(8) % 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it uses what PyTorch itself calls outdated
        program = _export_forward_backward(torch.export.export(module, given))
    made = hetpart.partition(program, hardware=EMULATED).to_module(emulate=True)(*given)
    loss = module(*given)
    loss.backward()
    gradients = [parameter.grad for parameter in module.parameters()]
    assert_equal(list(made), [loss.detach(), *gradients])


class Row(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.row = nn.Parameter(torch.arange(4.0))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.row.t()


def test_a_vector_that_is_transposed_is_itself() -> None:
    model, x = Row().eval(), torch.arange(8.0).reshape(2, 4)
    assert_equal(hetpart.partition(model, args=(x,), hardware=EMULATED).to_module(emulate=True)(x), model(x).detach())


PADDED = {
    "one axis": lambda x: functional.max_pool1d(functional.pad(x[0], (1, 1)), 3),
    "two axes": lambda x: functional.max_pool2d(functional.pad(x, (0, 1, 0, 1)), 3, 2),
    "three axes": lambda x: functional.max_pool3d(functional.pad(x[None], (0, 1, 0, 1, 1, 0)), 2),
    "adaptive": lambda x: functional.adaptive_max_pool2d(functional.pad(x, (1, 1, 1, 1)), 5),
    "behind a copy": lambda x: functional.max_pool2d(functional.pad(x, (1, 1, 1, 1)).clone(), 2),
    "by another number": lambda x: functional.max_pool2d(functional.pad(x, (1, 1, 1, 1), value=-0.5), 2),
    "means": lambda x: functional.avg_pool2d(functional.pad(x, (0, 1, 0, 1)), 3, 2),
    "means, of zeros alone": lambda x: functional.avg_pool2d(functional.pad(x, (0, 1, 0, 1)), 2, 2, ceil_mode=True),
    "means, as much as they see": lambda x: functional.avg_pool2d(functional.pad(x, (3, 0, 0, 0)), 3, 2),
    "means, padded twice": lambda x: functional.avg_pool2d(functional.pad(x, (0, 1, 0, 2)), 3, 2, padding=1),
    "means, less than they see": lambda x: functional.avg_pool2d(functional.pad(x, (0, 1, 0, 1)), 3, 2, padding=1),
}
_NOT_LOST = ("by another number", "means", "means, less than they see")


@pytest.mark.parametrize("name", PADDED)
def test_the_largest_of_numbers_below_0_and_zeros_beside_them_is_0(name: str) -> None:
    """ONNX Runtime takes the zeros for what a pool pads with itself: in a MaxPool that is less than any number.

    An AveragePool that is padded by as much as it sees it refuses to load.
    """
    model, x = Called(PADDED[name]), -torch.rand(2, 4, 8, 8) - 0.1
    planned = hetpart.partition(model, args=(x,), hardware=EMULATED, placement="all-cpu")
    assert_equal(planned.to_module(emulate=True)(x), model(x))
    assert ("PyTorch runs" in " ".join(planned.plan.notes)) == (name not in _NOT_LOST)


ROUNDED = {
    "one axis": lambda x: functional.max_pool1d(x[0].mT, 2, 2, 1, ceil_mode=True),
    "two axes": lambda x: functional.max_pool2d(x, (2, 3), 2, (1, 0), ceil_mode=True),
    "no batch": lambda x: functional.max_pool2d(x[0], 2, 2, 1, ceil_mode=True),
    "three axes": lambda x: functional.max_pool3d(x[None], 2, 2, 1, ceil_mode=True)[0],
    "places too": lambda x: functional.max_pool2d(x, 1, 2, ceil_mode=True, return_indices=True)[1],
    "means": lambda x: functional.avg_pool2d(x, 2, 2, 1, ceil_mode=True, count_include_pad=False),
    "means of one axis": lambda x: functional.avg_pool1d(x[0].mT, 2, 2, 1, ceil_mode=True),
    "none behind": lambda x: functional.max_pool2d(x, 3, 2, ceil_mode=True),
}


@pytest.mark.parametrize(
    ("name", "is_open"),
    [(name, is_open) for name in ROUNDED for is_open in (False, True) if (name, is_open) != ("one axis", True)],
)
def test_windows_that_start_behind_all_there_is_are_left_out(name: str, *, is_open: bool) -> None:
    """ONNX Runtime fuses the parts of a roll by sizes that count them. The trace fixes the size of the only axis."""
    model = Called(lambda x: ROUNDED[name](x).roll((1, 1), (-2, -1)))
    sizes = {"x": {2: torch.export.Dim("high", max=40), 3: torch.export.Dim("wide", max=40)}}
    x = torch.randn(2, 4, 7, 8)
    asked: dict[str, Any] = {"dynamic_shapes": sizes, "shape": "high=?,wide=?"} if is_open else {}
    planned = hetpart.partition(model, args=(x,), hardware=EMULATED, **asked)
    for shape in [(2, 4, 7, 8), (2, 4, 9, 12)][: 1 + is_open]:
        x = torch.randn(shape)
        assert_equal(planned.to_module(emulate=True)(x), model(x))
    assert ("PyTorch runs" in " ".join(planned.plan.notes)) == (name != "none behind")


class Narrow(nn.Module):
    """Indices in int32, where ONNX has int64 alone: the code's own, and those of an inverse transform."""

    def forward(self, x: Tensor, rows: Tensor) -> Tensor:
        added = torch.zeros(4, 32).index_put((rows.int(),), x, accumulate=True)
        spectrum = torch.stft(added, 8, 4, window=torch.ones(8), return_complex=True)
        return torch.istft(spectrum, 8, 4, window=torch.ones(8), length=32)


@pytest.mark.parametrize("placement", ["optimal", "random:1"])
def test_indices_in_int32_are_taken(placement: str) -> None:
    given = torch.randn(3, 32), torch.tensor([2, 0, 2])
    planned = hetpart.partition(Narrow(), args=given, hardware=EMULATED, placement=placement)
    assert_equal(planned.to_module(emulate=True)(*given), Narrow()(*given))


class Copying(nn.Module):
    """Copies of something smaller, whole and to places."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        placed = torch.zeros(3, 4)
        placed[:, 1:].copy_(x[:, None])
        spread, whole = y.clone().copy_(x.sum()), torch.zeros(4, 3, dtype=torch.int32).copy_(x * 9)
        return placed, spread, whole, whole.sum(1), torch.vander(x, N=4), torch.zeros(0, 3).copy_(x)


def test_what_is_copied_is_as_large_as_its_place() -> None:
    x, y = torch.tensor([0.3, -2.0, 5.0]), torch.ones(2, 2)
    sizes = {"x": {}, "y": {0: "rows"}}
    made = hetpart.partition(Copying(), args=(x, y), hardware=EMULATED, placement="random:3")
    assert_equal(made.to_module(emulate=True)(x, y), Copying()(x, y))
    opened = hetpart.partition(
        Copying(), args=(x, y), dynamic_shapes=sizes, shape={"rows": "?"}, hardware=EMULATED
    ).to_module(emulate=True)
    for rows in (0, 4, 5):
        assert_equal(opened(x, torch.ones(rows, 2)), Copying()(x, torch.ones(rows, 2)))
