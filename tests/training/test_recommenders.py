# pyright: reportUnknownMemberType=false
"""Wide&Deep and DLRM, compiled as wholes, against gradients of eager PyTorch and formulas of papers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks.by_hand import ByHand, adam, ftrl, plain_adam, sgd
from benchmarks.models.recommenders import DLRM, WideDeep, clicked
from hetpart.errors import InvalidModelError, InvalidOptionError
from hetpart.training import SGD, Adam, Group, Groups, LazyAdam, SparseFTRL, SparseSGD
from hetpart.training.compiled import CapturedStep, Running, capture, place, plan
from hetpart.training.data import Clicks
from hetpart.training.embedding import fill_normal_, mapped
from hetpart.training.rules import Rules
from hetpart.training.step import Step

FIELDS, ROWS, CROSSED = 6, 120, 50
CARDINALITIES = (9, 200, 3, 41)
FTRL = SparseFTRL(0.05, beta=0.0, l1=1e-8, l2=1e-8, initial_accumulator=1.0)
WIDE_AND_DEEP = Groups(Adam(3.5e-4), (Group("deep.*", LazyAdam(3.5e-4)), Group(("wide.*", "crossed.*"), FTRL)))
PLACEMENTS = ("optimal", "all-accelerator", "random:1", "random:2")


@dataclass(frozen=True)
class Task:
    model: nn.Module
    batches: Sequence[tuple[Tensor, ...]]
    optimizer: Any
    by_hand: Callable[[nn.Module], ByHand]


def wide_and_deep() -> Task:
    torch.manual_seed(0)
    model = WideDeep(ROWS, CROSSED, fields=FIELDS, width=8, hidden=(32, 16))
    ids = Clicks([ROWS] * FIELDS, 16, 4, dense=0)
    drawn = torch.Generator().manual_seed(1)
    crossed = [torch.randint(0, CROSSED, (16, 30), generator=drawn) for _ in range(4)]
    values = [torch.rand(16, FIELDS, generator=drawn) for _ in range(4)]
    batches = [(found, v, c, label) for (found, _, label), v, c in zip(ids, values, crossed, strict=True)]
    wide = ftrl(0.05, 1e-8, 1e-8, accumulator=1.0)
    rules = {"deep": adam(3.5e-4), "wide": wide, "crossed": wide, "": plain_adam(3.5e-4)}
    return Task(model, batches, WIDE_AND_DEEP, lambda model: ByHand(model, clicked, rules, initial=1.0))


def dlrm() -> Task:
    torch.manual_seed(0)
    model = DLRM(CARDINALITIES, width=8, dense=5, bottom=(16,), top=(32, 16))
    batches = [(ids, dense, label) for ids, dense, label in Clicks(CARDINALITIES, 16, 4, dense=5)]
    optimizer = Groups(SGD(0.1), (Group("tables.*", SparseSGD(0.1)),))
    return Task(model, batches, optimizer, lambda model: ByHand(model, clicked, {"": sgd(0.1)}))


TASKS = {"wide_and_deep": wide_and_deep, "dlrm": dlrm}


@cache
def task_of(name: str) -> Task:
    return TASKS[name]()


@cache
def captured(name: str) -> CapturedStep:
    task = task_of(name)
    return capture(task.model, clicked, optimizer=task.optimizer, example_batch=task.batches[0])


def placed(name: str, placement: str, **options: Any) -> Step:
    running = Running(emulate=True, threads=1)
    return place(captured(name), running=running, hardware="emulated", placement=placement, **options)


def losses_of(step: Step, task: Task, steps: int) -> list[float]:
    return [step(*task.batches[(step.steps) % len(task.batches)]).item() for _ in range(steps)]


@cache
def learnt(name: str) -> tuple[list[float], nn.Module]:
    """A hundred losses by hand, and what they make of the model."""
    task = task_of(name)
    theirs = task.by_hand(copy.deepcopy(task.model))
    return theirs.losses(task.batches, 100), theirs.model


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_hundred_losses_are_those_of_eager_pytorch(name: str, placement: str) -> None:
    task, step = task_of(name), placed(name, placement)
    (wanted, theirs), ours = learnt(name), copy.deepcopy(task.model)
    assert losses_of(step, task, 100) == pytest.approx(wanted, rel=1e-5)
    step.sync_to(ours)
    for (key, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-5, msg=key)


@pytest.mark.parametrize("name", TASKS)
def test_a_step_goes_on_from_a_checkpoint_at_fifty_bit_for_bit(name: str, tmp_path: Path) -> None:
    task, first, second = task_of(name), placed(name, "random:1"), placed(name, "random:1")
    losses_of(first, task, 50)
    first.save_checkpoint(tmp_path)
    rest = losses_of(first, task, 50)
    second.load_checkpoint(tmp_path)
    assert losses_of(second, task, 50) == rest


def test_a_table_larger_than_the_budget_stays_on_the_host() -> None:
    cardinalities = (200_000, 50, 300_000, 7)
    model = DLRM(cardinalities, width=64, dense=5, bottom=(64,), top=(32,))
    batch = next(iter(Clicks(cardinalities, 256, 1, dense=5)))
    optimizer = Groups(SGD(0.1), (Group("tables.*", LazyAdam()),))
    step = capture(model, clicked, optimizer=optimizer, example_batch=batch)
    plan = place(step, running=Running(emulate=True), hardware="h100", budget="20MB").plan
    devices = {decision.op: decision.device for decision in plan.decisions}
    assert {devices[f"{op}/tables.{number}.weight"] for op in ("lookup", "update") for number in (0, 2)} == {"cpu"}
    assert plan.device("cuda:0").peak_bytes <= 20_000_000


def test_time_is_priced_by_the_rows_that_are_touched() -> None:
    found: list[list[float]] = []
    for rows in (100_000, 1_000_000):
        model = DLRM((rows,), width=64, dense=5, bottom=(64,), top=(32,))
        batch = next(iter(Clicks((rows,), 256, 1, dense=5)))
        step = capture(
            model, clicked, optimizer=Groups(SGD(0.1), (Group("tables.*", LazyAdam()),)), example_batch=batch
        )
        plan = place(step, hardware="h100", placement="all-cpu").plan
        wanted = ("lookup/tables.0.weight", "update/tables.0.weight")
        found.append([decision.seconds["cpu"] for decision in plan.decisions if decision.op in wanted])
    assert found[0] == pytest.approx(found[1], rel=0.01)


def test_the_norm_of_gradients_counts_the_rows_of_tables() -> None:
    task = task_of("dlrm")
    step = capture(
        task.model, clicked, optimizer=task.optimizer, example_batch=task.batches[0], rules=Rules(clip_norm=0.05)
    )
    theirs = ByHand(copy.deepcopy(task.model), clicked, {"": sgd(0.1)}, clip=0.05)
    wanted = theirs.losses(task.batches, 40)
    for placement in ("all-accelerator", "random:1"):
        ours = place(step, running=Running(emulate=True, threads=1), hardware="emulated", placement=placement)
        assert losses_of(ours, task, 40) == pytest.approx(wanted, rel=1e-5)
    assert wanted != pytest.approx(task.by_hand(copy.deepcopy(task.model)).losses(task.batches, 40), rel=1e-3)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_tables_keep_their_precision_beside_layers_in_half(precision: Any) -> None:
    task = task_of("wide_and_deep")
    rules = Rules(precision=precision)
    step = capture(task.model, clicked, optimizer=task.optimizer, example_batch=task.batches[0], rules=rules)
    ours = place(step, running=Running(emulate=True, threads=1), hardware="emulated", placement="random:1")
    wanted = task.by_hand(copy.deepcopy(task.model)).losses(task.batches, 30)
    assert losses_of(ours, task, 30) == pytest.approx(wanted, rel=2e-2)
    tensors = ours.state_dict()["tensors"]
    assert {tensors[f"{name}.weight"].dtype for name in ("deep", "wide", "crossed")} == {torch.float32}


EMULATED, ANYWHERE = Running(emulate=True, threads=1), {"hardware": "emulated", "placement": "random:1"}


@cache
def held(rule: Any) -> CapturedStep:
    """Of DLRM with its tables in memory, whose rule is this one."""
    task, optimizer = task_of("dlrm"), Groups(SGD(0.1), (Group("tables.*", rule),))
    return capture(task.model, clicked, optimizer=optimizer, example_batch=task.batches[0])


def files_of(folder: Path, task: Task) -> DLRM:
    """The model of ``task`` with its tables in files."""
    model: Any = copy.deepcopy(task.model)
    for number, table in enumerate(model.tables):
        file = mapped(folder / f"table{number}", tuple(table.weight.shape))
        table.weight = nn.Parameter(file.copy_(table.weight.detach()))
    return model


def test_tables_in_files_are_updated_there_and_go_on_from_a_checkpoint(tmp_path: Path) -> None:
    task = task_of("dlrm")
    optimizer = Groups(SGD(0.1), (Group("tables.*", LazyAdam(0.01)),))
    filed = capture(files_of(tmp_path, task), clicked, optimizer=optimizer, example_batch=task.batches[0])
    first, second = (
        place(step, running=Running(emulate=True, threads=1), hardware="emulated", placement="random:1", pin="*=cpu")
        for step in (filed, held(LazyAdam(0.01)))
    )
    assert losses_of(first, task, 10) == losses_of(second, task, 10)
    kept = second.state_dict()["tensors"]
    for key, content in first.state_dict()["tensors"].items():
        assert torch.equal(content, kept[key]), key
    for number, rows in enumerate(CARDINALITIES):
        for suffix, key in (("", ""), (".exp_avg", "optimizer/exp_avg/"), (".exp_avg_sq", "optimizer/exp_avg_sq/")):
            file = mapped(tmp_path / f"table{number}{suffix}", (rows, 8))
            assert torch.equal(file, kept[f"{key}tables.{number}.weight"])
    first.save_checkpoint(tmp_path / "kept")
    rest = losses_of(first, task, 10)
    first.load_checkpoint(tmp_path / "kept")
    assert losses_of(first, task, 10) == rest


@pytest.mark.parametrize("rule", [LazyAdam(0.01), SGD(0.1)], ids=["rows", "whole"])
def test_rows_of_a_file_are_updated_there(tmp_path: Path, rule: Any) -> None:
    """Two tables side by side in one file, whether their updates are of rows or whole."""
    task = task_of("dlrm")
    model = copy.deepcopy(task.model)
    tables: Any = model.get_submodule("tables")
    first, second = len(tables[0].weight), len(tables[1].weight)
    file = mapped(tmp_path / "both", (3 + first + second, 8), fill=7.0)
    for table, rows in ((tables[0], slice(3, 3 + first)), (tables[1], slice(3 + first, None))):
        table.weight = nn.Parameter(file[rows].copy_(table.weight.detach()))
    optimizer = Groups(SGD(0.1), (Group("tables.*", rule),))
    filed = capture(model, clicked, optimizer=optimizer, example_batch=task.batches[0])
    ours, other = (place(one, running=EMULATED, **ANYWHERE) for one in (filed, held(rule)))
    assert losses_of(ours, task, 5) == losses_of(other, task, 5)
    kept = other.state_dict()["tensors"]
    again = mapped(tmp_path / "both", tuple(file.shape))
    assert torch.equal(again[3 : 3 + first], kept["tables.0.weight"])
    assert torch.equal(again[3 + first :], kept["tables.1.weight"])
    assert bool((again[:3] == 7).all())
    if isinstance(rule, LazyAdam):
        moments = mapped(tmp_path / f"both.{8 * 3}.exp_avg", (first, 8))
        assert torch.equal(moments, kept["optimizer/exp_avg/tables.0.weight"])
        # A plan that is made of it meanwhile, or that is refused, leaves the files alone.
        planned = plan(model, clicked, optimizer=optimizer, example_batch=task.batches[0], hardware="emulated")
        assert planned.plan.partitions
        assert torch.equal(mapped(tmp_path / f"both.{8 * 3}.exp_avg", (first, 8)), moments)
        assert bool(moments.any())


@pytest.mark.parametrize(
    ("pick", "why"),
    [
        (lambda file: (file[::2], file.clone()), "in pieces"),
        (lambda file: (file[:6], file[4:]), "in one place"),
        (lambda file: (file, mapped(Path(file.untyped_storage().filename), (12, 8))), "in one place"),
    ],
)
def test_what_lies_in_pieces_or_in_one_place_is_refused(tmp_path: Path, pick: Any, why: str) -> None:
    one, other = (nn.Parameter(part) for part in pick(mapped(tmp_path / "file", (12, 8))))
    model = nn.ModuleList([nn.Embedding.from_pretrained(part, freeze=False) for part in (one, other)])
    tables: Any = model
    tables[0].weight, tables[1].weight = one, other
    loss = lambda model, ids: sum(table(ids).square().sum() for table in model)  # noqa: E731
    for rule in (SparseSGD(0.1), SGD(0.1)):
        with pytest.raises((InvalidOptionError, InvalidModelError), match=f"{why}|lies in the memory of"):
            capture(model, loss, optimizer=rule, example_batch=(torch.tensor([1, 2]),))


def test_a_table_larger_than_memory_is_never_copied(tmp_path: Path) -> None:
    rows, width = 2**31 + 5, 16  # 137 GB, of which the disk holds the pages that are written
    near = torch.randint(0, 100, (8, 1), generator=torch.Generator().manual_seed(0))
    batch = (near, torch.rand(8, 5), torch.ones(8))
    model: Any = DLRM(
        (rows,), width=width, dense=5, bottom=(8,), top=(8,), tables=[mapped(tmp_path / "huge", (rows, width))]
    )
    small: Any = DLRM((100,), width=width, dense=5, bottom=(8,), top=(8,), tables=[torch.zeros(100, width)])
    small.load_state_dict(
        {key: value for key, value in model.state_dict().items() if "tables" not in key}, strict=False
    )
    fill_normal_(small.tables[0].weight.detach(), 1.0, seed=3)
    huge: Tensor = model.tables[0].weight.detach()
    huge[-100:] = small.tables[0].weight.detach()
    optimizer = Groups(SGD(0.1), (Group("tables.*", LazyAdam(0.1)),))
    steps = [
        place(capture(one, clicked, optimizer=optimizer, example_batch=batch), hardware="l4", budget=0)
        for one in (model, small)
    ]
    far = (near + rows - 100, *batch[1:])
    assert [steps[0](*far).item() for _ in range(5)] == [steps[1](*batch).item() for _ in range(5)]
    assert torch.equal(huge[-100:], steps[1].state_dict()["tensors"]["tables.0.weight"])


def test_a_table_in_a_file_cannot_be_put_on_an_accelerator(tmp_path: Path) -> None:
    task = task_of("dlrm")
    optimizer = Groups(SGD(0.1), (Group("tables.*", SparseSGD(0.1), target="cuda"),))
    with pytest.raises(InvalidOptionError, match=r"'tables\.0\.weight' lies in a file"):
        capture(files_of(tmp_path, task), clicked, optimizer=optimizer, example_batch=task.batches[0])
