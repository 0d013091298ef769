"""Seconds, gap and memory of planning, from a thousand ops to a million, and of a deep decoder exported op by op.

    python -m benchmarks.planner_scale [--sizes 1000 10000 100000 1000000] [--transfers 1 2 5]
        [--no-decoder] [--exported]

The synthetic problem is a layered graph. Every op reads two values of the layer before and, one op in five, one from
further back. Seconds are drawn from gamma distributions. On average an op takes half as long again on the CPU as on the
accelerator, though each of them is the faster for many ops, and to copy a value takes half as long as an op on the
accelerator, times ``--transfers``. The budget is half of what everything on the accelerator holds at its peak. Sessions
cost nothing: the bound does not speak of them. What is timed is ``solve``: bound, baselines, placement and exact peak.

The decoder has 96 layers and some ten thousand nodes, as an exporter writes them op by op, and 5 billion parameters in
a sparse file: reading a prompt of 128 tokens, and one token with a cache of 1024. ``--exported`` adds GPT-2 small, 96
layers deep, exported by PyTorch. Planning runs from the annotated graph to a placement that fits; the whole run of
``hetpart partition``, from the file to a written bundle, is told beside it.
"""

from __future__ import annotations

import argparse
import json
import resource
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import decoders, zoo
from benchmarks.measure import emit, fresh_process, machine_facts, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from hetpart.partitioner.problem import PlacementProblem

SEED = 0
WIDTH = 64
"""Ops of a layer."""
SKIPS, FURTHEST = 0.2, 9
"""Share of ops that also read a value from two to so many layers back."""
SHAPE = 2.0
"""Of the gamma distributions: seconds of two ops differ by a factor of three as often as not."""
ACCELERATOR_SECONDS = 1e-4
CPU_SECONDS = 1.5 * ACCELERATOR_SECONDS
COPY_SECONDS = 0.5 * ACCELERATOR_SECONDS
WEIGHT_BYTES, VALUE_BYTES = 1_000_000, 16_000

SIZES = (1_000, 10_000, 100_000, 1_000_000)
TRANSFERS = (1, 2, 5)
REACH_GAP, REACH_EXPONENT = 0.01, 1.3
MILLION_SECONDS, MILLION_BYTES = 60.0, 4_000_000_000
DECODER_SECONDS = 10.0
TIME_LIMIT = 30.0
SHARES = (25, 50, 75)
"""Budgets of the decoder in per cent of its footprint."""
HARDWARE = ("l4+generic-2core", "rtx-4090+ryzen+pcie4")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES, metavar="OPS")
    parser.add_argument("--transfers", nargs="*", type=int, default=TRANSFERS, metavar="FACTOR")
    parser.add_argument("--no-decoder", action="store_true", help="only the synthetic graphs")
    parser.add_argument("--exported", action="store_true", help="decoders that PyTorch exports, too: GBs and minutes")
    parser.add_argument("--hardware", nargs="*", default=HARDWARE, metavar="NAME", help="for the decoders")
    parser.add_argument("--zoo", type=Path, default=zoo.DEFAULT_FOLDER, help="folder of the built models")
    parser.add_argument("--child", nargs="+", metavar="TASK", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(_child(arguments.zoo, *arguments.child)))
        return
    facts = machine_facts()
    grown = [_synthetic(ops, 1) for ops in arguments.sizes]
    slower = [_synthetic(max(arguments.sizes), factor) for factor in arguments.transfers if factor != 1]
    names = [] if arguments.no_decoder else [*decoders.DECODERS, *(decoders.EXPORTED if arguments.exported else ())]
    deep = [row for name in names for row in _decoders(name, arguments.zoo, arguments.hardware)]
    exponents = {kind: exponent(grown, kind) for kind in ("seconds", "cpu_seconds")}
    verdict = _verdict(grown, exponents["seconds"], deep)
    rows = {"growth": exponents, "synthetic": grown, "slower_transfers": slower, "decoders": deep}
    emit("planner_scale", {"machine": facts, "seed": SEED, **verdict, **rows})


def _synthetic(ops: int, transfers: int) -> dict[str, Any]:
    say(f"planner_scale: {ops:,} ops, transfers x{transfers}")
    return fresh_process("benchmarks.planner_scale", "--child", "synthetic", str(ops), str(transfers))


def exponent(rows: list[dict[str, Any]], kind: str) -> float | None:
    """Of seconds as a power of ops: least squares in logarithms. Nothing where there is one size."""
    sizes, seconds = (np.log([row[key] for row in rows]) for key in ("ops", kind))
    return round(float(np.polyfit(sizes, seconds, 1)[0]), 3) if len(rows) > 1 else None


def _verdict(grown: list[dict[str, Any]], growth: float | None, deep: list[dict[str, Any]]) -> dict[str, Any]:
    million = [row for row in grown if row["ops"] >= SIZES[-1]]
    reached = {
        "million_gap": _every(row["gap"] <= REACH_GAP for row in million),
        "million_seconds": _every(row["seconds"] <= MILLION_SECONDS for row in million),
        "million_memory": _every(row["peak_rss_bytes"] <= MILLION_BYTES for row in million),
        "exponent": None if growth is None else growth <= REACH_EXPONENT,
        "decoder_gap": _every(row["gap"] <= REACH_GAP for row in deep),
        "decoder_seconds": _every(row["planning_seconds"] <= DECODER_SECONDS for row in deep),
        "decoder_cpu_seconds": _every(row["planning_cpu_seconds"] <= DECODER_SECONDS for row in deep),
    }
    return {"reached": reached}


