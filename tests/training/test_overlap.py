# pyright: reportUnknownMemberType=false
"""Updates beside the backward pass where several calls make one: planned so, run so, and with losses of PyTorch."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from hetpart.plan.model import Plan
from hetpart.plan.timeline import Task
from hetpart.training import AdamW
from hetpart.training.compiled import CapturedStep, Running, capture, place
from hetpart.training.rules import Rules
from hetpart.training.step import Step

LAYERS, WIDTH, ROWS, RATE = 6, 256, 128, 1e-3
MANY = 20
"""Calls, of which the threads of one machine run the lanes of some at the same time."""
UPDATES = "node:update/*=cpu"
SUMS = "node:collect/*=cpu"


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(part for _ in range(LAYERS) for part in (nn.Linear(WIDTH, WIDTH), nn.Tanh())))


def loss(trained: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return nn.functional.mse_loss(trained(x), y)


@cache
def batches() -> list[tuple[Tensor, Tensor]]:
    torch.manual_seed(1)
    return [(torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH)) for _ in range(4)]


@cache
def captured(rules: Rules) -> CapturedStep:
    return capture(model(), loss, optimizer=AdamW(lr=RATE), example_batch=batches()[0], rules=rules)


def placed(rules: Rules, *pins: str) -> Step:
    running = Running(emulate=True, threads=1, overlap=True, record=True)
    pin = [UPDATES, *pins]
    return place(captured(rules), running=running, hardware="emulated", placement="all-accelerator", pin=pin)


def having(plan: Plan, prefix: str) -> set[int]:
    return {part.id for part in plan.partitions if any(op.startswith(prefix) for op in part.ops)}


def updates_and_gradients(plan: Plan) -> tuple[set[int], set[int]]:
    """Partitions that update, and those of the accelerator that collect nothing."""
    others = {part.id for part in plan.partitions if part.device != "cpu"}
    return having(plan, "update/"), others - having(plan, "collect/")


def planned(plan: Plan, partitions: set[int]) -> list[Task]:
    assert plan.timeline is not None
    return [task for task in plan.timeline.tasks if task.kind.name == "PARTITION" and task.index in partitions]


@pytest.mark.parametrize("pins", [(), (SUMS,)], ids=["sums on the accelerator", "on the host"])
@pytest.mark.parametrize("precision", [None, "bf16"])
def test_updates_are_planned_beside_the_backward_pass(precision: str | None, pins: tuple[str, ...]) -> None:
    step = placed(Rules(precision, accumulate=2), *pins)
    updates, gradients = (planned(step.plan, found) for found in updates_and_gradients(step.plan))
    ends = max(task.end for task in gradients)
    early = [task for task in updates if task.start < ends]
    assert len(early) > 1
    assert "cpu: its updates run beside" in step.report(width=200)
    assert "cpu: its updates run beside nothing" not in step.report(width=200)


def test_as_much_is_saved_as_without_sums() -> None:
    """Of what each spends one after the other, in turn with as much to do for the accelerator."""
    saved: list[float] = []
    for rules in (Rules(), Rules(accumulate=2)):
        told = placed(rules).plan.timeline
        assert told is not None
        saved.append(told.serial_seconds - told.seconds)
    assert saved[1] > 0.9 * saved[0]


@pytest.mark.parametrize("rules", [Rules(accumulate=2, clip_norm=1.0), Rules("fp16", accumulate=2)])
def test_what_needs_all_gradients_waits_for_the_last(rules: Rules) -> None:
    step = placed(rules)
    updates, gradients = (planned(step.plan, found) for found in updates_and_gradients(step.plan))
    assert min(task.start for task in updates) >= max(task.end for task in gradients)


def begins_before_the_backward_pass_ends(step: Step) -> bool:
    """In the last call, an update."""
    updates, gradients = updates_and_gradients(step.plan)
    times = [one for one in step.session.times() if not one.is_copy]
    ends = max(one.end for one in times if one.index in gradients)
    return min(one.begin for one in times if one.index in updates) < ends


def test_updates_begin_before_the_backward_pass_ends_and_losses_are_eagers() -> None:
    trained, step, beside = copy.deepcopy(model()), placed(Rules(accumulate=2)), 0
    optimizer = torch.optim.AdamW(trained.parameters(), lr=RATE)
    for number in range(MANY):
        batch = batches()[number % 4]
        found = loss(trained, *batch)
        (found / 2).backward()
        assert step(*batch).item() == pytest.approx(found.item(), rel=1e-5)
        if number % 2:
            optimizer.step()
            optimizer.zero_grad()
            beside += begins_before_the_backward_pass_ends(step)
    assert step.steps == MANY // 2
    assert beside


def test_a_resumed_run_is_the_same_bit_for_bit(tmp_path: Path) -> None:
    """From between two updates."""
    first = placed(Rules(accumulate=2))
    for batch in batches()[:3]:
        first(*batch)
    first.save_checkpoint(tmp_path)
    rest = [first(*batch).item() for batch in batches()]
    second = placed(Rules(accumulate=2))
    second.load_checkpoint(tmp_path)
    assert [second(*batch).item() for batch in batches()] == rest
    for name, tensor in first.state_dict()["tensors"].items():
        assert torch.equal(second.state_dict()["tensors"][name], tensor), name
