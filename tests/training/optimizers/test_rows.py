from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hetpart.training.optimizers import (
    FTRL,
    SGD,
    Adagrad,
    AdamW,
    LazyAdam,
    Momentum,
    Optimizer,
    RowOptimizer,
    SparseAdagrad,
    SparseFTRL,
    SparseSGD,
    rowwise,
)
from hetpart.training.optimizers import rows as module

VOCABULARY, WIDTH, TOUCHED, STEPS = 50, 6, 9, 12


def table() -> Tensor:
    return torch.randn((VOCABULARY, WIDTH), generator=torch.Generator().manual_seed(0))


def batches(count: int = STEPS) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        (
            torch.randperm(VOCABULARY, generator=generator)[:TOUCHED],
            torch.randn((TOUCHED, WIDTH), generator=generator),
        )
        for _ in range(count)
    ]


@pytest.fixture(autouse=True, params=[1 << 17, 4 * WIDTH, 1], ids=["one block", "blocks of four rows", "row by row"])
def _blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_ELEMENTS", request.param)


def run(rule: RowOptimizer, scale: float = 1.0) -> tuple[Tensor, dict[str, Tensor]]:
    weight = table()
    state = rule.init(weight)
    for step, (rows, gradient) in enumerate(batches(), start=1):
        rule.update_rows_(weight, rows, gradient / scale, state, step, rule.lr, scale)
    return weight, state


def test_lazy_adam_is_pytorchs_sparse_adam() -> None:
    rule = LazyAdam(0.05, 0.8, 0.95, 1e-4)
    weight, state = run(rule)
    expected = table().requires_grad_()
    reference = torch.optim.SparseAdam([expected], lr=0.05, betas=(0.8, 0.95), eps=1e-4)
    for rows, gradient in batches():
        expected.grad = torch.sparse_coo_tensor(rows[None], gradient, (VOCABULARY, WIDTH), check_invariants=True)
        reference.step()
    torch.testing.assert_close(weight, expected.detach(), rtol=1e-5, atol=1e-6)
    for name in rule.state_names:
        torch.testing.assert_close(state[name], reference.state[expected][name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("dense", "sparse"),
    [(SGD(0.1), SparseSGD(0.1)), (Adagrad(0.1, 0.2, 0.0, 1e-9, 0.3), SparseAdagrad(0.1, 0.2, 1e-9, 0.3))],
    ids=lambda rule: type(rule).__name__,
)
def test_untouched_rows_need_no_update_of_some_optimizers(dense: Optimizer, sparse: RowOptimizer) -> None:
    assert rowwise(dense) == sparse
    weight, state = run(sparse)
    expected = table()
    reference = dense.init(expected)
    for step, (rows, gradient) in enumerate(batches(), start=1):
        whole = torch.zeros_like(expected).index_copy_(0, rows, gradient)
        dense.update_(expected, whole, reference, step, dense.lr)
    torch.testing.assert_close(weight, expected, rtol=0, atol=1e-7)
    for name in dense.state_names:
        torch.testing.assert_close(state[name], reference[name], rtol=0, atol=1e-7)


@pytest.mark.parametrize("rule", [AdamW(), Momentum(0.1), FTRL(0.1), SGD(0.1, 0.1), Adagrad(weight_decay=0.1)], ids=str)
def test_optimizers_that_move_untouched_rows_have_no_row_optimizer(rule: Optimizer) -> None:
    assert rowwise(rule) is None


def test_ftrl_of_rows_is_ftrl_of_each_row_alone() -> None:
    rule, dense = SparseFTRL(0.1, 0.5, 0.02, 0.1, 0.1), FTRL(0.1, 0.5, 0.02, 0.1, 0.1)
    weight, state = run(rule)
    expected = table()
    reference = dense.init(expected)
    for step, (rows, gradient) in enumerate(batches(), start=1):
        for row, slope in zip(rows.tolist(), gradient, strict=True):
            part = {name: tensor[row] for name, tensor in reference.items()}
            dense.update_(expected[row], slope.clone(), part, step, dense.lr)
    torch.testing.assert_close(weight, expected)
    for name in rule.state_names:
        torch.testing.assert_close(state[name], reference[name])


EVERY = [LazyAdam(), SparseFTRL(0.1, initial_accumulator=0.1), SparseAdagrad(), SparseSGD(0.1)]


@pytest.mark.parametrize("rule", EVERY, ids=lambda rule: type(rule).__name__)
def test_rows_of_one_number_are_updated_as_a_column_of_wider_ones(rule: RowOptimizer) -> None:
    weight, state = run(rule)
    column = table()[:, :1].contiguous()
    own = rule.init(column)
    for step, (rows, gradient) in enumerate(batches(), start=1):
        rule.update_rows_(column, rows, gradient[:, :1], own, step, rule.lr)
    torch.testing.assert_close(column, weight[:, :1])
    for name in rule.state_names:
        torch.testing.assert_close(own[name], state[name][:, :1])


@pytest.mark.parametrize("rule", EVERY, ids=lambda rule: type(rule).__name__)
def test_a_row_that_no_batch_touched_keeps_its_bits(rule: RowOptimizer) -> None:
    assert isinstance(rule, RowOptimizer)
    assert not isinstance(rule, Optimizer)
    weight, state = run(rule)
    untouched = sorted(set(range(VOCABULARY)) - {row for rows, _ in batches() for row in rows.tolist()})
    assert untouched
    assert torch.equal(weight[untouched], table()[untouched])
    for name, initial in rule.init(table()).items():
        assert torch.equal(state[name][untouched], initial[untouched])


@pytest.mark.parametrize("rule", EVERY, ids=lambda rule: type(rule).__name__)
def test_a_scale_is_a_scaled_gradient(rule: RowOptimizer) -> None:
    assert torch.equal(run(rule)[0], run(rule, scale=1 / 1024)[0])


@pytest.mark.parametrize("rule", EVERY, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_a_gradient_stays_as_it_is(rule: RowOptimizer, scale: float) -> None:
    weight, [(rows, gradient)] = table(), batches(1)
    before = gradient.clone()
    rule.update_rows_(weight, rows, gradient, rule.init(weight), 1, rule.lr, scale)
    assert torch.equal(gradient, before)


@pytest.mark.parametrize("rule", EVERY, ids=lambda rule: type(rule).__name__)
def test_no_row_is_no_update(rule: RowOptimizer) -> None:
    weight = table()
    rule.update_rows_(weight, torch.empty(0, dtype=torch.int64), torch.empty(0, WIDTH), rule.init(weight), 1, 0.1)
    assert torch.equal(weight, table())


@pytest.mark.parametrize("rule", EVERY, ids=lambda rule: type(rule).__name__)
def test_a_scaled_gradient_of_another_layout_and_dtype(rule: RowOptimizer) -> None:
    [(rows, gradient)] = batches(1)
    gradient = gradient.bfloat16()
    one, other = table(), table()
    rule.update_rows_(one, rows, gradient.t().contiguous().t(), rule.init(one), 1, rule.lr)
    rule.update_rows_(other, rows, gradient.float(), rule.init(other), 1, rule.lr)
    assert torch.equal(one, other)
