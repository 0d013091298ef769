# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Updates leave the accelerator as far as its budget asks for it, and no further."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import hetpart
from hetpart.devices import ACCELERATOR
from hetpart.partitioned import PartitionedModel
from hetpart.partitioner.assembly.activations import packing
from hetpart.partitioner.scores.scoring import Scorer
from hetpart.plan.bench import HeldMemory
from hetpart.request import Request
from hetpart.runtime.held import ValueWatch
from hetpart.runtime.profiles import profiling_options
from hetpart.training import SGD, AdamW
from hetpart.training.compiled import CapturedStep, capture, planned_step
from hetpart.training.kept import PlannedStep
from hetpart.training.rules import Rules
from hetpart.training.step import Step
from tests.training.models import classified

WIDTHS = (1024, 3072, 2048, 1024)
ROWS = 2048
HARDWARE = "l4+epyc"
GOOD = 0.01
"""Relative; of a certificate."""


def half_step() -> CapturedStep:
    layers = [part for pair in pairwise(WIDTHS) for part in (nn.Linear(*pair), nn.ReLU())]
    batch = (torch.zeros(ROWS, WIDTHS[0]), torch.zeros(ROWS, dtype=torch.int64))
    model = nn.Sequential(*layers, nn.Linear(WIDTHS[-1], 10))
    return capture(model, classified, optimizer=AdamW(), example_batch=batch, rules=Rules("bf16"))


def test_no_other_updates_that_fit_are_faster_on_the_host() -> None:
    """Of all sets of large ones. A partition that PyTorch runs holds no session's bytes."""
    step, request = half_step(), Request.of(None, {})
    whole = planned_step(step, hardware=HARDWARE, placement="all-accelerator").plan.devices[ACCELERATOR]
    priced = request.priced(request.read(step.exported).graph, request.machine(HARDWARE))
    session = priced.costs.machine.devices[ACCELERATOR].session_bytes
    assert whole.session_bytes == session > 0
    updates = [op.id for op in priced.graph.ops if op.name.startswith("update/") and op.name.endswith("weight")]
    counts: list[int] = []
    for share in (0.93, 0.65):
        plan = planned_step(step, hardware=HARDWARE, budget=int(whole.peak_bytes * share)).plan
        ours = [part for part in plan.partitions if part.device == whole.device]
        sessions = sum(not part.ops[0].startswith("update/") for part in ours)
        assert plan.devices[ACCELERATOR].session_bytes == session * sessions
        formulation = priced.formulated({whole.device: int(whole.peak_bytes * share)})
        scorer = Scorer.of(formulation.problem, packing(priced.graph, priced.costs, formulation))
        found = np.array([decision.device == whole.device for decision in plan.decisions], np.int8)
        best, other = scorer.score(found), found.copy()
        assert best.fits
        for sides in product((0, 1), repeat=len(updates)):
            other[updates] = sides
            rival = scorer.score(other.copy())
            assert rival.total_seconds >= best.total_seconds or not rival.fits, (share, sides)
        counts.append(int((found[updates] == 0).sum()))
    assert 0 < counts[0] < counts[1]


@cache
def large_step() -> CapturedStep:
    """Of six layers of 4096."""
    with torch.device("meta"):
        model = nn.Sequential(*[part for _ in range(6) for part in (nn.Linear(4096, 4096), nn.ReLU())])
        batch = (torch.empty(64, 4096), torch.empty(64, dtype=torch.int64))
    return capture(model, classified, optimizer=AdamW(), example_batch=batch)


@pytest.mark.parametrize("share", [0.8, 0.6])
def test_updates_on_the_host_are_certified_where_sessions_are_cut(share: float) -> None:
    """Six layers of 4096: parameters and gradients of 67 MB, of which sessions of 24 MB leave room for few."""
    planned = planned_step(large_step(), hardware="l4+xeon", budget=int(share * 1.65e9), time_limit=600.0)
    updates = [decision.device for decision in planned.plan.decisions if decision.op.endswith("weight")]
    assert "cpu" in updates
    assert planned.plan.certificate.gap < GOOD


def eager(model: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> list[float]:
    """Losses of PyTorch's own AdamW."""
    optimizer, found = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01), list[float]()
    for batch in batches:
        loss = classified(model, *batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@cache
def six_layers() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*[part for _ in range(5) for part in (nn.Linear(128, 128), nn.ReLU())], nn.Linear(128, 128))


