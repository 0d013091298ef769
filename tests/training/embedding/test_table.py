from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor
from torch.nn.functional import embedding, embedding_bag

from hetpart.errors import HetpartError, InvalidFeedError, InvalidOptionError
from hetpart.training.embedding import (
    Bags,
    Table,
    flush,
    lookup,
    lookup_bags,
    mapped,
    mapped_table,
    row_gradients,
    unique,
)
from hetpart.training.embedding import bags as module
from hetpart.training.optimizers import AdamW, LazyAdam, RowOptimizer, SparseAdagrad, SparseFTRL, SparseSGD

VOCABULARY, WIDTH, BATCH, SLOTS = 40, 8, 16, 3


@pytest.fixture(autouse=True, params=[1 << 17, 4 * WIDTH], ids=["one block", "blocks of four rows"])
def _blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_ELEMENTS", request.param)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def weights() -> Tensor:
    return torch.randn((VOCABULARY, WIDTH), generator=generator())


def batch(step: int) -> Tensor:
    return torch.randint(0, VOCABULARY, (BATCH, SLOTS), generator=generator(step))


def loss(looked_up: Tensor) -> Tensor:
    return (looked_up * torch.linspace(-1, 1, looked_up.numel()).view_as(looked_up)).tanh().square().sum()


def eager(rule: RowOptimizer, steps: int) -> Tensor:
    """PyTorch's own sparse embedding and optimizer."""
    module = torch.nn.Embedding(VOCABULARY, WIDTH, sparse=True, _weight=weights())
    optimizers = {
        LazyAdam: lambda p: torch.optim.SparseAdam(p, lr=rule.lr),
        SparseSGD: lambda p: torch.optim.SGD(p, lr=rule.lr),
        SparseAdagrad: lambda p: torch.optim.Adagrad(p, lr=rule.lr),
    }
    optimizer = optimizers[type(rule)](list(module.parameters()))
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        with torch.sparse.check_sparse_tensor_invariants():
            loss(module(batch(step))).backward()
            optimizer.step()
    return module.weight.detach()


