"""Tensors of several types in one operator, as eager PyTorch has it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import hetpart
from hetpart.errors import InvalidFeedError, InvalidModelError
from tests.pytorch.test_kept import EMULATED, ROWS, Called

WIDE, HALF, PLACES = ROWS.double(), ROWS.bfloat16(), torch.tensor([2, 0, 1, 3])
IMAGE, KERNEL = torch.ones(1, 2, 5, 5, dtype=torch.float64), torch.ones(2, 2, 3, 3)
MIXED: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "linear": (functional.linear, (WIDE, ROWS)),
    "linear of whole numbers": (functional.linear, (PLACES[None], ROWS[:, :4])),
    "bias": (functional.linear, (HALF, HALF, ROWS[0, :4])),
    "mm": (lambda x, y: x.mm(y.t()), (ROWS, HALF)),
    "matmul": (torch.matmul, (ROWS.mT, WIDE[:, :3])),
    "matmul with complex numbers": (lambda x, y: x.to(torch.complex64) @ y.t(), (ROWS, ROWS)),
    "mv": (torch.mv, (WIDE, ROWS[0])),
    "addmm": (lambda x, y: torch.addmm(y[:, :4], x, x.t()), (ROWS, WIDE)),
    "conv2d": (functional.conv2d, (IMAGE, KERNEL)),
    "conv_transpose2d": (functional.conv_transpose2d, (IMAGE, KERNEL)),
    "grid_sample": (lambda x, y: functional.grid_sample(x, y[:1, :, :, :2], align_corners=False), (IMAGE, KERNEL)),
    "cdist": (torch.cdist, (WIDE, ROWS)),
    "cross": (lambda x, y: torch.linalg.cross(x[:, :3], y[:, :3]), (WIDE, ROWS)),
    "polar": (torch.polar, (ROWS, WIDE)),
    "rows that are set": (lambda x, y, p: x.clone().index_put_((p,), y), (ROWS, WIDE, PLACES)),
    "rows that are added": (lambda x, y, p: x.index_add(0, p, y), (ROWS, WIDE, PLACES)),
    "rows that are copied": (lambda x, y, p: x.index_copy(0, p, y), (ROWS, WIDE, PLACES)),
}


KNOWN: dict[str, tuple[nn.Module, tuple[Tensor, ...]]] = {
    "bmm": (Called(torch.bmm), (ROWS[None], WIDE.mT[None])),
    "attention": (Called(functional.scaled_dot_product_attention), (ROWS[None], WIDE[None], WIDE[None])),
    "prelu": (nn.PReLU(), (WIDE,)),
    "LSTM": (nn.LSTM(8, 3), (WIDE,)),
    "scatter": (Called(lambda x, p, y: x.scatter(0, p[:, None], y)), (ROWS, PLACES, WIDE)),
}
"""What PyTorch's tracer refuses itself."""


class Cast(nn.Module):
    """A product where types are mixed, and one where they are not."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 3)
        with torch.no_grad():
            self.inner.weight.copy_(ROWS[:3] / 4)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.inner(x)


@pytest.mark.parametrize("name", MIXED)
def test_what_eager_pytorch_refuses_is_refused_before_it_is_planned(name: str) -> None:
    code, given = MIXED[name]
    with pytest.raises(RuntimeError):
        code(*given)
    with pytest.raises(InvalidModelError, match="PyTorch mixes no types there") as refused:
        hetpart.partition(Called(code), args=given, hardware=EMULATED)
    assert "x.to(dtype)" in str(refused.value.hint)


@pytest.mark.parametrize("name", KNOWN)
def test_what_the_tracer_refuses_has_the_same_hint(name: str) -> None:
    module, given = KNOWN[name]
    with pytest.raises(InvalidModelError, match=r"torch\.export refuses") as refused:
        hetpart.partition(module, args=given, hardware=EMULATED)
    assert "x.to(dtype)" in str(refused.value.hint)


def test_the_refusal_says_where_and_what() -> None:
    model = nn.Sequential(nn.ReLU(), nn.Sequential(nn.Linear(8, 3)))
    words = "Sequential gives 'linear' of '1.0', "
    with pytest.raises(InvalidModelError, match=re.escape(words) + ".* input in float64, weight in float32"):
        hetpart.partition(model, args=(WIDE,), hardware=EMULATED)


@pytest.mark.parametrize("given", [ROWS, HALF], ids=["float32", "bfloat16"])
def test_types_are_mixed_where_autocast_is_on(given: Tensor) -> None:
    module = Cast()
    made = hetpart.partition(module, args=(given,), hardware=EMULATED).to_module(emulate=True)(given)
    torch.testing.assert_close(made, module(given))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made = hetpart.partition(module.inner, args=(given,), hardware=EMULATED).to_module(emulate=True)(given)
    torch.testing.assert_close(made, module(given))


def test_autocast_leaves_float64_as_it_is() -> None:
    with pytest.raises(RuntimeError):
        Cast()(WIDE)
    with pytest.raises(InvalidModelError, match="of 'inner'"):
        hetpart.partition(Cast(), args=(WIDE,), hardware=EMULATED)


def test_a_call_in_another_type_is_refused_in_words_of_its_library() -> None:
    planned = hetpart.partition(nn.ReLU(), args=(ROWS,), hardware=EMULATED)
    with pytest.raises(InvalidFeedError, match="has dtype float64, planned was float32") as refused:
        planned.to_module(emulate=True)(WIDE)
    assert ".to(torch.float32)" in str(refused.value.hint)
    with pytest.raises(InvalidFeedError) as refused, planned.session(emulate=True) as session:
        session.run(None, {"input": WIDE.numpy()})
    assert ".astype('float32')" in str(refused.value.hint)