@cache
def six_layers_step() -> CapturedStep:
    batch = torch.zeros(16, 128), torch.zeros(16, dtype=torch.int64)
    return capture(six_layers(), classified, optimizer=AdamW(), example_batch=batch)


@pytest.mark.parametrize("share", [1.0, 0.9, 0.82])
def test_gradients_are_handed_over_in_pieces_where_all_do_not_fit(tmp_path: Path, share: float) -> None:
    """Six layers and their updates, all on the accelerator, hold no more than is planned and give eager's losses."""
    torch.manual_seed(0)
    batches, step = [(torch.randn(16, 128), torch.randint(0, 128, (16,))) for _ in range(4)], six_layers_step()
    options = {"hardware": "emulated", "placement": "all-accelerator", "threads": 1}
    whole = planned_step(step, **options).plan.devices[ACCELERATOR]
    placed = planned_step(step, budget=int(whole.peak_bytes * share), **options)
    use, watch = placed.plan.devices[ACCELERATOR], ValueWatch()
    ours = [part for part in placed.plan.partitions if not part.ops[0].startswith("update/")]
    assert (len(ours) > 1) is (share < 1.0)
    bundle = placed.bundle()
    with hetpart.Session(bundle, profiling_options(tmp_path), emulate=True, threads=1, record=watch) as session:
        running = Step(PlannedStep(placed, session, step.program, step.rest), step.contents, None)
        losses = [running(*batch).item() for batch in batches]
        held = session.held_memory(bundle, watch)[use.device]
    assert losses == pytest.approx(eager(copy.deepcopy(six_layers()), batches), rel=1e-6)
    assert held.states == use.state_bytes
    assert held.peak <= use.peak_bytes <= whole.peak_bytes * share


@cache
def mixed_step() -> tuple[CapturedStep, tuple[Tensor, Tensor]]:
    """And its batch."""
    torch.manual_seed(0)
    layers = (nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.GELU(), nn.Linear(64, 4))
    batch = (torch.randn(32, 64), torch.randint(0, 4, (32,)))
    rules = Rules("bf16")
    return capture(nn.Sequential(*layers), classified, optimizer=AdamW(), example_batch=batch, rules=rules), batch


@pytest.mark.parametrize("share", [1.0, 0.8])
def test_an_emulated_accelerator_holds_no_more_than_planned_in_bfloat16(share: float, tmp_path: Path) -> None:
    """There products compute in float32: parameters are cast once for both passes, and turned as they are read."""
    step, batch = mixed_step()
    whole = planned_step(step, hardware="emulated", placement="all-accelerator", threads=1)
    budget = {"budget": int(share * whole.plan.devices[ACCELERATOR].peak_bytes)} if share < 1 else {}
    placed = planned_step(step, hardware="emulated", threads=1, **budget) if budget else whole
    held = held_by(placed, step, batch, tmp_path)
    use = placed.plan.devices[ACCELERATOR]
    assert 0.95 * use.peak_bytes <= held.peak <= use.peak_bytes


def test_what_dropouts_keep_is_in_the_plan(tmp_path: Path) -> None:
    """Each mask is cast for both passes at once, and kept so from one to the other."""
    torch.manual_seed(0)
    layers = [part for _ in range(2) for part in (nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1))]
    batch = (torch.randn(128, 64), torch.randint(0, 4, (128,)))
    step = capture(nn.Sequential(*layers, nn.Linear(64, 4)), classified, optimizer=SGD(0.1), example_batch=batch)
    placed = planned_step(step, hardware="emulated", placement="all-accelerator", threads=1)
    use, held = placed.plan.devices[ACCELERATOR], held_by(placed, step, batch, tmp_path)
    assert held.activations == use.activation_bytes
    assert 0.99 * use.peak_bytes <= held.peak <= use.peak_bytes


def held_by(placed: PartitionedModel, step: CapturedStep, batch: Sequence[Tensor], folder: Path) -> HeldMemory:
    """What the emulated accelerator holds in three calls, by the runtime's own accounting."""
    watch, bundle = ValueWatch(), placed.bundle()
    with hetpart.Session(bundle, profiling_options(folder), emulate=True, threads=1, record=watch) as session:
        running = Step(PlannedStep(placed, session, step.program, step.rest), step.contents, None)
        for _ in range(3):
            running(*batch)
        return session.held_memory(bundle, watch)[placed.plan.devices[ACCELERATOR].device]
