"""Updates leave the accelerator as far as its budget asks for it, and no further."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import torch
from torch import nn

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.assembly.activations import packing
from hetpart.partitioner.scores.scoring import Scorer
from hetpart.request import Request
from hetpart.training import AdamW
from hetpart.training.compiled import CapturedStep, capture, planned_step
from hetpart.training.rules import Rules
from tests.training.models import classified

WIDTHS = (1024, 3072, 2048, 1024)
ROWS = 2048
HARDWARE = "l4+epyc"


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
