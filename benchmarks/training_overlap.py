# pyright: reportUnknownMemberType=false
"""Updates on the host beside the backward pass of an emulated accelerator, and the same one after the other.

    python -m benchmarks.training_overlap [--batches ROWS ...]

A perceptron whose layers run on the accelerator and whose updates run on the host, one thread each. Three steps take
turns: with lanes, the same plan without lanes, and a plan that was cut for no lanes. Reach: with lanes at most 0.75
times the faster of the others, of a model where the plan predicts as much. Rounds go over all models in turn, and every
one is kept: the figure of a model is the median of its rounds.

Lanes gain most where backward pass and updates take as long as one another, and a pass takes as long as its rows ask
for. With 16 both lanes wait for memory more than they compute; with 64 the host's lane is idle most of the time.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from benchmarks.measure import Spread, emit, interleaved, machine_facts, say
from hetpart.training import AdamW
from hetpart.training.compiled import CapturedStep, Running, capture, place
from hetpart.training.kept import PlannedStep
from hetpart.training.step import Step

REACH = 0.75
ROUNDS, SAMPLES, WARM = 5, 15, 3
WIDTH, LAYERS = 1024, 16
ROWS, BATCHES = (16, 32, 64), 7
CORE = """
[[accelerator]]
profile = "emulated"
speed_factor = { value = 1.0, source = "by definition: as fast as the core that plays the host" }
"""


@dataclass(frozen=True, slots=True)
class Trio:
    """One model's steps."""

    rows: int
    lanes: Step
    in_turn: Step
    uncut: Step

    @property
    def steps(self) -> tuple[Step, Step, Step]:
        return self.lanes, self.in_turn, self.uncut


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", nargs="*", type=int, default=ROWS, metavar="ROWS")
    torch.set_num_threads(1)
    facts = machine_facts() | {"torch": torch.__version__, "threads_per_lane": 1}
    trios = [_trio(rows) for rows in parser.parse_args().batches]
    for trio in trios:
        _seconds(trio, WARM)
    rounds = [[_round(trio) for trio in trios] for _ in range(ROUNDS)]
    found = [_row(trio, own) for trio, own in zip(trios, zip(*rounds, strict=True), strict=True)]
    predicted = [row["ratio"] for row in found if row["predicted_ratio"] <= REACH]
    emit(
        "training_overlap",
        {
            "machine": facts,
            "parameters": sum(parameter.numel() for parameter in _model().parameters()),
            "optimizer": "AdamW",
            "reach": REACH,
            "reached": bool(predicted) and min(predicted) <= REACH,
            "steps": found,
        },
    )


def _model() -> nn.Module:
    torch.manual_seed(0)
    layers = [part for _ in range(LAYERS) for part in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(WIDTH, 10))


def _loss(model: nn.Module, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(x), labels)


def _batch(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(rows, WIDTH), torch.randint(0, 10, (rows,))


def _trio(rows: int) -> Trio:
    say(f"training_overlap: {rows} rows")
    step = capture(_model(), _loss, optimizer=AdamW(), example_batch=_batch(rows))
    with TemporaryDirectory() as folder:
        (hardware := Path(folder, "core.toml")).write_text(CORE)
        return Trio(rows, *_steps(step, hardware))


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


def _seconds(trio: Trio, samples: int) -> list[list[float]]:
    batches = cycle([_batch(trio.rows) for _ in range(BATCHES)])
    return interleaved([lambda one=one: one(*next(batches)) for one in trio.steps], samples)


def _round(trio: Trio) -> dict[str, Any]:
    beside, after, uncut = map(Spread.of, _seconds(trio, SAMPLES))
    return {
        "ratio": round(beside.median / min(after.median, uncut.median), 3),
        "ratio_of_the_least": round(beside.least / min(after.least, uncut.least), 3),
        "with_lanes": beside,
        "same_plan_in_turn": after,
        "uncut_plan_in_turn": uncut,
    }


def _row(trio: Trio, rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    timeline, known = trio.lanes.plan.timeline, trio.uncut.plan.timeline
    assert timeline is not None
    assert known is not None
    return {
        "rows": trio.rows,
        "partitions": len(trio.lanes.plan.partitions),
        "predicted_ratio": round(timeline.seconds / min(timeline.serial_seconds, known.serial_seconds), 3),
        "ratio": round(median(one["ratio"] for one in rounds), 3),
        "rounds": rounds,
    }


if __name__ == "__main__":
    main()
