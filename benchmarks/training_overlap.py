# pyright: reportUnknownMemberType=false
"""Updates on the host beside the backward pass of an emulated accelerator, and the same one after the other.

    python -m benchmarks.training_overlap [--batches ROWS ...]

A perceptron whose layers run on the accelerator and whose updates run on the host, one thread each. Three steps take
turns: with lanes, the same plan without lanes, and a plan that was cut for no lanes. Reach: with lanes at most 0.75
times the faster of the others, of a model where the plan predicts as much.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from benchmarks.measure import Spread, emit, interleaved, machine_facts, say
from hetpart.training import AdamW
from hetpart.training.compiled import CapturedStep, Running, capture, place
from hetpart.training.kept import PlannedStep
from hetpart.training.step import Step

REACH, ROUNDS, WARM = 0.75, 25, 3
WIDTH, LAYERS = 1024, 16
BATCHES = (16, 32, 64)
CORE = """
[[accelerator]]
profile = "emulated"
speed_factor = { value = 1.0, source = "by definition: as fast as the core that plays the host" }
"""
OPTIMIZERS = (AdamW(),)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", nargs="*", type=int, default=BATCHES, metavar="ROWS")
    torch.set_num_threads(1)
    rows = [_row(rows, rule) for rule in OPTIMIZERS for rows in parser.parse_args().batches]
    predicted = [row for row in rows if row["predicted_ratio"] <= REACH]
    emit(
        "training_overlap",
        {
            "machine": machine_facts() | {"torch": torch.__version__, "threads_per_lane": 1},
            "parameters": _parameters(_model()),
            "reach": REACH,
            "reached": bool(predicted) and min(row["ratio"] for row in predicted) <= REACH,
            "steps": rows,
        },
    )


def _model() -> nn.Module:
    torch.manual_seed(0)
    layers = [part for _ in range(LAYERS) for part in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(WIDTH, 10))


def _loss(model: nn.Module, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(x), labels)


def _parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _row(rows: int, rule: Any) -> dict[str, Any]:
    say(f"training_overlap: {type(rule).__name__}, {rows} rows")
    batch = (torch.randn(rows, WIDTH), torch.randint(0, 10, (rows,)))
    step = capture(_model(), _loss, optimizer=rule, example_batch=batch)
    with TemporaryDirectory() as folder:
        (hardware := Path(folder, "core.toml")).write_text(CORE)
        lanes, in_turn, coarse = _steps(step, hardware)
    rivals = tuple((lambda one=one: one(*batch)) for one in (lanes, in_turn, coarse))
    interleaved(rivals, WARM)
    beside, after, uncut = map(Spread.of, interleaved(rivals, ROUNDS))
    timeline, known = lanes.plan.timeline, coarse.plan.timeline
    assert timeline is not None
    assert known is not None
    row = {
        "optimizer": type(rule).__name__,
        "rows": rows,
        "partitions": len(lanes.plan.partitions),
        "predicted_ratio": round(timeline.seconds / min(timeline.serial_seconds, known.serial_seconds), 3),
        "with_lanes": beside,
        "same_plan_in_turn": after,
        "uncut_plan_in_turn": uncut,
        "ratio": round(beside.median / min(after.median, uncut.median), 3),
        "ratio_of_the_least": round(beside.least / min(after.least, uncut.least), 3),
    }
    for one in (lanes, in_turn, coarse):
        one.close()
    return row


def _steps(step: CapturedStep, hardware: Path) -> tuple[Step, Step, Step]:
    """With lanes, the same plan in turn, and a plan that was not cut for lanes."""
    lanes, uncut = (
        place(
            step,
            running=Running(emulate=True, threads=1, overlap=overlap),
            hardware=hardware,
            threads=1,
            placement="all-accelerator",
            pin="node:update/*=cpu",
        )
        for overlap in (True, False)
    )
    session = lanes.planned.session(emulate=True, threads=1, overlap=False)
    return lanes, Step(PlannedStep(lanes.planned, session, step.program, step.rest), step.contents, None), uncut


if __name__ == "__main__":
    main()
