"""Deep decoders: how they are built, and how long it takes to plan them."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from itertools import pairwise
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

from benchmarks.measure import ROOT, say

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BEYOND = "1000TB"
"""A budget that leaves everything on the accelerator."""
PLANNING = "placing them"
"""The stage whose time counts."""
DECODERS: Mapping[str, Mapping[str, int]] = {
    "prompt-96": {"batch": 1, "seq": 128},
    "token-96": {"batch": 1, "seq": 1, "past": 1024},
}
"""Dimensions to bind."""
EXPORTED: Mapping[str, Mapping[str, int]] = {
    "decoder-96": {"batch": 1, "seq": 128},
    "gpt2-96": {"batch": 1, "seq": 1, "context": 1024},
}


def prepare(name: str, folder: Path) -> Path:
    """The model, which is kept; one that is exported is large and takes minutes."""
    path = folder / f"{name}.onnx"
    if not path.exists():
        say(f"planner_scale: writing {name}")
        folder.mkdir(parents=True, exist_ok=True)
        _build(name, path)
    return path


def _build(name: str, path: Path) -> None:
    if name in DECODERS:
        from benchmarks.models import op_by_op

        op_by_op.build(path, cache="past" in DECODERS[name])
        return
    from benchmarks.models import decoder, exported

    if "context" in EXPORTED[name]:
        exported.build(path, family="gpt2", n_layer=decoder.LAYERS)
    else:
        decoder.build(path)


def planned(folder: Path, name: str, hardware: str, share: str) -> dict[str, Any]:
    """One plan; the compiler names each stage as it begins."""
    import hetpart

    path, shape = folder / f"{name}.onnx", {**DECODERS, **EXPORTED}[name]
    everything = hetpart.partition(path, budget=BEYOND, hardware=hardware, shape=shape, placement="all-accelerator")
    budget = everything.plan.footprint_bytes * int(share) // 100
    marks: list[tuple[str, float, float]] = []
    made = hetpart.partition(
        path,
        budget=budget,
        hardware=hardware,
        shape=shape,
        progress=lambda stage: marks.append((stage, perf_counter(), process_time())),
    )
    marks.append(("", perf_counter(), process_time()))
    phases = {stage: round(end - start, 3) for (stage, start, _), (_, end, _) in pairwise(marks)}
    cpu_phases = {stage: round(end - start, 3) for (stage, _, start), (_, _, end) in pairwise(marks)}
    certificate = made.plan.certificate
    return {
        "model": name,
        "hardware": hardware,
        "nodes_in_file": _nodes(path),
        "ops": made.plan.model.ops,
        "budget_share": int(share) / 100,
        "budget_bytes": budget,
        "planning_seconds": phases[PLANNING],
        "planning_cpu_seconds": cpu_phases[PLANNING],
        "phases": phases,
        "cpu_phases": cpu_phases,
        "gap": certificate.gap,
        "cost": certificate.cost,
        "lower_bound": certificate.lower_bound,
        "partitions": len(made.plan.partitions),
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _nodes(path: Path) -> int:
    import onnx

    return len(onnx.load(path, load_external_data=False).graph.node)


def command_seconds(name: str, folder: Path, hardware: str, budget: int) -> float:
    """Of ``hetpart partition``, start of Python and writing included."""
    shape = ",".join(f"{dimension}={size}" for dimension, size in {**DECODERS, **EXPORTED}[name].items())
    with tempfile.TemporaryDirectory() as target:
        command = [
            sys.executable, "-m", "hetpart", "partition", str((folder / f"{name}.onnx").resolve()),
            "--budget", str(budget), "--hardware", hardware, "--shape", shape, "-o", f"{target}/plan.hetpart",
        ]  # fmt: skip
        start = perf_counter()
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return round(perf_counter() - start, 3)
