"""ONNX's own backend tests through random placements, counted: what plain ONNX Runtime passes, hetpart must pass.

    python -m benchmarks.conformance [--seeds 0 1 2] [--three-lanes]

With ``--three-lanes`` ops are strewn over the processor and two emulated accelerators, whose lanes and copies always
work at the same time; otherwise seed by seed over what the tests take.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from time import perf_counter
from typing import Any

from benchmarks.measure import emit, machine_facts, say


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--three-lanes", action="store_true", help="two accelerators beside the processor, overlapped")
    arguments = parser.parse_args()
    facts = machine_facts()
    warnings.simplefilter("ignore")  # NumPy warns inside the reference evaluator that makes ONNX's test data
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ONNX_HOME"] = folder
        content = _measure(arguments.seeds, three_lanes=arguments.three_lanes)
    emit("conformance", {"machine": facts, "three_lanes": arguments.three_lanes, **content})
    sys.exit(0 if content["reached"] else 1)


def _measure(seeds: list[int], *, three_lanes: bool) -> dict[str, Any]:
    from tests.conformance.backends import SETUPS, THREE_LANES, OrtBackend
    from tests.conformance.outcomes import every_test, failures

    wanted = frozenset(every_test(OrtBackend))
    plain = {name for name, failure in failures(OrtBackend, wanted).items() if failure is None}
    say(f"conformance: {len(wanted)} tests, of which plain ONNX Runtime passes {len(plain)}")
    setups = [(THREE_LANES, True)] if three_lanes else SETUPS
    rows = [_row(seed, plain, setups[seed % len(setups)]) for seed in seeds]
    return {
        "reached": all(row["passed"] == len(plain) for row in rows),
        "tests": len(wanted),
        "plain_onnxruntime_passes": len(plain),
        "seeds": rows,
    }


def _row(seed: int, wanted: set[str], setup: tuple[str, bool]) -> dict[str, Any]:
    from tests.conformance.backends import Tally, hetpart_backend
    from tests.conformance.outcomes import failures

    tally, start = Tally(), perf_counter()
    backend = hetpart_backend(seed, tally, setup)
    failed = {name: why for name, why in failures(backend, wanted).items() if why is not None}
    row = {"seed": seed, "passed": len(wanted) - len(failed), "failed": failed, **tally.counts()}
    say(f"conformance: seed {seed}: {row}")
    return {**row, "seconds": round(perf_counter() - start, 1)}


if __name__ == "__main__":
    main()
