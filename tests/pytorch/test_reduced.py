"""Reductions over an open axis that is 0 in a run, against eager PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import hetpart
from hetpart.errors import InvalidFeedError, InvalidModelError, InvalidOptionError
from tests.pytorch.models import Called

GIVEN = torch.arange(24.0).reshape(3, 4, 2) - 7
EMULATED = "emulated"
OPEN: dict[str, Callable[[Tensor], Any]] = {
    "any": lambda x: (
        (x > 0).any(1), x.any(1, keepdim=True), x.long().any(-2), torch.any(x, (1, 2)), x.any(), (x > 0).any(-1)
    ),
    "all": lambda x: ((x > 0).all(1), x.all(-2, keepdim=True), x.all(), (x > 0).all(-1)),
    "sum": lambda x: (x.sum(1), x.mT.sum(-1, keepdim=True), x.sum((-1, -2)), x.sum(), x.sum(-1), (x > 0).sum(-2)),
    "sum of whole numbers": lambda x: tuple(x.long().sum(dim) for dim in (1, (1, 2), (-1, -2), None)),
    "prod": lambda x: (x.prod(1), x.mT.prod(-1), x.prod()),
    "mean": lambda x: (x.mean(1), x.mean(-2, keepdim=True), x.mean((1, 2)), x.mean(), x.mean(-1)),
    "mean in half precision": lambda x: (x.half().mean(1), x.bfloat16().mean(-2)),
    "mean in float64": lambda x: (x.double().mean(1), x.mean(1, dtype=torch.float64)),
    "var": lambda x: (x.var(1), x.var(-2, keepdim=True), x.var(), x.std(1), x.var(1, correction=3), x.var(-1)),
    "var_mean": lambda x: torch.var_mean(x, 1, keepdim=True),
    "logsumexp": lambda x: (x.logsumexp(1), x.mT.logsumexp(-1, keepdim=True), x.logsumexp(-1)),
    "norm": lambda x: tuple(torch.linalg.vector_norm(x, power, -2) for power in (0, 0.5, 1, 2, 3)),
    "norm that stays": lambda x: tuple(torch.linalg.vector_norm(x, power, -1, keepdim=True) for power in (1, 2, 3)),
    "softmax": lambda x: (x.softmax(1), x.mT.softmax(-1), x.log_softmax(-2), x.softmax(-1)),
    "einsum": lambda x: (torch.einsum("bni,cnj->bcij", x, x), torch.einsum("bni,bnj->ij", x, x)),
    "squared error": lambda x: (functional.mse_loss(x, x + 1), functional.mse_loss(x, x + 1, reduction="sum")),
    "largest of another axis": lambda x: (x.amax(-1), x.argmax(-1), x.max(0).values, x.min(-1).indices),
}  # fmt: skip
REFUSED: dict[str, Callable[[Tensor], Any]] = {
    "amax": lambda x: x.amax(1),
    "amax of all": lambda x: x.amax(),
    "amin of two axes": lambda x: x.amin((-1, -2)),
    "aminmax": lambda x: tuple(torch.aminmax(x, dim=1)),
    "max": lambda x: x.max(),
    "max of an axis": lambda x: x.long().max(-2).values,
    "argmax": lambda x: x.argmax(1),
    "argmax with an axis below 0": lambda x: x.mT.argmax(-1),
    "largest norm": lambda x: torch.linalg.vector_norm(x, math.inf, 1),
    "convolution": lambda x: functional.conv1d(x.mT, torch.ones(4, 2, 2), padding=1),
    "adaptive pool": lambda x: functional.adaptive_max_pool1d(x.mT, 1),
    "norm by a power below 0": lambda x: torch.linalg.vector_norm(x, -2, 1),
}


def _exported(code: Callable[[Tensor], Any]) -> Any:
    return hetpart.export(Called(code), args=(GIVEN,), dynamic_shapes={"given": ({1: torch.export.Dim("rows")},)})


@pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0:UserWarning")
@pytest.mark.parametrize("name", OPEN)
def test_of_none_it_is_eager_pytorchs(name: str) -> None:
    code = OPEN[name]
    exported = _exported(code)
    for rows, bound in ((0, 0), (0, "?"), (2, "?")):
        planned = hetpart.partition(exported, shape={"rows": bound}, placement="random:2", hardware=EMULATED)
        given = GIVEN[:, :rows]
        torch.testing.assert_close(planned.to_module(emulate=True)(given), code(given), equal_nan=True)


@pytest.mark.parametrize("name", REFUSED)
def test_what_eager_pytorch_refuses_of_none_is_refused(name: str) -> None:
    code = REFUSED[name]
    with pytest.raises((IndexError, RuntimeError)):
        code(GIVEN[:, :0])
    exported = _exported(code)
    with pytest.raises(InvalidOptionError, match="rows != 0"):
        hetpart.partition(exported, shape={"rows": 0}, hardware=EMULATED)
    planned = hetpart.partition(exported, shape={"rows": "?"}, placement="random:2", hardware=EMULATED)
    run = planned.to_module(emulate=True)
    with pytest.raises(InvalidFeedError, match="rows != 0"):
        run(GIVEN[:, :0])
    torch.testing.assert_close(run(GIVEN[:, :2]), code(GIVEN[:, :2]))


RECURRENT = torch.nn.GRU(2, 3).requires_grad_(False)
ENDING: dict[str, Callable[[Tensor], Any]] = {
    "group_norm of no rows": lambda x: functional.group_norm(x.transpose(0, 1), 3),
    "group_norm of no elements": lambda x: functional.group_norm(x.mT, 2),
    "instance_norm": lambda x: functional.instance_norm(x.transpose(0, 1)),
    "GRU": lambda x: RECURRENT(x)[0],
}


@pytest.mark.parametrize("name", ENDING)
def test_what_ends_the_process_of_onnx_runtime_is_run_by_pytorch_or_refused(name: str) -> None:
    code = ENDING[name]
    exported = _exported(code)
    with pytest.raises(InvalidOptionError, match="rows != 0"):
        hetpart.partition(exported, shape={"rows": 0}, hardware=EMULATED)
    run = hetpart.partition(exported, shape={"rows": "?"}, hardware=EMULATED).to_module(emulate=True)
    with pytest.raises(InvalidFeedError, match="rows != 0"):
        run(GIVEN[:, :0])
    torch.testing.assert_close(run(GIVEN[:, :2]), code(GIVEN[:, :2]))
    known = hetpart.partition(Called(code), args=(GIVEN[:, :0],), hardware=EMULATED)
    torch.testing.assert_close(known.to_module(emulate=True)(GIVEN[:, :0]), code(GIVEN[:, :0]))


def test_what_is_known_to_be_none_is_refused() -> None:
    with pytest.raises(InvalidModelError, match=r"'max_1' look for one among none, in a tensor of \[3, 0, 2\]"):
        hetpart.partition(Called(lambda x: x.max(1).values), args=(GIVEN[:, :0],), hardware=EMULATED)


def test_axes_that_are_known_keep_the_exporters_operators() -> None:
    planned = hetpart.partition(Called(lambda x: x.mean(-1)), args=(GIVEN,), hardware=EMULATED)
    assert [op.op_type for op in planned.plan.decisions] == ["ReduceMean"]
