"""The zoo under budgets of 25, 50 and 75 % of its footprint: what would overlap save, and what does predicting it take?

    python -m benchmarks.overlap [--tiny] [--models NAME ...] [--hardware NAME ...] [--shares PERCENT ...]

Everything is predicted. ``as_cut`` is the plan's own cut, ``finer`` that of ``overlap=True``; planning is timed in
seconds of the processor, without and with it.
"""

from __future__ import annotations

import argparse
from math import exp, log
from pathlib import Path
from time import process_time
from typing import Any

import hetpart
from benchmarks import zoo
from benchmarks.checked import chosen_models
from benchmarks.measure import emit, machine_facts, say

SHARES = (25, 50, 75)
HARDWARE = ("l4+generic-2core",)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=[], choices=list(zoo.ZOO), metavar="NAME")
    parser.add_argument("--tiny", action="store_true", help="the small models of the tests")
    parser.add_argument("--hardware", nargs="*", default=HARDWARE, metavar="NAME")
    parser.add_argument("--shares", nargs="*", type=int, default=SHARES, metavar="PERCENT", help="of the footprint")
    parser.add_argument("--zoo", type=Path, default=zoo.DEFAULT_FOLDER, help="folder of the built models")
    arguments = parser.parse_args()
    facts = machine_facts()
    rows = [
        row
        for name in chosen_models(arguments.models, tiny=arguments.tiny)
        for hardware in arguments.hardware
        for row in _rows(name, zoo.prepare(name, arguments.zoo), hardware, arguments.shares)
    ]
    speedups = {kind: _mean([row[f"speedup_{kind}"] for row in rows]) for kind in ("as_cut", "finer")}
    emit("overlap", {"machine": facts, "geometric_mean_speedup": speedups, "plans": rows})


def _rows(name: str, path: Path, hardware: str, shares: list[int]) -> list[dict[str, Any]]:
    options: dict[str, Any] = {"hardware": hardware, "shape": dict(zoo.ZOO[name].shape)}
    footprint = hetpart.partition(path, placement="all-accelerator", **options).plan.footprint_bytes
    rows: list[dict[str, Any]] = []
    for share in shares:
        say(f"{name}, {hardware}, {share} %")
        row = {"model": name, "hardware": hardware, "budget_share": share / 100}
        rows.append(row | _row(path, {**options, "budget": footprint * share // 100}))
    return rows


def _row(path: Path, options: dict[str, Any]) -> dict[str, Any]:
    (serial, planning), (finer, with_overlap) = (_timed(path, {**options, "overlap": on}) for on in (False, True))
    seconds = serial.plan.prediction.seconds
    return {
        "serial_seconds": seconds,
        "as_cut": _told(serial),
        "finer": _told(finer),
        "speedup_as_cut": seconds / serial.timeline.seconds,
        "speedup_finer": seconds / finer.timeline.seconds,
        "planning_seconds": planning,
        "planning_seconds_with_overlap": with_overlap,
    }


def _timed(path: Path, options: dict[str, Any]) -> tuple[hetpart.PartitionedModel, float]:
    start = process_time()
    made = hetpart.partition(path, **options)
    return made, process_time() - start


def _told(made: hetpart.PartitionedModel) -> dict[str, Any]:
    timeline = made.timeline
    return {
        "overlapped_seconds": timeline.seconds,
        "lower_bound": timeline.lower_bound,
        "finest_bound": timeline.finest_bound,
        "partitions": len(made.plan.partitions),
        "copies": len(made.plan.transfers),
        "peak_bytes": {use.device: use.peak_bytes for use in made.plan.devices},
    }


def _mean(ratios: list[float]) -> float:
    return exp(sum(map(log, ratios)) / len(ratios))


if __name__ == "__main__":
    main()
