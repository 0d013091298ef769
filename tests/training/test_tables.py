# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false, reportArgumentType=false, reportUnknownLambdaType=false
"""Tables of a compiled step against eager PyTorch's gradients and plain formulas, wherever they are placed."""

from __future__ import annotations

import copy
import re
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from hetpart.errors import InvalidFeedError, InvalidModelError
from hetpart.report.page import Evidence, render
from hetpart.training import SGD, AdamW, Group, Groups, LazyAdam, SparseSGD
from hetpart.training.compiled import CapturedStep, Running, capture, place
from hetpart.training.rules import Rules
from hetpart.training.step import Step
from hetpart.units import format_bytes

ROWS, WIDTH, BATCH = 40, 4, 6
PLACEMENTS = ("optimal", "all-accelerator", "random:1", "random:2")
RULES = Groups(SGD(0.01), (Group("tables.*", LazyAdam(0.002)),))
Batch = tuple[Tensor, ...]


class Looking(nn.Module):
    """Rows, bags of both forms, a table that three lookups share, and weights with and without a gradient."""

    def __init__(self) -> None:
        super().__init__()
        bags: dict[str, Any] = {
            "summed": nn.EmbeddingBag(ROWS, WIDTH, mode="sum", include_last_offset=True, padding_idx=3),
            "mean": nn.EmbeddingBag(ROWS, WIDTH, mode="mean", padding_idx=5),
            "weighted": nn.EmbeddingBag(ROWS, WIDTH, mode="sum", padding_idx=2),
        }
        self.tables = nn.ModuleDict({"rows": nn.Embedding(ROWS, WIDTH, padding_idx=0), **bags})
        self.importance = nn.Parameter(torch.rand(2 * BATCH))
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, ids: Tensor, flat: Tensor, offsets: Tensor, weights: Tensor) -> Tensor:
        tables: Any = self.tables
        bounds = torch.cat((offsets, offsets.new_full((1,), flat.numel())))
        x = tables["rows"](ids).sum(1) + tables["mean"](ids) + tables["mean"](flat, offsets)
        x = x + functional.embedding(ids + 1, tables["mean"].weight).sum(1)
        x = x + tables["summed"](flat, bounds, per_sample_weights=weights)
        x = x + functional.embedding_bag(flat, tables["weighted"].weight, offsets, mode="sum", padding_idx=-2)
        return self.head(x + tables["weighted"](flat, offsets, per_sample_weights=self.importance)).squeeze(1)


def loss_of(model: nn.Module, *batch: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(model(*batch[:-1]), batch[-1])


def batch_of(seed: int) -> Batch:
    drawn = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, ROWS - 1, (BATCH, 2), generator=drawn)
    flat = torch.randint(0, ROWS, (2 * BATCH,), generator=drawn)
    offsets = torch.tensor([0, 0, 3, 4, 4, 9])  # the first bag is empty, and one in the middle
    label = torch.randint(0, 2, (BATCH,), generator=drawn).float()
    return ids, flat, offsets, torch.rand(2 * BATCH, generator=drawn), label


BATCHES = [batch_of(seed) for seed in range(4)]


@cache
def model_of() -> nn.Module:
    torch.manual_seed(0)
    return Looking()


@cache
def captured(parts: int = 1) -> CapturedStep:
    rules = Rules(accumulate=parts)
    return capture(model_of(), loss_of, optimizer=RULES, example_batch=BATCHES[0], rules=rules)


def placed(placement: str = "random:1", parts: int = 1, **options: Any) -> Step:
    running = Running(emulate=True, threads=1)
    return place(captured(parts), running=running, hardware="emulated", placement=placement, **options)


def asked_for(*batches: Batch) -> dict[str, set[int]]:
    """The rows of every table that batches have gradients for."""
    ids, flat = (set(torch.cat([batch[part].flatten() for batch in batches]).tolist()) for part in range(2))
    rows = {"rows": ids - {0}, "summed": flat - {3}, "weighted": flat - {2} | flat - {ROWS - 2}}
    return rows | {"mean": (ids | flat) - {5} | {number + 1 for number in ids}}


