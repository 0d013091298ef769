"""Predicted latency beside measured: the zoo on this machine's processor, after ``hetpart calibrate``.

    python -m benchmarks.latency_error [--zoo DIR] [--cases NAME ...] [--threads N ...] [--profile generic-2core]

Every model is planned all on the host and runs as one session. Measured is what an undisturbed machine takes: the least
of many runs, or the sum of every kernel's least time where that is less. A processor whose cores other tenants share
runs at half its speed for most of the time; the median says how far that was so. ``--profile`` predicts from a profile
that comes with hetpart instead of the calibration.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any

import numpy as np
import onnxruntime
from scipy.stats import rankdata

import hetpart
from benchmarks import zoo
from benchmarks.measure import emit, machine_facts, say
from hetpart import PartitionedModel
from hetpart.plan.cut_models import cut_models
from hetpart.runtime.feeds import random_feeds
from hetpart.runtime.sessions import SessionSettings, session_options

REACH = {"calibrated": 0.10, "profile": 0.30, "rank_correlation": 0.9}
SECONDS = 6.0
FEWEST_RUNS, MOST_RUNS = 8, 400
FEWEST_RANKED = 3


@dataclass(frozen=True, slots=True)
class Case:
    """A model of the zoo at one size."""

    model: str
    shape: Mapping[str, int]
    access: Mapping[str, float] | None = None
    """What the user knows of it: how likely a row takes part."""


CASES: Mapping[str, Case] = {
    "bert-base": Case("bert-base", {"batch": 1, "seq": 128}),
    "gpt2-prefill": Case("gpt2", {"batch": 1, "seq": 128, "context": 1}),
    "gpt2-decode": Case("gpt2", {"batch": 1, "seq": 1, "context": 512}),
    **{f"dlrm-{batch}": Case("dlrm", {"batch": batch}) for batch in (1, 128, 4096)},
    **{f"wide-and-deep-{batch}": Case("wide-and-deep", {"batch": batch}) for batch in (1, 128, 4096)},
    **{name: Case(name, {}) for name in ("resnet50", "densenet121", "shufflenet")},
    "vit-base": Case("vit-base", {"batch": 1}),
    "whisper": Case("whisper", {"batch": 1, "seq": 16}),
    "moe": Case("moe", {"tokens": 64}, {"*expert*": 2 / 8}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zoo", type=Path, default=zoo.DEFAULT_FOLDER)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES), metavar="NAME")
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of measuring each case, twice")
    parser.add_argument("--profile", default="host", help="a processor's profile to predict from")
    asked = parser.parse_args()
    facts = machine_facts()
    rows = [
        _row(name, threads, asked.zoo, asked.profile, asked.seconds)
        for threads in asked.threads
        for name in asked.cases
    ]
    rows.sort(key=lambda row: -abs(row["error"]))
    errors = {
        threads: mean(abs(row["error"]) for row in rows if row["threads"] == threads) for threads in asked.threads
    }
    reach = REACH["calibrated" if asked.profile == "host" else "profile"]
    emit(
        "latency_error",
        {
            "machine": facts,
            "profile": asked.profile,
            "reach": REACH,
            "mean_absolute_error": errors,
            "reached": all(error <= reach for error in errors.values()),
            "models": rows,
        },
    )


def _row(name: str, threads: int, folder: Path, profile: str, seconds: float) -> dict[str, Any]:
    case = CASES[name]
    path = zoo.prepare(case.model, folder)
    model = hetpart.partition(
        path,
        hardware=f"emulated+{profile}",
        placement="all-cpu",
        shape=dict(case.shape),
        threads=threads,
        access=None if case.access is None else dict(case.access),
    )
    predicted = model.plan.prediction.seconds
    feeds = _feeds(model)
    walls = _walls(model, feeds, threads, seconds)
    kernels = _kernels(model, feeds, threads, seconds)
    least = min(min(walls), sum(kernels.values()))
    row = {
        "case": name,
        "threads": threads,
        "predicted_seconds": predicted,
        "measured_seconds": least,
        "error": round(predicted / least - 1, 4),
        "median_seconds": median(walls),
        "least_seconds": min(walls),
        "kernels_seconds": sum(kernels.values()),
        "runs": len(walls),
        "rank_correlation": _rank_correlation(model, kernels),
    }
    say(
        f"latency_error: {name}, threads {threads}: {1e3 * predicted:.3f} ms predicted, {1e3 * least:.3f} measured, "
        f"{row['error']:+.1%}, median {1e3 * row['median_seconds']:.3f}, ranks {row['rank_correlation']}"
    )
    return row


def _feeds(model: PartitionedModel) -> dict[str, Any]:
    """Random inputs; masks say that every position counts, as a tokenizer's do for a text of full length."""
    feeds = random_feeds(model.plan.inputs, 0)
    return {name: np.ones_like(array) if "mask" in name else array for name, array in feeds.items()}


def _walls(model: PartitionedModel, feeds: Mapping[str, Any], threads: int, seconds: float) -> list[float]:
    with model.session(emulate=True, threads=threads) as session:
        session.run(None, feeds)
        return _timed(lambda: session.run(None, feeds), seconds)


def _timed(run: Any, seconds: float) -> list[float]:
    found: list[float] = []
    start = perf_counter()
    while len(found) < FEWEST_RUNS or (len(found) < MOST_RUNS and perf_counter() - start < seconds):
        began = perf_counter()
        run()
        found.append(perf_counter() - began)
    return found


def _kernels(model: PartitionedModel, feeds: Mapping[str, Any], threads: int, seconds: float) -> dict[str, float]:
    """Least seconds of every kernel in ONNX Runtime's profile, by its node's name."""
    (own,) = cut_models(model.imported.proto, model.plan)
    weights = Path(model.plan.model.folder) if model.plan.model.folder else None
    with tempfile.TemporaryDirectory() as folder:
        options = session_options(SessionSettings(threads=threads), weights)
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        session = onnxruntime.InferenceSession(own.SerializeToString(), options, providers=["CPUExecutionProvider"])
        session.run(None, dict(feeds))
        _timed(lambda: session.run(None, dict(feeds)), seconds)
        events = json.loads(Path(session.end_profiling()).read_text())
    least: dict[str, float] = {}
    for event in events:
        name = str(event["name"])
        if event.get("cat") == "Node" and name.endswith("_kernel_time"):
            name = name.removesuffix("_kernel_time")
            least[name] = min(least.get(name, inf), event["dur"] * 1e-6)
    return least


def _rank_correlation(model: PartitionedModel, kernels: Mapping[str, float]) -> float | None:
    """Spearman's, over ops that run under their own name: predicted seconds beside the profile's."""
    ops = zip(model.costs.graph.ops, model.costs.ops, strict=True)
    pairs = [(cost.seconds[0], kernels[op.name]) for op, cost in ops if op.name in kernels]
    if len(pairs) < FEWEST_RANKED:
        return None
    predicted, measured = (rankdata([pair[side] for pair in pairs]) for side in (0, 1))
    return round(float(np.corrcoef(predicted, measured)[0, 1]), 4)


if __name__ == "__main__":
    main()
