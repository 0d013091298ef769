"""What it takes to overwrite 100 rows of a table that is a state, beside ONNX Runtime with input and output aliased.

    python -m benchmarks.state_update [--gigabytes 0.025 2.5]

Both draw the same rows, new ones in every run, and run in turns. Reach: at most twice ONNX Runtime's median, and as
much for a small table as for a large one.
"""

from __future__ import annotations

import argparse
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import onnxruntime
from onnx import parser

import hetpart
from benchmarks.measure import emit, machine_facts, say

REACH = 2.0
ROWS, WIDTH, RUNS, WARM_UP = 100, 64, 300, 100
MODEL = """<ir_version: 10, opset_import: ["" : 21]>
update (float[{rows},64] table, int64[100,1] at, float[100,64] new) => (float[{rows},64] table_out) {{
    [set] table_out = ScatterND(table, at, new)
}}"""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--gigabytes", type=float, nargs="*", default=[0.025, 2.5])
    facts = machine_facts()
    tables = [_measured(round(size * 1e9) // (4 * WIDTH)) for size in arguments.parse_args().gigabytes]
    reached = all(table["ratio"] <= REACH for table in tables)
    emit("state_update", {"machine": facts, "reach": REACH, "reached": reached, "tables": tables})


def _measured(rows: int) -> dict[str, Any]:
    say(f"state_update: a table of {rows:,} rows")
    proto = parser.parse_model(MODEL.format(rows=rows))
    model = hetpart.partition(proto, hardware="emulated", placement="all-cpu", state="auto")
    bare = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    table = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros((rows, WIDTH), np.float32))
    binding = bare.io_binding()
    binding.bind_ortvalue_input("table", table)
    binding.bind_ortvalue_output("table_out", table)
    new = np.ones((ROWS, WIDTH), np.float32)
    binding.bind_cpu_input("new", new)
    ours, theirs = list[float](), list[float]()
    rng = np.random.default_rng(0)
    with model.session(emulate=True, threads=1) as session:
        for _ in range(WARM_UP + RUNS):
            at = rng.integers(0, rows, (ROWS, 1))
            start = perf_counter()
            binding.bind_cpu_input("at", at)
            bare.run_with_iobinding(binding)
            theirs.append(perf_counter() - start)
            start = perf_counter()
            session.run(None, {"at": at, "new": new})
            ours.append(perf_counter() - start)
        nbytes = session.state().nbytes
    medians = median(ours[WARM_UP:]), median(theirs[WARM_UP:])
    return {
        "state_bytes": nbytes,
        "seconds": medians[0],
        "aliased_seconds": medians[1],
        "ratio": medians[0] / medians[1],
    }


if __name__ == "__main__":
    main()
