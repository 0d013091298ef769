# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Recommenders at their real sizes, compiled as wholes: losses beside eager PyTorch's, and what is held where.

    python -m benchmarks.training_models > benchmarks/results/training_models.json
    python -m benchmarks.training_models --only dlrm_kaggle --steps 20
    python -m benchmarks.training_models --only wide_and_deep --steps 60 --drift

Wide&Deep at MindSpore's shape: 39 fields of one vocabulary of 200,000, vectors of 80 and weights of 1, a crossed slot
of 30 ids, layers of 1024-512-256-128-1, batches of 16,000; a lazy Adam for vectors, FTRL for weights. DLRM with the
rows of Criteo's Kaggle set, 33.8 M vectors of 16 in 26 tables, batches of 2,048, SGD; the tables of more than five
million rows lie in files. Data is drawn, ids by a power law.

Eager PyTorch has gradients of rows (``sparse=True``) and the formulas of papers (``benchmarks/by_hand.py``). Losses of
every step are compared; at half of the steps a checkpoint is written, from which the rest are made again. Every step
has a batch of its own: losses of batches that come again fall to nothing, and what is compared is their rounding.
"""

from __future__ import annotations

import argparse
import copy
import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.by_hand import ByHand, adam, ftrl, plain_adam, sgd
from benchmarks.measure import emit, machine_facts, say
from benchmarks.models.recommenders import DLRM, WideDeep, clicked
from hetpart.training import SGD, Adam, Group, Groups, LazyAdam, SparseFTRL, SparseSGD
from hetpart.training.compiled import CapturedStep, Running, capture, place
from hetpart.training.data import KAGGLE_CARDINALITIES, Clicks
from hetpart.training.embedding import mapped
from hetpart.training.step import Step

BATCH, FIELDS, VOCABULARY, CROSSED, HOT = 16_000, 39, 200_000, 1_000_000, 30
FILED = 5_000_000
"""DLRM's tables of more rows lie in files."""
FEWEST_ROWS = 10_000
"""What has more is a table, not a layer."""
HOST_TABLES = "the layers on the accelerator, the tables on the host"


@dataclass(frozen=True, slots=True)
class Case:
    """A model at its size."""

    model: Callable[[Path], nn.Module]
    """``Path`` is a folder for files; what is drawn is drawn of one seed."""
    batches: Callable[[int], list[tuple[Tensor, ...]]]
    """As many as asked for."""
    optimizer: Groups
    by_hand: Callable[[nn.Module], ByHand]


def wide_and_deep_batches(count: int, rows: int = BATCH) -> list[tuple[Tensor, ...]]:
    data = Clicks([VOCABULARY] * FIELDS, rows, count, dense=0)
    drawn = torch.Generator().manual_seed(1)
    crossed = [torch.randint(0, CROSSED, (rows, HOT), generator=drawn) for _ in range(count)]
    return [(ids, torch.ones(rows, FIELDS), some, label) for (ids, _, label), some in zip(data, crossed, strict=True)]


WIDE_RULE = ftrl(0.05, 1e-8, 1e-8, accumulator=1.0)
FTRL = SparseFTRL(0.05, beta=0.0, l1=1e-8, l2=1e-8, initial_accumulator=1.0)
WIDE_AND_DEEP = Case(
    lambda _: WideDeep(VOCABULARY, CROSSED),
    wide_and_deep_batches,
    Groups(Adam(3.5e-4), (Group("deep.*", LazyAdam(3.5e-4)), Group(("wide.*", "crossed.*"), FTRL))),
    lambda model: ByHand(
        model,
        clicked,
        {"deep": adam(3.5e-4), "wide": WIDE_RULE, "crossed": WIDE_RULE, "": plain_adam(3.5e-4)},
        initial=1.0,
    ),
)


def dlrm_model(folder: Path) -> nn.Module:
    tables: list[Tensor] = []
    for number, rows in enumerate(KAGGLE_CARDINALITIES):
        table = mapped(folder / f"table{number}", (rows, 16)) if rows > FILED else torch.empty(rows, 16)
        tables.append(table.uniform_(-(rows**-0.5), rows**-0.5))
    return DLRM(KAGGLE_CARDINALITIES, tables=tables)


DLRM_KAGGLE = Case(
    dlrm_model,
    lambda count: [(ids, dense, label) for ids, dense, label in Clicks(KAGGLE_CARDINALITIES, 2048, count)],
    Groups(SGD(0.1), (Group("tables.*", SparseSGD(0.1)),)),
    lambda model: ByHand(model, clicked, {"": sgd(0.1)}),
)
CASES = {"wide_and_deep": WIDE_AND_DEEP, "dlrm_kaggle": DLRM_KAGGLE}


