"""The zoo under budgets of 25, 50 and 75 % of its footprint: are results right, and is a plan never beaten?

    python -m benchmarks.zoo_plans [--tiny] [--models NAME ...] [--hardware NAME ...] [--shares PERCENT ...]

Every plan is run under emulation twice: with ONNX Runtime's optimisations, within the tolerance of ``--check``, and
without them, bit for bit. Its modelled latency is compared with the best rule that fits the same budget.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks import zoo
from benchmarks.checked import Checked, Journal, chosen_models
from benchmarks.measure import emit, machine_facts, say
from hetpart.errors import HetpartError

if TYPE_CHECKING:
    from hetpart import Plan

SHARES = (25, 50, 75)
HARDWARE = ("emulated",)
ROUNDING = 1e-12
"""Relative: two sums of the same seconds in another order."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=[], choices=list(zoo.ZOO), metavar="NAME")
    parser.add_argument("--tiny", action="store_true", help="the small models of the tests")
    parser.add_argument("--hardware", nargs="*", default=HARDWARE, metavar="NAME")
    parser.add_argument("--shares", nargs="*", type=int, default=SHARES, metavar="PERCENT", help="of the footprint")
    parser.add_argument("--zoo", type=Path, default=zoo.DEFAULT_FOLDER, help="folder of the built models")
    parser.add_argument("--journal", type=Path, help="file to keep rows in, to go on from after an interruption")
    arguments = parser.parse_args()
    facts = machine_facts()
    journal = Journal.of(arguments.journal)
    names = chosen_models(arguments.models, tiny=arguments.tiny)
    rows = [row for name in names for row in _model_rows(name, arguments, journal)]
    verdict = _verdict(rows)
    emit("zoo_plans", {"machine": facts, **verdict, "plans": rows})
    sys.exit(0 if verdict["reached"] else 1)


def _model_rows(name: str, arguments: argparse.Namespace, journal: Journal) -> list[dict[str, Any]]:
    checked: list[Checked] = []

    def model() -> Checked:
        if not checked:
            checked.append(Checked.of(name, arguments.zoo))
        return checked[0]

    return [
        journal.row(f"{name} {hardware} {share}", partial(_row, model, hardware, share))
        for hardware in arguments.hardware
        for share in arguments.shares
    ]


def _row(model: Any, hardware: str, share: int) -> dict[str, Any]:
    checked: Checked = model()
    head = {"model": checked.name, "hardware": hardware, "budget_share": share / 100}
    try:
        row = {**head, **_planned(checked, hardware, share)}
    except HetpartError as error:
        row = {**head, "error": str(error)}
    say(f"zoo_plans: {checked.name}, {hardware}, {share} %: {_word(row)}")
    return row


def _word(row: dict[str, Any]) -> str:
    if "error" in row:
        return row["error"]
    parts = f"{row['partitions']} partitions, gap {row['gap']:.3f}, planned in {row['plan_seconds']:.2f} s"
    return f"{parts}, equal {row['check']['equal']} and {row['exact']['equal']}, unbeaten {row['unbeaten']}"


def _planned(checked: Checked, hardware: str, share: int) -> dict[str, Any]:
    everything = checked.partition(hardware=hardware, placement="all-accelerator", budget="100%")
    footprint = everything.plan.footprint_bytes
    start = perf_counter()
    model = checked.partition(hardware=hardware, budget=footprint * share // 100)
    seconds = perf_counter() - start
    return {
        "footprint_bytes": footprint,
        "plan_seconds": round(seconds, 3),
        **_figures(model.plan),
        "check": checked.run(model, exact=False),
        "exact": checked.run(model, exact=True),
    }


def _figures(plan: Plan) -> dict[str, Any]:
    fitting = [baseline for baseline in plan.baselines if baseline.fits and baseline.seconds is not None]
    best = min(fitting, key=lambda baseline: (baseline.seconds, baseline.name))
    assert best.seconds is not None
    accelerator = plan.devices[-1]
    return {
        "ops": plan.model.ops,
        "budget_bytes": accelerator.budget_bytes,
        "predicted_peak_bytes": accelerator.peak_bytes,
        "partitions": len(plan.partitions),
        "transfers": len(plan.transfers),
        "predicted_seconds": plan.prediction.seconds,
        "best_rule": best.name,
        "best_rule_seconds": best.seconds,
        "unbeaten": plan.prediction.seconds <= best.seconds * (1 + ROUNDING),
        "fits": accelerator.budget_bytes is None or accelerator.peak_bytes <= accelerator.budget_bytes,
        "gap": plan.certificate.gap,
    }


def _verdict(rows: list[dict[str, Any]]) -> dict[str, Any]:
    whole = [row for row in rows if "error" not in row]
    counts = {
        "plans": len(rows),
        "failed": len(rows) - len(whole),
        "equal_within_tolerance": sum(row["check"]["equal"] for row in whole),
        "equal_bit_for_bit": sum(row["exact"]["equal"] for row in whole),
        "unbeaten": sum(row["unbeaten"] for row in whole),
        "within_budget": sum(row["fits"] for row in whole),
        "better_than_every_rule": sum(row["predicted_seconds"] < 0.999 * row["best_rule_seconds"] for row in whole),
    }
    musts = ("equal_within_tolerance", "equal_bit_for_bit", "unbeaten", "within_budget")
    return {"reached": all(counts[must] == len(rows) for must in musts), "counts": counts}


if __name__ == "__main__":
    main()