def eager(model: nn.Module, updates: int, parts: int = 1) -> list[float]:
    """PyTorch's gradients of whole tables, and the formulas of a lazy Adam in the rows that are asked for."""
    tables = {name: model.get_parameter(f"tables.{name}.weight") for name in asked_for(BATCHES[0])}
    moments = {name: (torch.zeros_like(table), torch.zeros_like(table)) for name, table in tables.items()}
    losses: list[float] = []
    for number in range(1, updates + 1):
        batches = [BATCHES[((number - 1) * parts + part) % 4] for part in range(parts)]
        model.zero_grad()
        found = [loss_of(model, *batch) for batch in batches]
        (sum(found, torch.zeros(())) / parts).backward()
        losses += [loss.item() for loss in found]
        with torch.no_grad():
            for name, table in tables.items():
                rows, (first, second) = sorted(asked_for(*batches)[name]), moments[name]
                slope: Any = table.grad
                first[rows] = 0.9 * first[rows] + 0.1 * slope[rows]
                second[rows] = 0.999 * second[rows] + 0.001 * slope[rows] ** 2
                rate = 0.002 * (1 - 0.999**number) ** 0.5 / (1 - 0.9**number)
                table[rows] -= rate * first[rows] / (second[rows].sqrt() + 1e-8)
            for name, parameter in model.named_parameters():
                if not name.startswith("tables."):
                    parameter -= 0.01 * parameter.grad  # pyright: ignore[reportOperatorIssue]
    return losses


