# pyright: reportUnknownMemberType=false
"""Losses of compiled training steps beside eager PyTorch's, with the same optimizer, wherever they are placed.

    python -m benchmarks.training_losses > benchmarks/results/training_losses.json
    python -m benchmarks.training_losses --only GRU --into benchmarks/results/training_losses.json

The cases are those of ``benchmarks/models/trained.py``; ``--into`` keeps a file's rows of the others, each with the
commit that it was measured at, so that a run may come in pieces. Where every step begins at eager's state, the loss
does not tell of the update that it makes: the whole change of all parameters is compared too.
"""

from __future__ import annotations

import argparse
import copy
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any

import torch

from benchmarks.measure import emit, machine_facts, rows_before, say
from benchmarks.models.trained import CASES, Batch, Case, Eager
from benchmarks.table import figure, print_table
from hetpart.training import Step
from hetpart.training.compiled import Running, capture, place
from hetpart.training.kept import Contents

REACH = 1e-5
THREADS = 1
SEED = 0
COLUMNS = {
    "what": figure("case"),
    "where": figure("placement"),
    "steps": figure("steps"),
    "largest difference": figure("largest", "{:.1e}"),
    "of an update": figure("update", "{:.1e}"),
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
    update: float | None
    """Of steps that begin at eager's state: the largest difference of a change of all parameters, relative to it."""
    partitions: int
    share: float
    """Of the ops that are on the accelerator."""
    first: float
    last: float
    cpu_seconds: float
    """Of planning, and of all steps."""


def rows_of(name: str, case: Case) -> Iterator[Row]:
    """A row for every placement."""
    torch.manual_seed(SEED)
    model = case.model()
    batches = case.batches()
    captured = capture(model, case.loss, optimizer=case.optimizer, example_batch=batches[0])
    for where, options in case.placements.items():
        began = process_time()
        step = place(captured, running=Running(emulate=True, threads=THREADS), hardware="emulated", **options)
        eager = case.eager(copy.deepcopy(model), case.loss)
        compared = list((_from_eager if case.from_eager else _side_by_side)(step, eager, batches))
        decisions = step.plan.decisions
        yield Row(
            name, where, len(compared), max(one.apart for one in compared),
            max(one.update for one in compared) if case.from_eager else None, len(step.plan.partitions),
            sum(decision.device != "cpu" for decision in decisions) / len(decisions),
            compared[0].loss, compared[-1].loss, round(process_time() - began, 1),
        )  # fmt: skip
        step.close()


@dataclass(frozen=True, slots=True)
class Compared:
    """One step of both."""

    loss: float
    """Eager's."""
    apart: float
    update: float = 0.0


def _side_by_side(step: Step, eager: Eager, batches: list[Batch]) -> Iterator[Compared]:
    for batch in batches:
        loss = eager(*batch)
        yield Compared(loss, _apart(step(*batch).item(), loss))


def _from_eager(step: Step, eager: Eager, batches: list[Batch]) -> Iterator[Compared]:
    after = eager.state_dict()
    for batch in batches:
        before = after
        loss = eager(*batch)
        after = eager.state_dict()
        step.load_state_dict(before)
        apart = _apart(step(*batch).item(), loss)
        made = step.state_dict()["tensors"]
        yield Compared(loss, apart, _change_apart(made, before["tensors"], after["tensors"]))


def _change_apart(made: Contents, before: Contents, after: Contents) -> float:
    """How far the change from ``before`` to ``made`` is from that to ``after``, by the norm of all parameters."""
    names = [name for name in before if f"optimizer/momentum/{name}" in before]
    off = sum(float((made[name] - after[name]).double().square().sum()) for name in names)
    whole = sum(float((after[name] - before[name]).double().square().sum()) for name in names)
    return (off / whole) ** 0.5


def _apart(made: float, loss: float) -> float:
    return abs(made - loss) / abs(loss)


def main() -> None:
    """Prints a table, and the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="part of a case's name; may be given again")
    parser.add_argument("--steps", type=int, help="instead of the case's own")
    parser.add_argument("--into", type=Path, metavar="FILE", help="JSON whose rows of other cases are printed too")
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    warnings.simplefilter("ignore")
    facts = machine_facts() | {"torch": torch.__version__, "threads": THREADS}
    before = rows_before(options.into)
    rows = list[dict[str, Any]]()
    for name, case in CASES.items():
        if options.only is None or any(part in name for part in options.only):
            found = rows_of(name, case if options.steps is None else case.shortened(options.steps))
            rows += [asdict(row) | {"commit": facts["commit"]} for row in found]
            say(f"training_losses: {name}")
        else:
            rows += [row for row in before if row["case"] == name]
    print_table(COLUMNS, rows)
    reached = sum(row["largest"] <= REACH for row in rows)
    say(f"{reached} of {len(rows)} within {REACH:g}")
    emit("training_losses", {"machine": facts, "reach": REACH, "reached": reached == len(rows), "rows": rows})


if __name__ == "__main__":
    main()
