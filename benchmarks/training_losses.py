# pyright: reportUnknownMemberType=false
"""Losses of compiled training steps beside eager PyTorch's, with the same optimizer, wherever they are placed.

    python -m benchmarks.training_losses > benchmarks/results/training_losses.json
    python -m benchmarks.training_losses --only GRU

The cases are those of ``benchmarks/models/trained.py``. Where every step begins at eager's state, the step after it is
made too: its loss tells of the update, which the first one's does not.
"""

from __future__ import annotations

import argparse
import copy
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from time import process_time
from typing import Any

import torch

from benchmarks.measure import emit, machine_facts, say
from benchmarks.models.trained import CASES, Batch, Case, Options
from benchmarks.table import figure, print_table
from hetpart.training import Step
from hetpart.training.compiled import CapturedStep, Running, capture, place

REACH = 1e-5
THREADS = 2
SEED = 0
COLUMNS = {
    "what": figure("case"),
    "where": figure("placement"),
    "steps": figure("steps"),
    "largest difference": figure("largest", "{:.1e}"),
    "one update on": figure("after_update", "{:.1e}"),
    "partitions": figure("partitions"),
    "on the accelerator": figure("share", "{:.0%}"),
    "first loss": figure("first", "{:.4f}"),
    "last": figure("last", "{:.4f}"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One case at one placement."""

    case: str
    placement: str
    steps: int
    largest: float
    """Of all steps, relative to eager's loss."""
    after_update: float | None
    """The same of the step after one that began at eager's state."""
    partitions: int
    share: float
    """Of the ops that are on the accelerator."""
    first: float
    last: float
    cpu_seconds: float
    """Of planning, and of all steps."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What eager PyTorch made: its losses, and where asked for its state before each."""

    batches: list[Batch]
    losses: list[float]
    states: list[dict[str, Any]]


def expected(case: Case, model: torch.nn.Module) -> Expected:
    """Of a copy of ``model``."""
    batches = case.batches()
    eager = case.eager(copy.deepcopy(model), case.loss)
    losses, states = list[float](), list[dict[str, Any]]()
    for batch in batches:
        states += [eager.state_dict()] if case.from_eager else []
        losses.append(eager(*batch))
    return Expected(batches, losses, states)


def rows_of(name: str, case: Case) -> Iterator[Row]:
    """A row for every placement."""
    torch.manual_seed(SEED)
    model = case.model()
    wanted = expected(case, model)
    captured = capture(model, case.loss, optimizer=case.optimizer, example_batch=wanted.batches[0])
    for where, options in case.placements.items():
        yield _row(name, where, captured, wanted, options)


def _row(name: str, where: str, captured: CapturedStep, wanted: Expected, options: Options) -> Row:
    began = process_time()
    step = place(captured, running=Running(emulate=True, threads=THREADS), hardware="emulated", **options)
    after = list[float]()
    if wanted.states:
        largest, after = _from_eager(step, wanted)
    else:
        made = [step(*batch).item() for batch in wanted.batches]
        largest = max(map(_apart, made, wanted.losses))
    decisions = step.plan.decisions
    row = Row(
        name, where, len(wanted.losses), largest, max(after, default=None), len(step.plan.partitions),
        sum(decision.device != "cpu" for decision in decisions) / len(decisions),
        wanted.losses[0], wanted.losses[-1], round(process_time() - began, 1),
    )  # fmt: skip
    step.close()
    return row


def _from_eager(step: Step, wanted: Expected) -> tuple[float, list[float]]:
    """The largest difference of a step from eager's state, and the differences of the steps after those."""
    largest, after = 0.0, list[float]()
    for number, state in enumerate(wanted.states):
        step.load_state_dict(state)
        made = [step(*batch).item() for batch in wanted.batches[number : number + 2]]
        largest = max(largest, _apart(made[0], wanted.losses[number]))
        after += map(_apart, made[1:], wanted.losses[number + 1 : number + 2])
    return largest, after


def _apart(made: float, loss: float) -> float:
    return abs(made - loss) / abs(loss)


def main() -> None:
    """Prints a table, and the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="part of a case's name; may be given again")
    parser.add_argument("--steps", type=int, help="instead of the case's own")
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    warnings.simplefilter("ignore")
    facts = machine_facts() | {"torch": torch.__version__, "threads": THREADS}
    rows = list[dict[str, Any]]()
    for name, case in CASES.items():
        if options.only is None or any(part in name for part in options.only):
            rows += map(asdict, rows_of(name, case if options.steps is None else case.shortened(options.steps)))
            say(f"training_losses: {name}")
    print_table(COLUMNS, rows)
    reached = sum(row["largest"] <= REACH for row in rows)
    say(f"{reached} of {len(rows)} within {REACH:g}")
    emit("training_losses", {"machine": facts, "reach": REACH, "reached": reached == len(rows), "rows": rows})


if __name__ == "__main__":
    main()