def _every(held: Iterable[bool]) -> bool | None:
    """Whether all rows hold; nothing where none was measured."""
    known = list(held)
    return all(known) if known else None


def _child(folder: Path, task: str, *options: str) -> dict[str, Any]:
    if task == "synthetic":
        return _solved(int(options[0]), float(options[1]))
    return decoders.planned(folder, *options)


def _solved(ops: int, transfers: float) -> dict[str, Any]:
    from hetpart.partitioner.search.solve import solve

    problem = layered(ops, transfers)
    start, cpu_start = perf_counter(), process_time()
    solution = solve(problem, time_limit=TIME_LIMIT)
    seconds, cpu_seconds = perf_counter() - start, process_time() - cpu_start
    return {
        "ops": ops,
        "transfers": transfers,
        "seconds": round(seconds, 3),
        "cpu_seconds": round(cpu_seconds, 3),
        "gap": solution.gap,
        "cost": solution.cost,
        "lower_bound": solution.lower_bound,
        "peak_over_budget": float(solution.usage.peak[1] / problem.budgets[1]),
        "on_accelerator": float(solution.placement.mean()),
        "partitions": solution.cut.partitions,
        "best_rule_cost": min(other.cost for other in solution.baselines if other.fits),
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def layered(ops: int, transfers: float, seed: int = SEED) -> PlacementProblem:
    """The synthetic problem; see above."""
    from dataclasses import replace

    from hetpart.partitioner.problem import NO_BUDGET, PlacementProblem
    from hetpart.partitioner.scores.cut import cut
    from hetpart.partitioner.scores.liveness import usage
    from hetpart.partitioner.uses import Uses

    rng = np.random.default_rng(seed)
    offsets, readers = _readers(rng, ops)
    copies = np.zeros((2, 2, ops))
    copies[0, 1] = copies[1, 0] = _drawn(rng, COPY_SECONDS * transfers, ops)
    problem = PlacementProblem(
        devices=("cpu", "cuda:0"),
        seconds=np.stack([_drawn(rng, CPU_SECONDS, ops), _drawn(rng, ACCELERATOR_SECONDS, ops)]),
        groups=np.arange(ops, dtype=np.int32),
        scratch_bytes=np.zeros(ops, np.int64),
        value_producer=np.arange(ops, dtype=np.int32),
        value_left_on_host=np.zeros(ops, np.bool_),
        value_returned=np.diff(offsets) == 0,
        value_bytes=_drawn(rng, VALUE_BYTES, ops).astype(np.int64),
        value_uses=Uses(offsets, readers, np.zeros(len(readers), np.bool_)),
        copy_seconds=copies,
        weight_bytes=_drawn(rng, WEIGHT_BYTES, ops).astype(np.int64),
        weight_uses=Uses(np.arange(ops + 1), np.arange(ops, dtype=np.int32), np.zeros(ops, np.bool_)),
        budgets=np.array([NO_BUDGET, NO_BUDGET]),
        session_seconds=np.zeros(2),
        session_bytes=np.zeros(2, np.int64),
    )
    everything = np.ones(ops, np.int8)
    footprint = int(usage(problem, everything, cut(problem, everything)).peak[1])
    return replace(problem, budgets=np.array([NO_BUDGET, footprint // 2]))


def _drawn(rng: np.random.Generator, mean: float, count: int) -> NDArray[np.float64]:
    return rng.gamma(SHAPE, mean / SHAPE, count)


def _readers(rng: np.random.Generator, ops: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The ops that read each op's value, as compressed rows."""
    op, layer = np.arange(ops), np.arange(ops) // WIDTH
    back = [np.ones(ops, np.int64), np.ones(ops, np.int64), rng.integers(2, FURTHEST + 1, ops)]
    reads = [layer >= 1, layer >= 1, (rng.random(ops) < SKIPS)]
    makers = [(layer - steps) * WIDTH + rng.integers(0, WIDTH, ops) for steps in back]
    kept = [read & (layer >= steps) for read, steps in zip(reads, back, strict=True)]
    maker = np.concatenate([found[keep] for found, keep in zip(makers, kept, strict=True)])
    reader = np.concatenate([op[keep] for keep in kept])
    maker, reader = np.divmod(np.unique(maker * ops + reader), ops)
    return np.searchsorted(maker, np.arange(ops + 1)), reader.astype(np.int32)


def _decoders(name: str, folder: Path, hardware: Sequence[str]) -> list[dict[str, Any]]:
    decoders.prepare(name, folder)
    return [_decoder(name, folder, machine, share) for machine in hardware for share in SHARES]


def _decoder(name: str, folder: Path, hardware: str, share: int) -> dict[str, Any]:
    say(f"planner_scale: {name}, {hardware}, {share} %")
    options = ("--zoo", str(folder.resolve()), "--child", "decoder", name, hardware, str(share))
    row = fresh_process("benchmarks.planner_scale", *options)
    say(f"planner_scale: gap {row['gap']:.4f} in {row['planning_cpu_seconds']:.1f} s of CPU")
    return {**row, "command_seconds": decoders.command_seconds(name, folder, hardware, row["budget_bytes"])}


if __name__ == "__main__":
    main()
