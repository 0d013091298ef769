# pyright: reportUnknownMemberType=false
"""Updates on the host beside the backward pass of an emulated accelerator, and the same one after the other.

    python -m benchmarks.training_overlap > benchmarks/results/training_overlap.json
    python -m benchmarks.training_overlap --only "64 rows, FTRL" --into benchmarks/results/training_overlap.json

Layers run on the accelerator and updates on the host, one thread each. Three steps take turns: with lanes, the same
plan without lanes, and a plan that was cut for no lanes. Reach: with lanes at most 0.75 times the faster of the others,
of a model where the plan predicts as much. The figure of a model is the median of its rounds.

Each runs twice: with copies as fast as the host makes them, and behind a link as fast as the one that is planned for.
The cases are those of ``benchmarks/models/overlapping.py``, of which ``--only`` takes all that have a part in their
names: a row is told as soon as it is measured. ``--into`` keeps a file's rows of the others.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.measure import Spread, emit, interleaved, machine_facts, rows_before, say
from benchmarks.models.overlapping import CASES, Case
from benchmarks.models.trained import Batch
from benchmarks.table import figure, print_table
from hetpart.partitioned import PartitionedModel
from hetpart.training.compiled import CapturedStep, capture, planned_step
from hetpart.training.kept import PlannedStep
from hetpart.training.step import Step

REACH = 0.75
ROUNDS, SAMPLES, WARM, BATCHES = 5, 5, 3, 7
"""A row is 84 steps. Both of 64 rows with FTRL took a minute, with all that plans them, on a slow and busy machine."""
LINKS = {"as fast as the host copies": None, "12 GB/s, as planned": "12GB/s"}
CORE = """
[[accelerator]]
profile = "emulated"
speed_factor = { value = 1.0, source = "by definition: as fast as the core that plays the host" }
"""
COLUMNS = {
    "what": figure("case"),
    "link": figure("link"),
    "predicted": figure("predicted_ratio"),
    "measured": figure("ratio"),
    "ms with lanes": figure("seconds", "{:.2f}", 1e3),
    "predicted ms": figure("predicted_seconds", "{:.2f}", 1e3),
}


@dataclass(frozen=True, slots=True)
class Trio:
    """One model's steps."""

    lanes: Step
    in_turn: Step
    uncut: Step

    @property
    def steps(self) -> tuple[Step, Step, Step]:
        return self.lanes, self.in_turn, self.uncut


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="part of a case's name; may be given again")
    parser.add_argument("--into", type=Path, metavar="FILE", help="JSON whose rows of other cases are printed too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    facts = machine_facts() | {"torch": torch.__version__, "threads_per_lane": 1}
    before = rows_before(options.into)
    rows = list[dict[str, Any]]()
    for name, case in CASES.items():
        if options.only is None or any(part in name for part in options.only):
            say(f"training_overlap: {name}")
            for row in _rows(case):
                say(f"training_overlap: {row['link']}: predicted {row['predicted_ratio']}, measured {row['ratio']}")
                rows.append({"case": name, **row, "commit": facts["commit"]})
        else:
            rows += [row for row in before if row["case"] == name]
    print_table(COLUMNS, rows)
    reached = list(dict.fromkeys(row["case"] for row in rows if max(row["predicted_ratio"], row["ratio"]) <= REACH))
    emit(
        "training_overlap",
        {"machine": facts, "reach": REACH, "reached": bool(reached), "reached_by": reached, "rows": rows},
    )


def _rows(case: Case) -> Iterator[dict[str, Any]]:
    torch.manual_seed(0)
    model, batches = case.model(), [case.batch() for _ in range(BATCHES)]
    captured = capture(model, case.loss, optimizer=case.optimizer, example_batch=batches[0])
    parameters = sum(parameter.numel() for parameter in model.parameters())
    lanes, uncut = (_planned(captured, overlap=overlap) for overlap in (True, False))
    for link, speed in LINKS.items():
        trio = Trio(
            _step(captured, lanes, speed, overlap=True),
            _step(captured, lanes, speed, overlap=False),
            _step(captured, uncut, speed, overlap=False),
        )
        _seconds(trio, batches, WARM)
        rounds = [_round(trio, batches) for _ in range(ROUNDS)]
        yield {"parameters": parameters, "link": link} | _predicted(lanes, uncut) | _measured(trio, rounds)
        for step in trio.steps:
            step.close()


def _planned(captured: CapturedStep, *, overlap: bool) -> PartitionedModel:
    with TemporaryDirectory() as folder:
        (hardware := Path(folder, "core.toml")).write_text(CORE)
        return planned_step(
            captured,
            hardware=hardware,
            overlap=overlap,
            threads=1,
            placement="all-accelerator",
            pin="node:update/*=cpu",
        )


def _step(captured: CapturedStep, planned: PartitionedModel, link: str | None, *, overlap: bool) -> Step:
    session = planned.session(emulate=True, threads=1, overlap=overlap, emulate_link=link, record=True)
    return Step(PlannedStep(planned, session, captured.program, captured.rest), captured.contents, None)


def _seconds(trio: Trio, batches: Sequence[Batch], samples: int) -> list[list[float]]:
    given = cycle(batches)
    return interleaved([lambda one=one: one(*next(given)) for one in trio.steps], samples)


def _round(trio: Trio, batches: Sequence[Batch]) -> list[float]:
    """Median seconds of each step."""
    return [Spread.of(found).median for found in _seconds(trio, batches, SAMPLES)]


def _busy(step: Step) -> dict[str, float]:
    """Seconds that each lane worked in the last run."""
    found = dict[str, float]()
    for task in step.session.times():
        found[task.lane] = found.get(task.lane, 0.0) + task.seconds
    return {lane: round(seconds, 6) for lane, seconds in found.items()}


def _predicted(lanes: PartitionedModel, uncut: PartitionedModel) -> dict[str, Any]:
    timeline, known = lanes.plan.timeline, uncut.plan.timeline
    assert timeline is not None
    assert known is not None
    in_turn = min(timeline.serial_seconds, known.serial_seconds)
    return {
        "partitions": len(lanes.plan.partitions),
        "predicted_seconds": round(timeline.seconds, 6),
        "predicted_in_turn_seconds": round(in_turn, 6),
        "predicted_ratio": round(timeline.seconds / in_turn, 3),
    }


def _measured(trio: Trio, rounds: Sequence[list[float]]) -> dict[str, Any]:
    ratios = [round(beside / min(turns), 3) for beside, *turns in rounds]
    beside, after, uncut = zip(*rounds, strict=True)
    return {
        "seconds": median(beside),
        "in_turn_seconds": min(median(after), median(uncut)),
        "ratio": median(ratios),
        "rounds": {"ratio": ratios, "with_lanes": beside, "same_plan_in_turn": after, "uncut_plan_in_turn": uncut},
        "busy_with_lanes": _busy(trio.lanes),
        "busy_in_turn": _busy(trio.in_turn),
    }


if __name__ == "__main__":
    main()
