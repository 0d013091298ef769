"""How good the plans of the zoo's models provably are, under budgets of 25, 50 and 75 % of their footprint.

    python -m benchmarks.zoo_gaps [--models NAME ...] [--hardware NAME ...] [--journal FILE]

Reach: a certified gap of at most 1 %, planned within 10 s each. ``seconds`` is the whole of ``hetpart.partition``, from
the file to the plan; ``cpu_seconds`` leaves out what others take of the machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

import hetpart
from benchmarks import zoo
from benchmarks.checked import Journal, chosen_models
from benchmarks.measure import emit, machine_facts, say
from hetpart.errors import HetpartError

if TYPE_CHECKING:
    from hetpart import PartitionedModel

SHARES = (25, 50, 75)
HARDWARE = ("l4+generic-2core", "emulated+generic-2core")
REACH = {"gap": 0.01, "seconds": 10.0}
BEYOND = "1000TB"
"""A budget that leaves everything on the accelerator."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=[], choices=list(zoo.ZOO), metavar="NAME")
    parser.add_argument("--hardware", nargs="*", default=HARDWARE, metavar="NAME")
    parser.add_argument("--zoo", type=Path, default=zoo.DEFAULT_FOLDER, help="folder of the built models")
    parser.add_argument("--journal", type=Path, help="file to keep rows in, to go on from after an interruption")
    arguments = parser.parse_args()
    facts = machine_facts()
    journal = Journal.of(arguments.journal)
    names = chosen_models(arguments.models, tiny=False)
    rows = [row for name in names for row in _rows(name, arguments, journal)]
    emit("zoo_gaps", {"machine": facts, "reach": REACH, **_verdict(rows), "plans": rows})


def _rows(name: str, arguments: argparse.Namespace, journal: Journal) -> Iterator[dict[str, Any]]:
    for hardware in arguments.hardware:
        for share in SHARES:
            yield journal.row(f"{name} {hardware} {share}", partial(_row, name, arguments.zoo, hardware, share))


def _row(name: str, folder: Path, hardware: str, share: int) -> dict[str, Any]:
    path = zoo.prepare(name, folder)
    plan = partial(hetpart.partition, path, hardware=hardware, shape=zoo.ZOO[name].shape)
    budget = plan(placement="all-accelerator", budget=BEYOND).plan.footprint_bytes * share // 100
    head = {"model": name, "hardware": hardware, "fraction": share / 100, "budget_bytes": budget}
    start, before = perf_counter(), process_time()
    try:
        found = _figures(plan(budget=budget))
    except HetpartError as error:
        found = {"error": str(error)}
    seconds = {"seconds": round(perf_counter() - start, 3), "cpu_seconds": round(process_time() - before, 3)}
    say(f"zoo_gaps: {name}, {hardware}, {share} %: {found.get('gap', 'error')} in {seconds['cpu_seconds']} s of CPU")
    return {**head, **found, **seconds}


def _figures(model: PartitionedModel) -> dict[str, Any]:
    certificate, accelerator = model.plan.certificate, model.plan.devices[-1]
    return {
        "ops": model.plan.model.ops,
        "cost": certificate.cost,
        "lower_bound": certificate.lower_bound,
        "gap": certificate.gap,
        "partitions": len(model.plan.partitions),
        "peak_bytes": accelerator.peak_bytes,
    }


def _verdict(rows: list[dict[str, Any]]) -> dict[str, Any]:
    proven = [row for row in rows if row.get("gap", 1.0) <= REACH["gap"]]
    quick = [row for row in rows if row["cpu_seconds"] <= REACH["seconds"]]
    both = [row for row in proven if row in quick]
    counts = {"plans": len(rows), "proven": len(proven), "quick": len(quick), "both": len(both)}
    return {"reached": len(both) == len(rows), "counts": counts}


if __name__ == "__main__":
    main()
