# pyright: reportUnknownMemberType=false
"""What a step goes on from, with another number of parts of a batch that make an update."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import nn

from hetpart.errors import InvalidFeedError
from hetpart.training import SGD, Group, Groups, SparseSGD
from hetpart.training.compiled import CapturedStep, Running, capture, place
from hetpart.training.rules import Rules
from hetpart.training.step import Step
from tests.training.models import classified

EMULATED = Running(emulate=True, threads=1)
RATE = 1e-2


def _batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    drawn = torch.Generator().manual_seed(0)
    ids = [torch.randint(0, 20, (4, 3), generator=drawn) for _ in range(12)]
    return [(part, torch.randint(0, 5, (4,), generator=drawn)) for part in ids]


@cache
def model_of() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(20, 6), nn.Flatten(), nn.Linear(18, 5))


@cache
def captured(parts: int) -> CapturedStep:
    rule = Groups(SGD(RATE), (Group("0.*", SparseSGD(RATE)),))
    rules = Rules(accumulate=parts, clip_norm=0.1)
    return capture(model_of(), classified, optimizer=rule, example_batch=_batches()[0], rules=rules)


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 3)])
def test_between_two_updates_they_may_be_made_of_other_numbers_of_parts(
    tmp_path: Path, before: int, after: int
) -> None:
    """As eager PyTorch goes on, which knows of no such number; with clipping, a schedule, and a table."""
    eager, trained, batches = copy.deepcopy(model_of()), copy.deepcopy(model_of()), _batches()
    optimizer, updates = torch.optim.SGD(eager.parameters(), lr=RATE), 0

    def schedule(number: int) -> float:
        return 1 / number

    def placed(parts: int) -> Step:
        return place(captured(parts), running=EMULATED, hardware="emulated", placement="random:1", schedule=schedule)

    step, parts = placed(before), before
    for number, batch in enumerate(batches):
        if number == len(batches) // 2:
            step.save_checkpoint(tmp_path, integrated=False, keep_max=1)
            step, parts = placed(after), after
            step.load_checkpoint(tmp_path)
            assert (step.steps, step.calls) == (updates, number)
        loss = classified(eager, *batch)
        (loss / parts).backward()
        assert step(*batch).item() == pytest.approx(loss.item(), rel=1e-5)
        if number % parts == parts - 1:
            updates += 1
            torch.nn.utils.clip_grad_norm_(eager.parameters(), 0.1)
            optimizer.param_groups[0]["lr"] = RATE * schedule(updates)
            optimizer.step()
            optimizer.zero_grad()
    step.sync_to(trained)
    for ours, theirs in zip(trained.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_collected_part_goes_on_with_as_many_parts_alone() -> None:
    three, two = (place(captured(parts), budget=0) for parts in (3, 2))
    three(*_batches()[0])
    with pytest.raises(InvalidFeedError, match=r"another step: 'optimizer/collected/0\.weight") as refused:
        two.load_state_dict(three.state_dict())
    assert "accumulate=" in refused.value.hint


def test_a_dropout_goes_on_with_other_numbers_of_parts_and_keeps_nothing_twice() -> None:
    """As if every call had made an update: the number of a call alone tells what it keeps."""
    model, x = nn.Sequential(nn.Dropout(0.25), nn.Linear(8, 1, bias=False)), torch.ones(64, 8)

    def loss(trained: nn.Module, rows: torch.Tensor) -> torch.Tensor:
        return trained(rows).mean()

    def compiled(parts: int) -> Step:
        made = capture(model, loss, optimizer=SGD(lr=0.0), example_batch=(x,), rules=Rules(accumulate=parts))
        return place(made, running=EMULATED, hardware="emulated", placement="all-cpu", seed=3)

    steps = {parts: compiled(parts) for parts in (1, 4, 2, 3)}
    whole = [steps[1](x).item() for _ in range(16)]
    found, state = list[float](), compiled(1).state_dict()
    for parts, calls in ((4, 4), (2, 6), (3, 6)):
        steps[parts].load_state_dict(state)
        found += [steps[parts](x).item() for _ in range(calls)]
        state = steps[parts].state_dict()
    assert found == whole
    assert len(set(whole)) == len(whole)
