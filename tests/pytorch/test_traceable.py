"""Functions that PyTorch's tracer refuses for a look at what tensors hold, each against eager PyTorch."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import hetpart
from hetpart.errors import InvalidModelError
from tests.pytorch.test_kept import EMULATED, ROWS, Called

SCORES = torch.linspace(-2, 2, 60).sin().reshape(5, 3, 4).log_softmax(2)
TARGETS, SCORED, LENGTHS = torch.tensor([[1, 2], [1, 3], [2, 2]]), torch.tensor([5, 5, 4]), torch.tensor([2, 1, 2])
WEIGHTS = torch.tensor([1, 2, 3, 1, 1, 2, 4, 1])
TRACEABLE: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "cov": (lambda x, w: (x.cos().cov(), torch.cov(x[0], correction=0), torch.cov(x, fweights=w)), (ROWS, WEIGHTS)),
    "cov by weights": (
        lambda x, w: (torch.cov(x, aweights=w / 2), torch.cov(x, fweights=w, aweights=w / 3), torch.cov(x[:, :1])),
        (ROWS, WEIGHTS),
    ),
    "cov of whole numbers": (lambda w: (torch.cov(w), torch.cov(torch.stack([w, w * w]))), (WEIGHTS,)),
    "corrcoef": (lambda x: (torch.corrcoef(x.cos()), x[0].corrcoef()), (ROWS,)),
    "combinations": (lambda x: (torch.combinations(x), torch.combinations(x, 3, with_replacement=True)), (ROWS[0],)),
    "narrow": (lambda x, n: (torch.narrow(x, 1, n, 3), x.narrow(-1, -n, 2), x.narrow(0, 1, 2)), (ROWS, LENGTHS[0])),
    "one_hot": (
        lambda t, n: (
            functional.one_hot(t, n.item() + 4),
            functional.one_hot(t[0], num_classes=n.item() * 2),
            functional.one_hot(t) * 2,
        ),
        (TARGETS, LENGTHS[0]),
    ),
    "lstsq": (
        lambda x: (
            *torch.linalg.lstsq(x * 2, x[:, :2]),
            *torch.linalg.lstsq(x[None], x[None, :, 0] + 1, driver="gels"),
            *torch.linalg.lstsq(x.mT, x[:3], driver="gelsd"),
        ),
        (torch.arange(12.0).reshape(4, 3).cos(),),
    ),
    "gaussian_nll_loss": (
        lambda x: (
            functional.gaussian_nll_loss(x, x.sin(), x.abs()),
            functional.gaussian_nll_loss(x, x.sin(), x.abs()[:, 0], full=True, reduction="none"),
            functional.gaussian_nll_loss(x, x.sin(), x.abs()[:1], reduction="sum"),
            functional.gaussian_nll_loss(x, x.sin(), 0.5),
        ),
        (ROWS,),
    ),
    "ctc_loss": (lambda s, t: functional.ctc_loss(s, t, (5, 5, 4), (2, 1, 2)), (SCORES, TARGETS)),
    "ctc_loss by tensors": (functional.ctc_loss, (SCORES, TARGETS, SCORED, LENGTHS)),
}
REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "a tensor in another layout": (
        lambda x: x.to_sparse(),
        "makes a tensor in the layout torch.sparse_coo by aten.to_sparse",
    ),
    "complex numbers in half precision": (lambda x: x.chalf(), "compute them in torch.complex64"),
    "one number for whether all are equal": (
        lambda x: x + torch.equal(x, x),
        "(a == b).all() in the place of torch.equal",
    ),
    "a number of rounds that data decide": (
        lambda x: sum(x * place for place in range(x.long().sum().item())),
        "give sizes as numbers",
    ),
    "lstsq by singular values": (
        lambda x: torch.linalg.lstsq(x.tile(9, 1), x.tile(9, 1), driver="gelsd")[0],
        "take the driver gelsy",
    ),
}


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("name", TRACEABLE)
def test_a_function_that_looks_at_its_arguments_does_as_eager_pytorch(name: str) -> None:
    code, given = TRACEABLE[name]
    made = hetpart.partition(Called(code), args=given, hardware=EMULATED).to_module(emulate=True)(*given)
    torch.testing.assert_close(made, code(*given), equal_nan=True)


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_plan_can_do_is_refused_with_what_to_do(name: str) -> None:
    code, words = REFUSED[name]
    with pytest.raises(InvalidModelError, match=re.escape(words)):
        hetpart.partition(Called(code), args=(ROWS,), hardware=EMULATED)