@cache
def learnt(updates: int, parts: int = 1) -> tuple[list[float], nn.Module]:
    """What eager PyTorch loses, and what it makes of the model."""
    model = copy.deepcopy(model_of())
    return eager(model, updates, parts), model


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_hundred_losses_and_all_rows_are_those_of_eager_pytorch(placement: str) -> None:
    step, ours, (wanted, model) = placed(placement), copy.deepcopy(model_of()), learnt(100)
    assert [step(*BATCHES[n % 4]).item() for n in range(100)] == pytest.approx(wanted, rel=1e-5)
    step.sync_to(ours)
    for (name, mine), theirs in zip(ours.named_parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("placement", ["optimal", "random:2"])
def test_parts_of_a_batch_make_one_update_of_the_rows_of_all(placement: str, tmp_path: Path) -> None:
    step, ours, (wanted, model) = placed(placement, 3), copy.deepcopy(model_of()), learnt(30, 3)
    losses = [step(*BATCHES[n % 4]).item() for n in range(61)]
    step.save_checkpoint(tmp_path)
    losses += [step(*BATCHES[n % 4]).item() for n in range(61, 90)]
    assert losses == pytest.approx(wanted, rel=1e-5)
    assert step.steps == 30
    step.sync_to(ours)
    for (name, mine), theirs in zip(ours.named_parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5, msg=name)
    again = placed(placement, 3)
    again.load_checkpoint(tmp_path)  # within a batch
    assert [again(*BATCHES[n % 4]).item() for n in range(61, 90)] == losses[61:]


def test_parts_of_a_batch_have_one_norm() -> None:
    """One that is too small to be clipped changes nothing, and bags of parts that are yet to come are not looked at."""
    rules = Rules(accumulate=3, clip_norm=1e6)
    made = capture(model_of(), loss_of, optimizer=RULES, example_batch=BATCHES[0], rules=rules)
    step = place(made, running=Running(emulate=True, threads=1), hardware="emulated", placement="random:1")
    losses = [step(*BATCHES[n % 4]).item() for n in range(12)]
    assert losses == pytest.approx(eager(copy.deepcopy(model_of()), 4, 3), rel=1e-5)
    assert step.norm is not None
    assert 0.0 < step.norm < 10.0


def test_rows_that_no_batch_asks_for_keep_their_bits() -> None:
    step, ours, before = placed(), copy.deepcopy(model_of()), model_of()
    step(*BATCHES[0])
    step.sync_to(ours)
    for name, rows in asked_for(BATCHES[0]).items():
        changed = (ours.get_parameter(f"tables.{name}.weight") != before.get_parameter(f"tables.{name}.weight")).any(1)
        assert set(changed.nonzero().flatten().tolist()) == rows, name


def test_a_table_and_what_reads_it_share_a_device_and_the_state_is_held_once() -> None:
    for placement in PLACEMENTS:
        step = placed(placement)
        devices = {decision.op: decision.device for decision in step.plan.decisions}
        for name, count in {"rows": 1, "summed": 1, "mean": 3, "weighted": 1}.items():
            lookups = [f"lookup/tables.{name}.weight" + (f"/{k}" if k else "") for k in range(count)]
            assert {devices[op] for op in lookups} == {devices[f"update/tables.{name}.weight"]}
        tables = 4 * ROWS * WIDTH * 4
        dense = sum(parameter.nbytes for parameter in model_of().parameters()) - tables
        assert step.session.state().nbytes == 3 * tables + dense


@pytest.mark.parametrize("placement", ["all-accelerator", "random:1"])
def test_the_report_tells_updates_lookups_and_state_of_every_device(placement: str) -> None:
    step = placed(placement)
    told = step.report(width=150).partition("Training  ")[2].partition("Partitions  ")[0]
    for use in step.plan.devices:
        own = [decision for decision in step.plan.decisions if decision.device == use.device]
        updates = [decision.op_type for decision in own if decision.op.startswith("update/")]
        (row,) = (row for row in told.splitlines() if row.strip().startswith(f"{use.device} "))
        tables = updates.count("hetpart.lazyadam.default")
        assert ("lazyadam" in row) == bool(tables)
        assert tables < 2 or f"lazyadam ×{tables}" in row
        lookups = sum(decision.op.startswith("lookup/") for decision in own)
        assert re.search(rf"  {lookups or '–'}  .*  {re.escape(format_bytes(use.state_bytes) if own else '–')}$", row)


def test_the_page_tells_the_same() -> None:
    step = placed("random:1")
    told = [" ".join(line.split()) for line in step.report(width=400).splitlines()]
    section = re.search(r'<section id="training".*?</section>', render(Evidence(step.plan)), re.DOTALL)
    assert section is not None
    words = " ".join(unescape(re.sub(r"<[^>]*>|[●■]", " ", section[0])).split())
    for use in step.plan.devices:
        row, beside = (line for line in told if re.match(rf"{use.device}( [a-z].*(B|–)$|: its updates)", line))
        assert row in words
        assert beside in words


@pytest.mark.parametrize("wrong", [-1, ROWS])
def test_an_id_that_is_no_row_is_told_and_nothing_is_updated(wrong: int) -> None:
    step = placed()
    before = step.state_dict()["tensors"]
    ids, flat, *rest = BATCHES[0]
    flat = flat.clone()
    flat[4] = wrong
    with pytest.raises(InvalidFeedError, match=rf"ids of 'tables\.\w+\.weight' go from .*{wrong}.*has {ROWS} rows"):
        step(ids, flat, *rest)
    assert step.steps == 0
    assert all(torch.equal(after, before[name]) for name, after in step.state_dict()["tensors"].items())
    step(*BATCHES[0])


class Towers(nn.Module):
    """Two that know nothing of each other: one may be updated before the other is looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other, self.head = nn.Embedding(ROWS, WIDTH), nn.Embedding(ROWS, WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, ids: Tensor, others: Tensor) -> Tensor:
        return self.one(ids).sum() + self.head(self.other(others)).square().sum()


@pytest.mark.parametrize("overlap", [False, True])
def test_no_tower_is_updated_where_another_has_an_id_that_is_no_row(overlap: bool) -> None:
    torch.manual_seed(0)
    good, bad = torch.randint(0, ROWS, (2, 5))[0], torch.full((5,), ROWS)
    rows = Groups(SGD(0.1), (Group(("one.*", "other.*"), SparseSGD(0.1)),))
    step_of = capture(Towers(), lambda model, *ids: model(*ids), optimizer=rows, example_batch=(good, good))
    running = Running(emulate=True, threads=1, overlap=overlap)
    for number in range(1, 10):
        step = place(step_of, running=running, hardware="emulated", placement=f"random:{number}")
        before = step.state_dict()["tensors"]
        for batch in ((good, bad), (bad, good)):
            with pytest.raises(InvalidFeedError, match=f"go from {ROWS} to {ROWS}"):
                step(*batch)
        assert all(torch.equal(after, before[name]) for name, after in step.state_dict()["tensors"].items()), number
        step(good, good)
        step.close()


def test_bags_that_do_not_end_with_the_ids_are_refused() -> None:
    step = placed()
    ids, flat, _, *rest = BATCHES[0]
    with pytest.raises(InvalidFeedError, match="bags go from 1 to 12"):
        step(ids, flat, torch.tensor([1, 1, 3, 4, 4, 9]), *rest)


def test_bags_that_go_back_are_refused_before_anything_is_updated() -> None:
    step = placed()
    before = step.state_dict()["tensors"]
    ids, flat, _, *rest = BATCHES[0]
    with pytest.raises(InvalidFeedError, match=r"offsets of bags go back: \[0, 5, 3"):
        step(ids, flat, torch.tensor([0, 5, 3, 4, 4, 9]), *rest)
    assert all(torch.equal(tensor, before[name]) for name, tensor in step.state_dict()["tensors"].items())


def test_a_batch_without_ids_updates_nothing() -> None:
    table, none = nn.Embedding(ROWS, WIDTH), torch.zeros(0, 2, dtype=torch.int64)
    captured = capture(table, looked_up_and_more, optimizer=LazyAdam(), example_batch=(none,))
    step = place(captured, running=Running(emulate=True, threads=1), hardware="emulated", placement="all-accelerator")
    assert step(none).item() == 1.0
    assert torch.equal(step.state_dict()["tensors"]["weight"], table.weight)


def looked_up_and_more(model: nn.Module, ids: Tensor) -> Tensor:
    return model(ids).sum() + 1.0


class Tied(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        scaled = kind == "scaled"
        self.table = nn.Embedding(ROWS, WIDTH, scale_grad_by_freq=scaled, max_norm=1.0 if kind == "capped" else None)
        self.largest = nn.EmbeddingBag(ROWS, WIDTH, mode="max")
        self.head = nn.Linear(WIDTH, ROWS, bias=False)
        if kind == "tied":
            self.head.weight = self.table.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.largest(ids) if self.kind == "largest" else self.table(ids).sum(1)
        return self.head(x).logsumexp(1).mean()


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("tied", "reads it otherwise .*linear.* tied output layer"),
        ("scaled", "scales gradients by how often"),
        ("largest", "takes the largest of its rows"),
        ("capped", "is of a lookup with max_norm"),
    ],
)
def test_what_has_no_gradient_of_rows_is_refused(kind: str, why: str) -> None:
    rules = Groups(AdamW(0.1), (Group(("table.*", "largest.*"), SparseSGD(0.1)),))
    ids = BATCHES[0][0]
    with pytest.raises(InvalidModelError, match=rf"'\w+\.weight' is updated by rows, and \w+ {why}") as refused:
        capture(Tied(kind), nn.Module.__call__, optimizer=rules, example_batch=(ids,))
    assert ("optimizer of whole parameters" in refused.value.hint) is (kind != "capped")  # which is refused as well
