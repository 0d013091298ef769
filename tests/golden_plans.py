"""What the zoo's small models are placed like: told in a few lines each, to be compared with what is stored.

    python -m pytest tests/test_golden_plans.py --update-golden     # stores what is placed now

Where a solver finds another placement, look at the seconds and the gap: they should not have risen.
"""

from __future__ import annotations

import hashlib
import json
import sys
from itertools import count, groupby
from pathlib import Path
from typing import Any
from unittest import mock

import hetpart
from benchmarks import zoo
from hetpart.plan.io import write_plan
from hetpart.plan.model import Decision, Plan

FOLDER = Path(__file__).parent / "golden"
MACHINE = FOLDER / "machine.toml"
MODELS = [name for name in zoo.ZOO if name.endswith("-tiny")]
SHARES = (50,)
"""Budgets, in percent of the footprint."""
LOOKS, SECONDS_A_LOOK = 1200, 60
"""How often a search looks at its clock until its time is over: some seconds. What is said to pass from look to look is
more than any program of it takes."""


def planned(name: str, path: Path, share: int) -> Plan:
    """The plan of a zoo model with ``share`` percent of its footprint."""
    return partitioned(name, path, share).plan


def partitioned(name: str, path: Path, share: int, **more: Any) -> hetpart.PartitionedModel:
    """The same with all that it is made of; ``more`` are options. A search goes as far on every machine."""
    options: dict[str, Any] = {"hardware": MACHINE, "shape": dict(zoo.ZOO[name].shape), "threads": 2}
    footprint = hetpart.partition(path, placement="all-accelerator", **options).plan.footprint_bytes
    with mock.patch("hetpart.partitioner.bounds.clock.monotonic", side_effect=count(step=SECONDS_A_LOOK)):
        options |= {"budget": footprint * share // 100, "time_limit": LOOKS * SECONDS_A_LOOK}
        return hetpart.partition(path, **options, **more)


def told(plan: Plan) -> dict[str, Any]:
    """What a golden file holds of a plan."""
    return {
        "budget_bytes": plan.device("cuda:0").budget_bytes,
        "predicted_seconds": f"{plan.prediction.seconds:.6g}",
        "gap": f"{plan.certificate.gap:.3f}",
        "partitions": len(plan.partitions),
        "copies": len(plan.transfers),
        "placement": [_run(list(ops)) for _, ops in groupby(plan.decisions, key=lambda decision: decision.device)],
    }


def _run(ops: list[Decision]) -> str:
    """Ops that follow each other on one device."""
    ends = ops[0].op if len(ops) == 1 else f"{ops[0].op} … {ops[-1].op}"
    return f"{ops[0].device} ×{len(ops)}: {ends}"


def golden_text(name: str, path: Path) -> str:
    """What the golden file of a model should hold."""
    plans = {f"{share} %": told(planned(name, path, share)) for share in SHARES}
    return json.dumps(plans, indent=1, ensure_ascii=False) + "\n"


def digest(name: str, path: Path, share: int) -> str:
    """Of every byte of a plan."""
    return hashlib.sha256(write_plan(planned(name, path, share))).hexdigest()


if __name__ == "__main__":  # in a process of its own, with another hash seed and other numbers of threads
    print(digest(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))  # noqa: T201 - what the test reads
