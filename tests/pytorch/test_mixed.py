"""Tensors of several types in one operator, as eager PyTorch has it."""

from __future__ import annotations

import copy
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
    "rows that are set to a number": (lambda x, y, p: x.clone().index_put_((p,), y.sum()), (ROWS, WIDE, PLACES)),
    "a mask set to values": (lambda x, y: x.clone().index_put_((x > 0,), y[x > 0]), (ROWS, WIDE)),
    "a mask added to": (lambda x, y: x.clone().index_put_((x > 0,), y.sum(), accumulate=True), (ROWS, WIDE)),
    "two masks": (lambda x, y: x.clone().index_put_((x[:, 0] > 9, x[0] > 9), y.sum()), (ROWS, WIDE)),
    "rows that are added": (lambda x, y, p: x.index_add(0, p, y), (ROWS, WIDE, PLACES)),
    "rows that are copied": (lambda x, y, p: x.index_copy(0, p, y), (ROWS, WIDE, PLACES)),
}

FILLED: dict[str, tuple[Tensor, Tensor]] = {
    "float16": (ROWS.half(), torch.tensor(-1e4)),
    "float32": (ROWS, torch.tensor(0.1, dtype=torch.float64)),
    "float64": (WIDE, torch.tensor(3)),
    "bfloat16": (HALF, torch.tensor([-0.3])),
    "int64": (torch.arange(32).reshape(4, 8), torch.tensor(-7, dtype=torch.int32)),
    "whole numbers by a real one": (torch.arange(32).reshape(4, 8), torch.tensor(-7.9)),
    "a true one": (ROWS, torch.tensor(True)),
}
"""What a mask sets, and a number in another type."""


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


@pytest.mark.parametrize("name", FILLED)
def test_masks_set_numbers_of_any_type(name: str) -> None:
    def filled(x: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        whole, column, least = x.clone(), x.clone(), x.clone()
        whole[x > 1] = value
        column[:, x[0] > 1] = value
        least[x > 1] = x.double().min()
        return whole, column, least

    x, value = FILLED[name]
    run = hetpart.partition(Called(filled), args=(x, value), hardware=EMULATED).to_module(emulate=True)
    torch.testing.assert_close(run(x, value), filled(x, value), rtol=0, atol=0)


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


EQUATIONS = ("ij,kj->ik", "ij,ik->ijk", "ij,ij->", "ij,kj,k->ik", "ij,kj")


@pytest.mark.parametrize(
    ("x", "y"), [(ROWS, HALF), (HALF, ROWS), (ROWS, ROWS), (HALF, HALF)], ids=lambda it: str(it.dtype)
)
def test_sums_of_products_are_cast_where_autocast_is_on(x: Tensor, y: Tensor) -> None:
    def summed(equation: str, x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            products = torch.einsum(equation, x, y, *[y[:, 0]][: equation.count(",") - 1])
            return products * 2 if products.dtype == torch.bfloat16 else products

    def code(x: Tensor, y: Tensor) -> dict[str, Tensor]:
        return {equation: summed(equation, x, y) for equation in EQUATIONS}

    run = hetpart.partition(Called(code), args=(x, y), hardware=EMULATED).to_module(emulate=True)
    torch.testing.assert_close(run(x, y), code(x, y), rtol=0.02, atol=0.1)


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


AROUND: dict[str, tuple[nn.Module, tuple[Tensor, ...]]] = {
    "conv1d": (nn.Conv1d(4, 2, 3), (ROWS[None],)),
    "conv2d": (nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), (ROWS[None, None],)),
    "lstm": (nn.LSTM(8, 3, batch_first=True), (ROWS[None],)),
    "einsum": (Called(lambda x, y: torch.einsum("ij,kj->ik", x, y)), (ROWS, HALF)),
    "eigenvalues": (Called(lambda x: torch.linalg.eigvalsh((x @ x.mT).float() + torch.eye(4))), (ROWS,)),
}
"""What is planned where autocast is on around it."""


@pytest.mark.usefixtures("needs_eager")
@pytest.mark.parametrize("road", ["partition", "compile"])
@pytest.mark.parametrize("name", AROUND)
def test_a_plan_that_is_made_under_autocast_computes_so_wherever_it_runs(name: str, road: str) -> None:
    module, given = AROUND[name]
    options: Any = {"hardware": EMULATED, "emulate": True}
    torch.compiler.reset()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        expected = module.eval()(*given)
        if road == "compile":
            made = torch.compile(module, backend="hetpart", options=options)(*given)
            torch.testing.assert_close(made, expected, rtol=0.02, atol=0.05)
            return
        run = hetpart.partition(module, args=given, hardware=EMULATED).to_module(emulate=True)
        torch.testing.assert_close(run(*given), expected, rtol=0.02, atol=0.05)
    torch.testing.assert_close(run(*given), expected, rtol=0.02, atol=0.05)


def test_sizes_that_are_exported_again_keep_the_autocast_of_the_first_time() -> None:
    def summed(x: Tensor) -> Tensor:
        return (x @ x.mT) * (2 if x.shape[0] < 3 else 3)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        exported = hetpart.export(Called(summed), args=(ROWS,), dynamic_shapes=(({0: "rows"},),))
        expected = summed(ROWS[:2])
    run = hetpart.partition(exported, shape={"rows": 2}, hardware=EMULATED).to_module(emulate=True)
    torch.testing.assert_close(run(ROWS[:2]), expected, rtol=0.02, atol=0.05)


def test_a_program_is_not_planned_under_autocast() -> None:
    program = torch.export.export(nn.Linear(8, 3), (ROWS,))
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(InvalidModelError, match=r"torch\.autocast is on for cpu where a program is planned") as refused,
    ):
        hetpart.partition(program, hardware=EMULATED)
    assert "outside" in str(refused.value.hint)


@pytest.mark.parametrize("name", ["conv2d", "eigenvalues", "lstm"])
def test_autocast_around_a_run_leaves_a_plan_as_it_is(name: str) -> None:
    module, given = AROUND[name]
    module, given = (module, given) if name == "eigenvalues" else (copy.deepcopy(module).half(), (given[0].half(),))
    run = hetpart.partition(module.eval(), args=given, hardware=EMULATED).to_module(emulate=True)
    with torch.no_grad():
        expected = module(*given)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(run(*given), expected, rtol=0.01, atol=0.01)
