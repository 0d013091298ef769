# pyright: reportUnknownMemberType=false
"""Losses of compiled training steps beside eager PyTorch's, with the same optimizer, wherever they are placed.

    python -m benchmarks.training_losses > benchmarks/results/training_losses.json
    python -m benchmarks.training_losses --only GRU --into benchmarks/results/training_losses.json

The cases are those of ``benchmarks/models/trained.py``, and Wide&Deep with the tables of ``training_models.py`` in
batches of 1,000; ``--into`` keeps a file's rows of the others, each with the commit that it was measured at, so that a
run may come in pieces. Where every step begins at eager's state, the loss does not tell of the update that it makes:
the whole change of all parameters is compared too. Beside losses in float32 stand those of eager PyTorch in float64:
how far its own in float32 are from them is what rounding makes of the training, and no two runs need be closer.
"""

from __future__ import annotations

import argparse
import copy
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import process_time
from typing import Any

import torch
from torch import nn

from benchmarks.measure import emit, machine_facts, rows_before, say
from benchmarks.models.recommenders import clicked
from benchmarks.models.trained import CASES, DRAWN, Batch, ByTorch, Case, Eager
from benchmarks.table import figure, print_table
from benchmarks.training_models import WIDE_AND_DEEP, wide_and_deep_batches
from hetpart.training import Step
from hetpart.training.compiled import Running, capture, place
from hetpart.training.kept import Contents

REACH = 1e-5
THREADS = 1
SEED = 0
STEPS = 100
"""Of Wide&Deep, each with a batch of its own."""
COLUMNS = {
    "what": figure("case"),
    "where": figure("placement"),
    "steps": figure("steps"),
    "largest difference": figure("largest", "{:.1e}"),
    "of an update": figure("update", "{:.1e}"),
    "from float64": figure("from_float64", "{:.1e}"),
    "eager's own": figure("eager_from_float64", "{:.1e}"),
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
    from_float64: float | None
    """Of steps in float32, side by side: the largest difference from the losses of eager PyTorch in float64."""
    eager_from_float64: float | None
    """Of eager PyTorch in float32, from the same."""
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
    exact = _in_float64(case, model, batches)
    for where, options in case.placements.items():
        began = process_time()
        step = place(captured, running=Running(emulate=True, threads=THREADS), hardware="emulated", **options)
        eager = case.eager(copy.deepcopy(model), case.loss)
        compared = list((_from_eager if case.from_eager else _side_by_side)(step, eager, batches))
        decisions = step.plan.decisions
        yield Row(
            name, where, len(compared), max(one.apart for one in compared),
            max(one.update for one in compared) if case.from_eager else None,
            _largest([one.made for one in compared], exact), _largest([one.loss for one in compared], exact),
            len(step.plan.partitions),
            sum(decision.device != "cpu" for decision in decisions) / len(decisions),
            compared[0].loss, compared[-1].loss, round(process_time() - began, 1),
        )  # fmt: skip
        step.close()


@dataclass(frozen=True, slots=True)
class Compared:
    """One step of both."""

    made: float
    loss: float
    """Eager's."""
    update: float = 0.0

    @property
    def apart(self) -> float:
        return _apart(self.made, self.loss)


def _side_by_side(step: Step, eager: Eager, batches: list[Batch]) -> Iterator[Compared]:
    for batch in batches:
        loss = eager(*batch)
        yield Compared(step(*batch).item(), loss)


def _from_eager(step: Step, eager: Eager, batches: list[Batch]) -> Iterator[Compared]:
    assert isinstance(eager, ByTorch)
    after = eager.state_dict()
    for batch in batches:
        before = after
        loss = eager(*batch)
        after = eager.state_dict()
        step.load_state_dict(before)
        made = step(*batch).item()
        kept = step.state_dict()["tensors"]
        yield Compared(made, loss, _change_apart(kept, before["tensors"], after["tensors"]))


def _change_apart(made: Contents, before: Contents, after: Contents) -> float:
    """How far the change from ``before`` to ``made`` is from that to ``after``, by the norm of all parameters."""
    names = [name for name in before if f"optimizer/momentum/{name}" in before]
    off = sum(float((made[name] - after[name]).double().square().sum()) for name in names)
    whole = sum(float((after[name] - before[name]).double().square().sum()) for name in names)
    return (off / whole) ** 0.5


def _apart(made: float, loss: float) -> float:
    return abs(made - loss) / abs(loss)


def _in_float64(case: Case, model: nn.Module, batches: Sequence[Batch]) -> list[float]:
    """Losses of eager PyTorch in float64 where those in float32 are compared side by side, else none."""
    if case.from_eager or all(parameter.dtype == torch.float64 for parameter in model.parameters()):
        return []
    eager = case.eager(copy.deepcopy(model).double(), case.loss)
    return [eager(*_doubled(batch)) for batch in batches]


def _doubled(batch: Batch) -> Batch:
    return tuple(part.double() if part.is_floating_point() else part for part in batch)


def _largest(losses: Sequence[float], exact: Sequence[float]) -> float | None:
    return max(map(_apart, losses, exact)) if exact else None


def cases() -> dict[str, Case]:
    """Those of ``trained.py``, and Wide&Deep in float32 and in float64, whose rounding hides nothing."""
    in_float32 = Case(
        lambda: WIDE_AND_DEEP.model(Path()), clicked, wide_and_deep_batches(STEPS, rows=1000), WIDE_AND_DEEP.optimizer,
        lambda model, _: WIDE_AND_DEEP.by_hand(model),
        placements={where: DRAWN[where] for where in ("all on the host", "by chance, 1")},
    )  # fmt: skip
    in_float64 = replace(
        in_float32, model=lambda: in_float32.model().double(), data=[_doubled(batch) for batch in in_float32.data]
    )
    name = "Wide&Deep, batches of 1,000"
    return CASES | {name: in_float32, f"{name}, float64": in_float64}


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
    for name, case in cases().items():
        if options.only is None or any(part in name for part in options.only):
            found = rows_of(name, case if options.steps is None else case.shortened(options.steps))
            rows += [asdict(row) | {"commit": facts["commit"]} for row in found]
            say(f"training_losses: {name}")
        else:
            rows += [dict.fromkeys(Row.__slots__) | row for row in before if row["case"] == name]
    print_table(COLUMNS, rows)
    reached = sum(row["largest"] <= REACH for row in rows)
    say(f"{reached} of {len(rows)} within {REACH:g}")
    emit("training_losses", {"machine": facts, "reach": REACH, "reached": reached == len(rows), "rows": rows})


if __name__ == "__main__":
    main()
