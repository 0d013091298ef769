"""Checks of linear algebra, and calls that PyTorch runs for their types or arguments, against eager PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hetpart
from hetpart.dynamo.backend import hetpart as backend
from hetpart.errors import ExecutionError

EMULATED = "emulated"
OPTIONS = {"hardware": EMULATED, "emulate": True}


class Solver(nn.Module):
    """Weights before and after what is checked: the tokens of the checks come before them among the arguments."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = torch.linalg.inv(self.first(x))
        root = torch.linalg.cholesky(y @ y.mT + torch.eye(4))
        return self.last(root), y, torch.linalg.solve(root, x), torch.linalg.tensorinv(root.reshape(2, 2, 2, 2))


def test_what_is_checked_is_eager_pytorchs() -> None:
    torch._dynamo.reset()
    model, x = Solver(), torch.randn(4, 4)
    plans: list[hetpart.PartitionedModel] = []
    with torch.no_grad():
        compiled = torch.compile(model, backend=backend, options={**OPTIONS, "on_plan": plans.append})
        torch.testing.assert_close(compiled(x), model(x))
        nn.init.eye_(model.last.weight)  # the sessions read the weights where they lie
        torch.testing.assert_close(compiled(x), model(x))
        planned = hetpart.partition(model, args=(x,), hardware=EMULATED)
        torch.testing.assert_close(planned.to_module(emulate=True)(x), model(x))
    assert len(plans) == 1


@pytest.mark.filterwarnings("ignore::FutureWarning")  # PyTorch deprecates what it calls itself
def test_a_program_in_parts_is_checked() -> None:
    model, x = Solver(), torch.randn(4, 4)
    program = torch.export.export(model, (x,)).run_decompositions({})
    run = hetpart.partition(program, hardware=EMULATED).to_module(emulate=True)
    torch.testing.assert_close(run(x), model(x))
    nn.init.zeros_(model.first.weight)
    run = hetpart.partition(torch.export.export(model, (x,)), hardware=EMULATED).to_module(emulate=True)
    with pytest.raises(ExecutionError, match=r"linalg\.inv: .* singular"):
        run(x)


def test_a_singular_matrix_is_an_error() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(torch.linalg.inv, backend=backend, options=OPTIONS)
    with torch.no_grad():
        torch.testing.assert_close(compiled(torch.eye(3) * 2), torch.eye(3) / 2)
        with pytest.raises(ExecutionError, match=r"linalg\.inv: The diagonal element 1 is zero"):
            compiled(torch.zeros(3, 3))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_in_other_types(kind: Any, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = kind(5, 6, num_layers=2, batch_first=True, bidirectional=True).to(dtype).eval()
    x = torch.randn(2, 3, 5).to(dtype)
    with torch.no_grad():
        planned = hetpart.partition(model, args=(x,), hardware=EMULATED)
        torch.testing.assert_close(planned.to_module(emulate=True)(x), model(x))
    assert any("PyTorch runs" in note for note in planned.plan.notes)


def test_states_that_are_projected() -> None:
    torch.manual_seed(0)
    model, x = nn.LSTM(5, 6, num_layers=2, proj_size=3).eval(), torch.randn(4, 2, 5)
    with torch.no_grad():
        planned = hetpart.partition(model, args=(x,), hardware=EMULATED)
        torch.testing.assert_close(planned.to_module(emulate=True)(x), model(x))


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize(("step", "padded", "dilation"), [(2, 1, 1), (1, 1, 2), (2, 2, 3)])
def test_transposed_convolutions_that_pad_what_they_make(axes: int, step: int, padded: int, dilation: int) -> None:
    torch.manual_seed(0)
    kind = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[axes - 1]
    model = kind(2, 3, 3, stride=step, output_padding=padded, dilation=dilation, padding=1).eval()
    x = torch.randn(1, 2, *[4] * axes)
    with torch.no_grad():
        planned = hetpart.partition(model, args=(x,), hardware=EMULATED)
        torch.testing.assert_close(planned.to_module(emulate=True)(x), model(x))


class Checked(nn.Module):
    """A check of data before what the exporter takes two attempts for."""

    def __init__(self) -> None:
        super().__init__()
        self.row = nn.Parameter(torch.arange(8.0))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        torch._check_tensor_all(x.sum() > 0)
        seen = torch.ones(4, 4).tril().bool()
        wider = nn.functional.interpolate(self.row.reshape(1, 1, 8), size=5, mode="linear")
        return wider, nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=seen)


def test_numbers_that_an_attempt_left_are_forgotten() -> None:
    x = torch.arange(1.0, 33.0).reshape(1, 4, 8)
    planned = hetpart.partition(Checked(), args=(x,), hardware="emulated")
    for made, wanted in zip(planned.to_module(emulate=True)(x), Checked()(x), strict=True):
        torch.testing.assert_close(made, wanted)
