# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Planned bytes of the accelerator beside what runs of a step hold there, for every model that training is shown on.

    python -m benchmarks.training_memory > benchmarks/results/training_memory.json
    python -m benchmarks.training_memory --only GPT

The accelerator is emulated; what it holds is counted by those who hold it: ONNX Runtime's arenas by its profiles,
states and the buffers between partitions by the runtime. What PyTorch takes while it runs an operator nobody counts.
Reach: no more is held than was planned; and of a GPT in bfloat16 whose updates are on the host there lie at most
a third of the bytes for each parameter of one in full precision, in states alone and with copies on their way. Models
and optimizers are those of ``benchmarks/models/trained.py``, a GPT in bfloat16 beside them, and recommenders with
tables of their real widths and batches of 1,000.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

import hetpart
from benchmarks.measure import emit, machine_facts, say
from benchmarks.models.recommenders import DLRM, WideDeep, clicked
from benchmarks.models.trained import CASES, GPT, Batch, next_token
from benchmarks.table import figure, print_table
from hetpart.runtime.held import ValueWatch
from hetpart.runtime.profiles import profiling_options
from hetpart.training import SGD, Adam, AdamW, Group, Groups, LazyAdam, SparseFTRL, SparseSGD
from hetpart.training.compiled import CapturedStep, capture, planned_step
from hetpart.training.data import Clicks
from hetpart.training.kept import PlannedStep
from hetpart.training.rules import NO_RULES, Rules
from hetpart.training.step import Step

RUNS = 3
REACH = 1 / 3
ROWS = 1000
CARDINALITIES = (1_000_000, 200_000, 50_000, 3)
ALL_THERE, UPDATES_ON_HOST = "all on the accelerator", "updates on the host"
FULL_GPT, HALF_GPT = "GPT, 4 layers of 128", "GPT, 4 layers of 128, bfloat16"
PLACEMENTS: Mapping[str, Mapping[str, Any]] = {
    ALL_THERE: {"placement": "all-accelerator"},
    UPDATES_ON_HOST: {"placement": "all-accelerator", "pin": "node:update/*=cpu"},
    "by chance, 1": {"placement": "random:1"},
}
COLUMNS = {
    "what": figure("case"),
    "where": figure("placement"),
    "planned MB": figure("planned", "{:.2f}", 1e-6),
    "held MB": figure("held", "{:.2f}", 1e-6),
    "held / planned": figure("share", "{:.3f}"),
    "states MB": figure("states", "{:.2f}", 1e-6),
    "states per parameter": figure("states_per_parameter", "{:.2f}"),
    "with copies": figure("with_copies_per_parameter", "{:.2f}"),
}


@dataclass(frozen=True, slots=True)
class Shown:
    """A training, not yet made."""

    model: Callable[[], nn.Module]
    loss: Callable[..., Tensor]
    batch: Callable[[], Batch]
    optimizer: Any
    rules: Rules = NO_RULES


def _wide_and_deep_batch() -> Batch:
    ids, _, label = next(iter(Clicks([200_000] * 39, ROWS, 1, dense=0)))
    return ids, torch.ones(ROWS, 39), torch.randint(0, 1_000_000, (ROWS, 30)), label


def _dlrm_batch() -> Batch:
    ids, dense, label = next(iter(Clicks(CARDINALITIES, ROWS, 1)))
    return ids, dense, label


_FTRL = SparseFTRL(0.05, beta=0.0, l1=1e-8, l2=1e-8, initial_accumulator=1.0)
SHOWN: dict[str, Shown] = {
    **{
        name: Shown(case.model, case.loss, lambda case=case: case.batches()[0], case.optimizer)
        for name, case in CASES.items()
        if "float64" not in name
    },
    HALF_GPT: Shown(
        lambda: GPT(256, 64, 128, 4, 4), next_token, lambda: CASES[FULL_GPT].batches()[0], AdamW(),
        Rules("bf16"),
    ),
    "Wide&Deep, MindSpore's tables": Shown(
        lambda: WideDeep(200_000, 1_000_000), clicked, _wide_and_deep_batch,
        Groups(Adam(3.5e-4), (Group("deep.*", LazyAdam(3.5e-4)), Group(("wide.*", "crossed.*"), _FTRL))),
    ),
    "DLRM, 4 tables": Shown(
        lambda: DLRM(CARDINALITIES), clicked, _dlrm_batch, Groups(SGD(0.1), (Group("tables.*", SparseSGD(0.1)),))
    ),
}  # fmt: skip


def rows_of(name: str, shown: Shown) -> Iterator[dict[str, Any]]:
    """A row for every placement."""
    torch.manual_seed(0)
    batch = shown.batch()
    model = shown.model()
    captured = capture(model, shown.loss, optimizer=shown.optimizer, example_batch=batch, rules=shown.rules)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    for where, options in PLACEMENTS.items():
        planned = planned_step(captured, hardware="emulated", threads=1, **options)
        for use in planned.plan.devices[1:]:
            held = _held(captured, planned, batch)[use.device]
            yield {
                "case": name,
                "placement": where,
                "device": use.device,
                "planned": use.peak_bytes,
                "held": held.peak,
                "share": held.peak / use.peak_bytes if use.peak_bytes else 0.0,
                "states": held.states,
                "planned_states": use.state_bytes,
                "parameters": parameters,
                "states_per_parameter": held.states / parameters,
                "with_copies_per_parameter": (held.states + held.buffers) / parameters,
                "parts": asdict(held),
            }


def mixed(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Bytes of a GPT's parameters on the accelerator in mixed precision, over those of all of it in full precision."""
    known = {(row["case"], row["placement"]): row for row in rows}
    half, full = known.get((HALF_GPT, UPDATES_ON_HOST)), known.get((FULL_GPT, ALL_THERE))
    if half is None or full is None:
        return {}
    parts = ("states_per_parameter", "with_copies_per_parameter")
    shares = {part: half[part] / full[part] for part in parts}
    return {"mixed_over_full": shares | {"reach": REACH, "reached": max(shares.values()) <= REACH}}


def _held(captured: CapturedStep, planned: Any, batch: Batch) -> Mapping[str, Any]:
    """What some calls of the step hold, by device."""
    bundle, watch = planned.bundle(), ValueWatch()
    with (
        TemporaryDirectory(prefix="hetpart-") as folder,
        hetpart.Session(bundle, profiling_options(Path(folder)), emulate=True, threads=1, record=watch) as session,
    ):
        step = Step(PlannedStep(planned, session, captured.program, captured.rest), captured.contents, None)
        for _ in range(RUNS):
            step(*batch)
        return session.held_memory(bundle, watch)


def main() -> None:
    """Prints a table, and the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="part of a model's name; may be given again")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    facts = machine_facts() | {"torch": torch.__version__}
    rows = list[dict[str, Any]]()
    for name, shown in SHOWN.items():
        if options.only is None or any(part in name for part in options.only):
            say(f"training_memory: {name}")
            rows += rows_of(name, shown)
    print_table(COLUMNS, rows)
    reached = all(row["held"] <= row["planned"] for row in rows)
    emit("training_memory", {"machine": facts, "reached": reached, **mixed(rows), "rows": rows})


if __name__ == "__main__":
    main()
