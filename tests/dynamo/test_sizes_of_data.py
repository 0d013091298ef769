"""Sizes that data decide, and that nobody tells before a call, against eager PyTorch on both roads; some are 0."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.decorators import mark_unbacked

import hetpart
from hetpart.dynamo.backend import hetpart as backend
from hetpart.errors import InvalidModelError
from tests.pytorch.test_kept import Called
from tests.pytorch.test_partition import assert_equal

ROWS = torch.tensor([[1.0, 0.0, 2.0], [0.0, -3.0, 0.0], [4.0, 4.0, 1.0]])
COMPILED: dict[str, Any] = {"hardware": "emulated", "emulate": True, "placement": "random:1"}


@pytest.fixture(autouse=True)
def fresh() -> Generator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def of_some_rows(x: Tensor) -> tuple[Tensor, ...]:
    some = x[x.sum(1) > 0]
    return (
        some.mean(), some.mean(0), some.var(0), *torch.std_mean(some, 1), (some > 0).any(0), some.long().sum(),
        (some.nonzero() + 2**60).sum(0), torch.nn.functional.pad(some, (1, 1)), some.gather(1, (some > 0).long()),
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*degrees of freedom is")
def test_what_is_computed_of_some_rows_is_that_of_no_rows_too() -> None:
    planned = hetpart.partition(Called(of_some_rows), args=(ROWS,), hardware="emulated", placement="random:1")
    run = planned.to_module(emulate=True)
    for x in (ROWS, -ROWS.abs()):
        torch.testing.assert_close(run(x), of_some_rows(x), equal_nan=True)


def test_a_size_that_cannot_be_open_is_refused() -> None:
    def loss(x: Tensor) -> Tensor:
        some = x[x.sum(1) > 0]
        return torch.nn.functional.cross_entropy(some, some[:, 0].long())

    with pytest.raises(InvalidModelError, match="data-dependent"):
        hetpart.partition(Called(loss), args=(ROWS,), hardware="emulated")


def test_results_whose_sizes_data_decide_lie_as_in_eager_pytorch() -> None:
    code: Callable[[Tensor], tuple[Tensor, ...]] = lambda x: (x.nonzero() + 1, x[x > 0] * 2)  # noqa: E731
    compiled = torch.compile(code, backend=backend, options=COMPILED, fullgraph=True)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True), torch.no_grad():
        made, expected = compiled(ROWS), code(ROWS)
    assert_equal(made, expected)
    assert [one.stride() for one in made] == [one.stride() for one in expected]


def test_a_batch_that_nobody_tells_is_planned_for_the_first_call() -> None:
    module, plans = torch.nn.Linear(3, 4).eval(), list[hetpart.PartitionedModel]()
    compiled = torch.compile(module, backend=backend, options={**COMPILED, "on_plan": plans.append})
    mark_unbacked(ROWS, 0)
    with torch.no_grad():
        for x in (ROWS, torch.randn(7, 3), torch.randn(1, 3), torch.zeros(0, 3)):
            assert_equal(compiled(x), module(x))
    assert len(plans) == 1
    assert plans[0].plan.inputs[0].shape == (3, 3)


def test_a_split_that_only_open_sizes_leave_a_sequence_is_run_where_one_can_be() -> None:
    """As GPT-2's queries, keys and values: the plan of one size has a ``Split`` on CUDA, which knows no sequences."""
    weight, bias = torch.randn(6, 24), torch.randn(24)

    def attended(x: Tensor) -> Tensor:
        made = torch.addmm(bias, x.view(-1, x.size(-1)), weight).view(*x.shape[:-1], 24)
        q, k, v = made.split(8, dim=2)
        return (q @ k.mT).softmax(-1) @ v

    compiled = torch.compile(attended, backend=backend, options={**COMPILED, "hardware": "l4"})
    with torch.no_grad():
        for length in (5, 4, 7, 9):
            x = torch.randn(2, length, 6)
            assert_equal(compiled(x), attended(x))


def test_a_size_that_no_axis_is_by_itself_is_the_number_it_comes_of() -> None:
    def rows(x: Tensor, number: int) -> tuple[Tensor, Tensor]:
        return (x * 2 + torch.arange(2 * number + 1)).cumsum(-1), x.sum() + number

    compiled = torch.compile(rows, backend=backend, dynamic=True, options=COMPILED)
    with torch.no_grad():
        for number in (3, 5, 2):
            x = torch.linspace(-1, 1, 4 * (2 * number + 1)).reshape(4, -1)
            assert_equal(compiled(x, number), rows(x, number))
