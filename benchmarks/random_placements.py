"""Every model of the zoo with many random placements, bit for bit against the uncut model, optimisations off.

    python -m benchmarks.random_placements [--tiny] [--models NAME ...] [--seeds 20] [--journal FILE]

A placement by chance ignores cost, so it cuts where no good plan would, in many places and both ways.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import zoo
from benchmarks.checked import Checked, Journal, chosen_models
from benchmarks.measure import emit, machine_facts, say
from hetpart.errors import HetpartError

HARDWARE = "emulated"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=[], choices=list(zoo.ZOO), metavar="NAME")
    parser.add_argument("--tiny", action="store_true", help="the small models of the tests")
    parser.add_argument("--seeds", type=int, default=20, metavar="N", help="seeds 0 to N - 1")
    parser.add_argument("--zoo", type=Path, default=zoo.DEFAULT_FOLDER, help="folder of the built models")
    parser.add_argument("--journal", type=Path, help="file to keep rows in, to go on from after an interruption")
    arguments = parser.parse_args()
    facts = machine_facts()
    journal = Journal.of(arguments.journal)
    names = chosen_models(arguments.models, tiny=arguments.tiny)
    models = {name: _model(name, arguments.zoo, arguments.seeds, journal) for name in names}
    totals = _totals(list(models.values()))
    reached = totals["equal"] == totals["placements"]
    emit("random_placements", {"machine": facts, "reached": reached, "totals": totals, "models": models})
    sys.exit(0 if reached else 1)


def _model(name: str, folder: Path, seeds: int, journal: Journal) -> dict[str, Any]:
    checked: list[Checked] = []
    rows = [journal.row(f"{name} {seed}", partial(_row, checked, name, folder, seed)) for seed in range(seeds)]
    whole = [row for row in rows if "error" not in row]
    totals = _totals([{**row, "placements": 1, "equal": int(row["equal"])} for row in whole])
    say(f"random_placements: {name}: {totals}")
    return {
        "ops": max((row["ops"] for row in whole), default=None),
        **totals,
        "placements": len(rows),
        "most_partitions": max((row["partitions"] for row in whole), default=0),
        "wrong": [{"seed": seed, **row} for seed, row in enumerate(rows) if not row.get("equal")],
    }


def _row(known: list[Checked], name: str, folder: Path, seed: int) -> dict[str, Any]:
    if not known:
        known.append(Checked.of(name, folder))
    try:
        model = known[0].partition(hardware=HARDWARE, placement=f"random:{seed}")
        found = known[0].run(model, exact=True)
    except HetpartError as error:
        return {"error": str(error)}
    return {
        "ops": model.plan.model.ops,
        "equal": found["equal"],
        "largest_difference": found["largest_difference"],
        "partitions": len(model.plan.partitions),
        "cuts": _cuts(model.plan),
        "copies": found["copies"],
    }


def _cuts(plan: Any) -> int:
    """Values that pass from one partition to another."""
    return sum(name not in {spec.name for spec in plan.inputs} for part in plan.partitions for name in part.inputs)


def _totals(rows: list[dict[str, Any]]) -> dict[str, Any]:
    copies: Counter[str] = Counter()
    for row in rows:
        copies.update(row["copies"])
    return {key: sum(row[key] for row in rows) for key in ("placements", "equal", "partitions", "cuts")} | {
        "copies": dict(sorted(copies.items()))
    }


if __name__ == "__main__":
    main()