def places(step: CapturedStep) -> Mapping[str, Mapping[str, Any]]:
    """Options of ``hetpart.training.compile``, by what they do."""
    on_host = [f"node:{name}=cpu" for names in step.program.together for name in names]
    return {
        HOST_TABLES: {"placement": "all-accelerator", "pin": on_host},
        "all on the host": {"placement": "all-cpu"},
    }


def compared(case: Case, steps: int, folder: Path, wherever: str) -> dict[str, Any]:
    """The case at every placement that has ``wherever`` in its name, beside eager PyTorch."""
    torch.manual_seed(0)
    model, batches = case.model(folder), case.batches(steps)
    began = process_time()
    wanted = case.by_hand(copy.deepcopy(model)).losses(batches, steps)  # in memory, files too
    eager = process_time() - began
    began = perf_counter()
    captured = capture(model, clicked, optimizer=case.optimizer, example_batch=batches[0])
    capturing = perf_counter() - began
    begin = {name: table.clone() for name, table in captured.contents.items() if _is_filed(table)}
    rows = dict[str, Any]()
    chosen = {where: options for where, options in places(captured).items() if wherever in where}
    for where, options in chosen.items():
        for name, table in begin.items():  # what is in files follows every update
            captured.contents[name].copy_(table)
        rows[where] = _ran(captured, options, batches, wanted, folder / "kept")
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "bytes_in_files": sum(table.nbytes for table in begin.values()),
        "batch": len(batches[0][0]),
        "steps": steps,
        "capture_seconds": round(capturing, 2),
        "eager_cpu_seconds": round(eager, 1),
        "first_and_last_loss": (wanted[0], wanted[-1]),
        "placements": rows,
        "peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _is_filed(table: Tensor) -> bool:
    return bool(table.untyped_storage().filename)


def _ran(
    captured: CapturedStep,
    options: Mapping[str, Any],
    batches: Sequence[tuple[Tensor, ...]],
    wanted: Sequence[float],
    folder: Path,
) -> dict[str, Any]:
    say(f"training_models: {options['placement']}")
    half = len(wanted) // 2
    step = place(captured, running=Running(emulate=True, threads=2), hardware="emulated", **options)
    began = process_time()
    losses = _losses(step, batches, half)
    step.save_checkpoint(folder, keep_max=1)
    losses += _losses(step, batches, len(wanted) - half)
    step.load_checkpoint(folder)
    again = _losses(step, batches, len(wanted) - half)
    found = {
        **_differences(losses, wanted),
        "resumed_bit_for_bit": again == losses[half:],
        "cpu_seconds": round(process_time() - began, 1),
        "state_bytes": {use.device: use.state_bytes for use in step.plan.devices},
        "partitions": len(step.plan.partitions),
    }
    step.close()
    return found


def _differences(losses: Sequence[float], wanted: Sequence[float]) -> dict[str, Any]:
    relative = [abs(a - b) / abs(b) for a, b in zip(losses, wanted, strict=True)]
    every_ten = [max(relative[first : first + 10]) for first in range(0, len(wanted), 10)]
    return {"largest_difference": max(relative), "largest_difference_of_every_ten": every_ten}


def drift(case: Case, steps: int, folder: Path) -> dict[str, Any]:
    """How far the losses of eager PyTorch are from its own, where layers begin a unit in the last place apart."""
    torch.manual_seed(0)
    model, batches = case.model(folder), case.batches(steps)
    wanted = case.by_hand(copy.deepcopy(model)).losses(batches, steps)
    moved = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in moved.parameters():
            if len(parameter) < FEWEST_ROWS:
                parameter.copy_(torch.nextafter(parameter, torch.full_like(parameter, torch.inf)))
    return {"steps": steps, **_differences(case.by_hand(moved).losses(batches, steps), wanted)}


def _losses(step: Step, batches: Sequence[tuple[Tensor, ...]], steps: int) -> list[float]:
    return [step(*batches[step.steps % len(batches)]).item() for _ in range(steps)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(CASES), help="one of the models")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--where", default="", help="part of a placement's name")
    parser.add_argument("--folder", type=Path, default=Path("build"), help="where files and checkpoints are made")
    parser.add_argument("--drift", action="store_true", help="eager PyTorch from layers a unit in the last place apart")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    found = dict[str, Any]()
    for name in [arguments.only] if arguments.only else list(CASES):
        say(f"training_models: {name}")
        with TemporaryDirectory(dir=arguments.folder) as scratch:
            if arguments.drift:
                found[name] = {
                    "eager_from_a_unit_in_the_last_place": drift(CASES[name], arguments.steps, Path(scratch))
                }
            else:
                found[name] = compared(CASES[name], arguments.steps, Path(scratch), arguments.where)
    emit("training_models", {"machine": machine_facts() | {"torch": torch.__version__, "threads": 2}, "cases": found})


if __name__ == "__main__":
    main()