RULES = [LazyAdam(0.05), SparseSGD(0.1), SparseAdagrad(0.1)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_training_on_distinct_rows_is_pytorchs_sparse_training(rule: RowOptimizer) -> None:
    table = Table.of(weights(), rule)
    for step in range(1, 11):
        picked = table.pick(batch(step))
        leaf = picked.rows.requires_grad_()
        loss(embedding(picked.inverse, leaf)).backward()
        assert leaf.grad is not None
        table.update_(picked.unique.ids, leaf.grad, step, rule.lr)
    torch.testing.assert_close(table.weight, eager(rule, 10), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_training_on_looked_up_rows_is_pytorchs_sparse_training(rule: RowOptimizer) -> None:
    table = Table.of(weights(), rule)
    buffer = torch.empty(BATCH, SLOTS, WIDTH)
    for step in range(1, 11):
        ids = batch(step)
        leaf = lookup(table.weight, ids, out=buffer).requires_grad_()
        (gradient,) = torch.autograd.grad(loss(leaf), leaf)
        leaf.requires_grad_(False)
        table.update_looked_up_(gradient, unique(ids), step, rule.lr)
    torch.testing.assert_close(table.weight, eager(rule, 10), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_a_lookup_fills_the_buffer_it_is_given(dtype: torch.dtype) -> None:
    ids, buffer = batch(0).to(dtype), torch.full((BATCH, SLOTS, WIDTH), 7.0)
    assert lookup(weights().requires_grad_(), ids, out=buffer).data_ptr() == buffer.data_ptr()
    assert torch.equal(buffer, weights()[ids.long()])
    assert torch.equal(lookup(weights(), ids), buffer)


@pytest.mark.parametrize("table", [weights()[:, :1], weights()[:, :1].contiguous(), weights()[:, :0]], ids=len)
@pytest.mark.parametrize("shape", [(BATCH, SLOTS), (5,), (0, SLOTS)], ids=str)
def test_rows_of_one_number_and_of_none_are_looked_up_as_others_are(table: Tensor, shape: tuple[int, ...]) -> None:
    ids = torch.randint(0, VOCABULARY, shape, generator=generator())
    assert torch.equal(lookup(table, ids), table[ids])


def ragged() -> Bags:
    lengths = torch.tensor([3, 0, 1, 12, 5, 0, 2, 2, 30, 1, 0])
    count = int(lengths.sum())
    return Bags(
        torch.randint(0, VOCABULARY, (count,), generator=generator()),
        lengths.cumsum(0) - lengths,
        torch.rand(count, generator=generator()),
    )


BAGS = {
    "ragged": ragged(),
    "ragged, unweighted": Bags(ragged().ids, ragged().offsets),
    "fixed": Bags.of(torch.randint(0, VOCABULARY, (9, 30), generator=generator())),
    "fixed, weighted": Bags.of(
        torch.randint(0, VOCABULARY, (9, 4), generator=generator(), dtype=torch.int32),
        torch.rand((9, 4), generator=generator()),
    ),
    "none": Bags(torch.empty(0, dtype=torch.int64), torch.zeros(3, dtype=torch.int64)),
}


@pytest.mark.parametrize("bags", BAGS.values(), ids=BAGS)
def test_bags_are_pytorchs_embedding_bag(bags: Bags) -> None:
    leaf = weights().requires_grad_()
    expected = embedding_bag(
        bags.ids.long(), leaf, bags.offsets, mode="sum", per_sample_weights=bags.weights, include_last_offset=False
    )
    buffer = torch.full((len(bags.offsets), WIDTH), 7.0)
    torch.testing.assert_close(lookup_bags(leaf, bags, out=buffer), expected)
    torch.testing.assert_close(lookup_bags(leaf, bags), expected)
    gradient = torch.randn(expected.shape, generator=generator(3))
    (dense,) = torch.autograd.grad(expected, leaf, gradient)
    found = unique(bags.ids)
    torch.testing.assert_close(row_gradients(gradient, found, bags), dense[found.ids])


@pytest.mark.parametrize("bags", BAGS.values(), ids=BAGS)
@pytest.mark.parametrize("rule", [*RULES, SparseFTRL(0.1)], ids=lambda rule: type(rule).__name__)
def test_an_update_from_bags_is_one_from_their_rows_gradients(bags: Bags, rule: RowOptimizer) -> None:
    found, gradient = unique(bags.ids), torch.randn((len(bags.offsets), WIDTH), generator=generator(3))
    one, other = Table.of(weights(), rule), Table.of(weights(), rule)
    one.update_bags_(gradient, bags, found, 1, rule.lr)
    other.update_(found.ids, row_gradients(gradient, found, bags), 1, rule.lr)
    assert torch.equal(one.weight, other.weight)
    assert torch.equal(one.weight, weights()) == (not len(found.ids))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_gradients_may_come_in_half_precision(dtype: torch.dtype) -> None:
    ids = batch(0)
    gradient = torch.randint(-8, 9, (BATCH, SLOTS, WIDTH), generator=generator()).to(dtype)  # sums of these are exact
    one, other = Table.of(weights(), LazyAdam()), Table.of(weights(), LazyAdam())
    one.update_looked_up_(gradient, unique(ids), 1, 0.1)
    other.update_looked_up_(gradient.float(), unique(ids), 1, 0.1)
    assert torch.equal(one.weight, other.weight)


def test_an_id_that_is_no_row_is_refused() -> None:
    with pytest.raises(InvalidFeedError, match="the table has 40 rows"):
        Table.of(weights(), LazyAdam()).pick(torch.tensor([0, VOCABULARY]))


def test_an_optimizer_of_whole_parameters_is_none_of_a_tables() -> None:
    with pytest.raises(InvalidOptionError, match="the optimizer of a table cannot be AdamW"):
        Table.of(weights(), cast("Any", AdamW()))


def test_a_mapped_table_trains_as_one_in_memory_and_is_there_when_opened_again(tmp_path: Path) -> None:
    rule = SparseFTRL(0.1, initial_accumulator=0.5)
    path = tmp_path / "tables" / "wide"
    ours = mapped_table(path, (VOCABULARY, WIDTH), rule, std=0.1, seed=3)
    plain = Table.of(ours.weight.clone(), rule)
    for step in range(1, 6):
        found = unique(batch(step))
        gradient = torch.randn((len(found.ids), WIDTH), generator=generator(step))
        for table in (ours, plain):
            table.update_(found.ids, gradient.clone(), step, rule.lr)
    flush(path)
    again = mapped_table(path, (VOCABULARY, WIDTH), rule, std=0.1, seed=4)
    assert torch.equal(again.weight, plain.weight)
    for name in rule.state_names:
        assert torch.equal(again.state[name], plain.state[name])


def test_a_mapped_table_is_seeded(tmp_path: Path) -> None:
    one, same, other = (
        mapped_table(tmp_path / name, (30, 5), SparseSGD(0.1), std=0.5, seed=seed).weight
        for name, seed in [("a", 1), ("b", 1), ("c", 2)]
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert 0.3 < float(one.std()) < 0.7


def test_a_file_of_zeros_takes_no_room(tmp_path: Path) -> None:
    tensor = mapped(tmp_path / "huge", (10_000_000_000, 16))
    assert tensor.shape == (10_000_000_000, 16)
    table = Table.of(tensor[:0], SparseSGD(0.1))  # the optimizer has no state to make
    Table(tensor, table.optimizer, {}).update_(torch.tensor([9_999_999_999]), torch.ones(1, 16), 1, 0.5)
    assert tensor[-1].tolist() == [-0.5] * 16
    assert (tmp_path / "huge").stat().st_blocks * 512 < 1_000_000


def test_a_file_of_another_size_is_refused(tmp_path: Path) -> None:
    mapped(tmp_path / "table", (4, 4))
    with pytest.raises(InvalidOptionError, match="holds 64 bytes, where 80 are asked for"):
        mapped(tmp_path / "table", (5, 4))


KILLED = """
import os, sys
from hetpart.training.embedding import mapped_table
from hetpart.training.optimizers import SparseAdagrad
own = sys.modules["hetpart.training.embedding.mapped"]
whole = own.flat_blocks
def some(tensor):
    for (block,) in whole(tensor[:10]):
        yield (block,)
    os._exit(9)
own.flat_blocks = some
mapped_table(sys.argv[1], (30, 5), SparseAdagrad(0.1), std=0.5, seed=1)
"""


def test_a_table_whose_making_was_killed_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "table"
    assert subprocess.run([sys.executable, "-c", KILLED, path], check=False).returncode == 9
    assert not path.exists()
    rule = SparseAdagrad(0.1, initial_accumulator=0.5)
    table, other = (mapped_table(tmp_path / name, (30, 5), rule, std=0.5, seed=1) for name in ("table", "other"))
    assert torch.equal(table.weight, other.weight)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["other", "other.sum", "table", "table.sum"]


def test_a_state_whose_making_was_interrupted_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Tensor:
        raise KeyboardInterrupt

    monkeypatch.setattr(Tensor, "fill_", interrupted)
    with pytest.raises(KeyboardInterrupt):
        mapped(tmp_path / "state", (4, 4), fill=0.5)
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    assert mapped(tmp_path / "state", (4, 4), fill=0.5).unique().tolist() == [0.5]


def test_a_table_that_no_disk_holds_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(HetpartError, match="a table of 256000000000000 bytes") as error:
        mapped(tmp_path / "huge", (10**12, 64))
    assert "a disk that takes a file of its size" in error.value.hint
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shape", [(50.0, 6), (-1, 6), 50, ("5", 6)])
def test_a_shape_of_no_numbers_is_refused_before_a_file_is_made(tmp_path: Path, shape: Any) -> None:
    with pytest.raises(InvalidOptionError, match="a table of shape"):
        mapped(tmp_path / "table", shape)
    assert not list(tmp_path.iterdir())
